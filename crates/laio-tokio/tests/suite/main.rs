//! The crate's tests, in one program. The oracle is `tokio::fs`: the same program runs with both.

mod names;
mod ranges;
mod streams;
mod support;
