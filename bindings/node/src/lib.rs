//! The addon of laio for Node.js: makes calls for the package's JavaScript, which gives them the names and
//! the errors of `node:fs/promises`.
//!
//! Each call returns an [`answer::Answer`]: its value, an error, or the number under which it goes on.

// What `napi` generates is allowed by its own attributes.
#![deny(unsafe_code)]

mod answer;
mod attributes;
mod copy;
mod copy_tree;
mod directory;
mod engine;
mod files;
mod names;
mod path;
mod places;
mod responses;
mod spares;
mod stalls;
mod status;
mod whole;
