#![forbid(unsafe_code)]
//! Finds what blocks the event loops of other programs: system calls, locks, page faults, and waits for a
//! processor.
//!
//! [`Watch`] looks at the threads of a process and of its children. [`Report`] has what was found.
//! [`OwnThread`] is for programs that watch themselves.

mod calls;
mod candidates;
mod describe;
mod html;
mod idle;
mod json;
mod mappings;
mod memory;
mod own;
mod proc_files;
mod processes;
mod records;
mod report;
mod sockets;
mod stack;
mod symbols;
mod text;
mod thread;
mod waits;
mod watch;

pub use html::html;
pub use json::json;
pub use own::{OwnLook, OwnThread, Place};
pub use report::{Cause, Details, Entry, Key, Means, Moment, Report};
pub use stack::Frame;
pub use text::{length, means, text};
pub use watch::{Watch, WatchOptions};
