//! The crate's tests, in one program.

mod failing_calls;
mod store;
