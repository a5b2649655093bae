#![forbid(unsafe_code)]
//! The laio command.
fn main() {}
