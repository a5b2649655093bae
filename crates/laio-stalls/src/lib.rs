#![forbid(unsafe_code)]
// What the watch needs is not used where only threads of one's own process are looked at.
#![cfg_attr(not(feature = "watch"), allow(dead_code))]
//! Finds what blocks the event loops of other programs: system calls, locks, page faults, and waits for a
//! processor.
//!
//! `Watch` looks at the threads of a process and of its children. [`Report`] has what was found.
//! [`OwnThread`] is for programs that watch themselves; without the feature `watch` there is nothing else,
//! and the crate needs no reader of symbols. With it, `RuntimeWatch` watches the workers of a runtime from
//! within the program.

mod calls;
#[cfg(feature = "watch")]
mod candidates;
mod describe;
mod description;
mod html;
mod idle;
#[cfg(feature = "watch")]
mod json;
mod mappings;
mod memory;
mod own;
mod proc_files;
#[cfg(feature = "watch")]
mod processes;
#[cfg(feature = "watch")]
mod python;
#[cfg(feature = "watch")]
mod records;
mod report;
#[cfg(feature = "watch")]
mod runtime;
mod sockets;
mod stack;
#[cfg(feature = "watch")]
mod switch_rate;
#[cfg(feature = "watch")]
mod symbols;
mod text;
#[cfg(feature = "watch")]
mod thread;
#[cfg(feature = "watch")]
mod waits;
#[cfg(feature = "watch")]
mod watch;

pub use html::html;
#[cfg(feature = "watch")]
pub use json::json;
pub use own::{OwnLook, OwnThread, Place};
pub use report::{Cause, Details, Entry, Key, Means, Moment, Report};
#[cfg(feature = "watch")]
pub use runtime::{
    DEFAULT_OVER, KnownThreads, MAX_REPORTS, REPORT_INTERVAL, RuntimeWatch, Stall, StallCause,
    TurnCounts, WatchGuard, WatchedRuntime,
};
pub use stack::Frame;
pub use text::{length, means, text};
#[cfg(feature = "watch")]
pub use watch::{Watch, WatchOptions};
