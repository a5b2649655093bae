#![forbid(unsafe_code)]
//! What a machine allows, and what calls and programs cost on it: plainly, through each back end of laio, and by
//! other tools.
//!
//! No test asserts a time; times are measured here.

pub mod activations;
mod caches;
pub mod calls;
mod child;
pub mod content;
pub mod copy;
mod error;
pub mod info;
pub mod load;
pub mod machine;
pub mod order;
mod pin;
pub mod plot;
pub mod published;
pub mod record;
pub mod report;
mod round_robin;
pub mod sheet;
pub mod statistics;
mod stop;
mod strategy;
mod text;
pub mod trace;
pub mod trees;

pub use error::Error;
pub use stop::Stop;
