//! Lazy asynchronous I/O for Linux.
mod attempt;
mod background;
mod blocking;
mod call;
mod context;
mod descriptors;
mod errno;
mod facts;
#[doc(hidden)]
pub mod measure;
mod mounts;
mod operation;
pub mod ops;
mod options;
mod poll;
pub mod probe;
mod route;
mod stats;
mod sys;
pub mod table;
mod transfer;
mod typed;

pub use background::doorbell::Notifier;
pub use call::{Call, Completion, Handle, Outcome};
pub use context::Context;
pub use errno::Errno;
pub use mounts::{Mount, Place};
pub use options::{BackPressure, BackendKind, Inject, Limits, Options};
pub use stats::{Counts, Stats};
pub use typed::{Operation, Submitted, Ticket};
