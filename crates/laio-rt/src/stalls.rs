//! Warns when the runtime does not turn: a task holds it up, and all other tasks wait.
//!
//! ```no_run
//! let runtime = laio_rt::Runtime::new(laio::Options::new())?;
//! runtime.block_on(async {
//!     let _watch = laio_rt::stalls::watch()?;
//!     std::fs::read("/mnt/nfs/report.csv") // stands still: a warning after 100 ms
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The runtime turns when it reaps completions: before it sleeps, and after
//! [`TASKS_PER_TURN`](crate::limits::TASKS_PER_TURN) polls of tasks at the latest. It counts its turns with
//! or without a watch. A thread of its own looks at the count, and at `/proc/self/task` when the runtime is
//! late. No thread is stopped. Outside of `Runtime::block_on` no stall is seen.
//!
//! `docs/stalls.md` says what a warning contains, and what it can miss.

pub use laio_stalls::StallCause as Cause;
pub use laio_stalls::{DEFAULT_OVER, MAX_REPORTS, REPORT_INTERVAL, Stall, WatchGuard};

use crate::executor::Core;
use crate::turns::Turns;
use laio_stalls::{KnownThreads, OwnThread, TurnCounts, WatchedRuntime};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What to watch for.
pub type Watch = laio_stalls::RuntimeWatch<OneWorker>;

/// Watches the runtime in which it is called, until the guard is dropped. Writes to the standard error if it
/// has not turned for [`DEFAULT_OVER`].
///
/// # Errors
/// As [`Watch::start`].
pub fn watch() -> io::Result<WatchGuard> {
    Watch::new().start()
}

/// The thread of a runtime, which is its only worker.
#[derive(Debug)]
pub struct OneWorker {
    turns: Arc<Turns>,
    threads: Arc<KnownThreads>,
}

impl WatchedRuntime for OneWorker {
    const WHEN_RUNNING: &'static str =
        "not a call: a task runs without a pause; a thread or `yield_now` is for that";

    fn current() -> io::Result<OneWorker> {
        let outside = "laio_rt::stalls is used outside of Runtime::block_on";
        let core = Core::try_current().ok_or_else(|| io::Error::other(outside))?;
        let threads = Arc::new(KnownThreads::default());
        threads.add(OwnThread::current()?);
        Ok(OneWorker {
            turns: core.turns.clone(),
            threads,
        })
    }

    fn workers(&self) -> usize {
        1
    }

    fn turns(&self, _worker: usize) -> TurnCounts {
        (self.turns.count(), Duration::ZERO)
    }

    fn threads(&self) -> Arc<KnownThreads> {
        self.threads.clone()
    }
}
