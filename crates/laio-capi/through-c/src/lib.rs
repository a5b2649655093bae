//! The part of the crate `laio` that its contract suite uses, under the same names, over the C API.
//!
//! `tests/contract.rs` runs the suite with this crate in the place of `laio`, which tests the
//! contract through `laio.h` too, in every back end and in two modes. Plain values (a call, an error, a
//! back end's name) are the types of `laio`; all functions go through `c`, used as a C program uses
//! them.
//!
//! It is not a binding for other programs: it asserts what the header promises, and panics on a
//! violation.

mod c;
mod context;
mod options;
mod stats;

pub use context::{Context, Info, Notifier};
pub use laio::{
    BackPressure, BackendKind, Call, Completion, Counts, Errno, Handle, Limits, Outcome,
    PollOptions, testing,
};
pub use options::Options;
pub use stats::Stats;

use libc::{c_int, c_long};

/// Converts the result of a function that returns a number. It reads `errno`, so call it before
/// another function.
fn returned(value: c_long) -> Result<usize, Errno> {
    match value {
        -1 => Err(std::io::Error::last_os_error().into()),
        value => Ok(value as usize),
    }
}

/// Converts the result of a function that returns 0 or -1.
fn succeeded(value: c_int) -> Result<(), Errno> {
    returned(value.into()).map(|value| assert_eq!(value, 0))
}
