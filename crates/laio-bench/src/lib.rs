#![forbid(unsafe_code)]
//! What a machine allows, and what calls cost on it: plainly, and through each back end of laio.
//!
//! No test asserts a time; times are measured here.

pub mod activations;
pub mod calls;
mod error;
pub mod info;
mod machine;
mod pin;
pub mod statistics;
mod text;

pub use error::Error;
