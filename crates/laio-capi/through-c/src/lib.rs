//! The part of the crate `laio` that its contract suite uses, under the same names, over the C API.
//!
//! `tests/contract.rs` runs the suite with this crate in the place of `laio`: what is promised of
//! the engine is then held against `laio.h` too, in every back end and mode. Words that stand for nothing but
//! themselves (a call, an error, a back end's name) are those of `laio`; everything that acts goes through
//! the functions of `c`, used as a C program uses them.
//!
//! It is not a binding for others to use: it checks on the way what the header promises, and panics if it is
//! not so.

mod c;
mod context;
mod options;
mod stats;

pub use context::{Context, Notifier};
pub use laio::{
    BackPressure, BackendKind, Call, Completion, Counts, Errno, Handle, Inject, Limits, Outcome,
};
pub use options::Options;
pub use stats::Stats;

use libc::{c_int, c_long};

/// What a function that returns a number has returned; to be asked before another is called.
fn returned(value: c_long) -> Result<usize, Errno> {
    match value {
        -1 => Err(std::io::Error::last_os_error().into()),
        value => Ok(value as usize),
    }
}

/// What a function that returns 0 has returned.
fn succeeded(value: c_int) -> Result<(), Errno> {
    returned(value.into()).map(|value| assert_eq!(value, 0))
}
