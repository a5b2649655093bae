//! Warns when a worker of the runtime does not turn: a task holds it up, and all other tasks of the worker
//! wait, as do timers and sockets.
//!
//! ```no_run
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let _watch = laio_tokio::stalls::watch()?;
//!     std::fs::read("/mnt/nfs/report.csv")?; // stands still: a warning after 100 ms
//!     Ok(())
//! }
//! ```
//!
//! A worker turns when it looks for events: before it sleeps, and after some tasks (`event_interval`, 61) at
//! the latest. The counts of [`tokio::runtime::RuntimeMetrics`] show that; tasks and workers do nothing for
//! it. A thread of its own looks at them, and at `/proc/self/task` when a worker is late. No thread is
//! stopped.
//!
//! `docs/stalls.md` says what a warning contains, and what it can miss.

mod workers;

pub use laio_stalls::StallCause as Cause;
pub use laio_stalls::{DEFAULT_OVER, MAX_REPORTS, REPORT_INTERVAL, Stall, WatchGuard};
pub use workers::TokioWorkers;

use std::io;

/// What to watch for. For a current-thread runtime, drop the guard in the same `block_on`: between two of
/// them no worker turns.
pub type Watch = laio_stalls::RuntimeWatch<TokioWorkers>;

/// Watches the runtime in which it is called, until the guard is dropped. Writes to the standard error if a
/// worker has not turned for [`DEFAULT_OVER`].
///
/// # Errors
/// As [`Watch::start`].
pub fn watch() -> io::Result<WatchGuard> {
    Watch::new().start()
}
