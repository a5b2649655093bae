//! The workers of a tokio runtime: their turns, and their threads.
//!
//! The runtime does not say which thread a worker is. Tasks of the watch tell the threads that run them.

use laio_stalls::{KnownThreads, OwnThread, TurnCounts, WatchedRuntime};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How long a task of the watch holds its worker, so that other workers take the other ones.
const HOLD: Duration = Duration::from_millis(2);

/// The time between two searches for threads. It doubles up to the second one.
const SEARCH_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// The workers of a tokio runtime.
pub struct TokioWorkers {
    handle: Handle,
    threads: Arc<KnownThreads>,
    next_search: Instant,
    pause: Duration,
}

impl WatchedRuntime for TokioWorkers {
    const WHEN_RUNNING: &'static str =
        "not a call: a task runs without a pause; `spawn_blocking` or `yield_now` is for that";

    fn current() -> io::Result<TokioWorkers> {
        let handle = Handle::try_current().map_err(io::Error::other)?;
        let own = OwnThread::current()?;
        let threads = Arc::new(KnownThreads::default());
        if handle.runtime_flavor() != RuntimeFlavor::MultiThread {
            threads.add(own);
        }
        Ok(TokioWorkers {
            handle,
            threads,
            next_search: Instant::now(),
            pause: SEARCH_PAUSES[0],
        })
    }

    fn workers(&self) -> usize {
        self.handle.metrics().num_workers()
    }

    fn turns(&self, worker: usize) -> TurnCounts {
        let metrics = self.handle.metrics();
        let busy = metrics.worker_total_busy_duration(worker);
        (metrics.worker_park_unpark_count(worker), busy)
    }

    fn threads(&self) -> Arc<KnownThreads> {
        self.threads.clone()
    }

    /// Sends tasks to the workers if some are not known.
    fn find_threads(&mut self) {
        let workers = self.workers();
        if self.threads.count() < workers && Instant::now() >= self.next_search {
            for _ in 0..workers {
                self.handle.spawn(probe(self.threads.clone(), workers));
            }
            self.next_search = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(SEARCH_PAUSES[1]);
        }
    }
}

impl fmt::Debug for TokioWorkers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokioWorkers")
            .finish_non_exhaustive()
    }
}

/// Tells on which thread it runs, and holds it until the other workers have done so.
async fn probe(threads: Arc<KnownThreads>, workers: usize) {
    if let Ok(thread) = OwnThread::current() {
        threads.add(thread);
        threads.wait_for(workers, HOLD);
    }
}
