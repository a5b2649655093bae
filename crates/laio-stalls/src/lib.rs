#![forbid(unsafe_code)]
#![allow(dead_code)]
//! Finds what blocks the event loops of other programs: system calls, locks, page faults, and waits for a
//! processor.
//!
//! [`Watch`] looks at the threads of a process and of its children. [`Report`] has what was found.

mod calls;
mod candidates;
mod describe;
mod idle;
mod mappings;
mod memory;
mod proc_files;
mod processes;
mod report;
mod sockets;
mod thread;
mod waits;
mod watch;

pub use report::{Cause, Details, Entry, Key, Means, Moment, Report};
pub use watch::{Watch, WatchOptions};
