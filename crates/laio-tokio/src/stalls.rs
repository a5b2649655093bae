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

mod stall;
mod threads;
mod turns;

pub use stall::{Cause, Stall};

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use threads::WorkerThreads;
use tokio::runtime::Handle;
use turns::{Turn, WorkerTurns};

/// How long a worker may go without a turn, unless [`Watch::over`] says otherwise.
pub const DEFAULT_OVER: Duration = Duration::from_millis(100);

/// How many stalls are reported in each [`REPORT_INTERVAL`]. [`Stall::unreported`] counts the others.
pub const MAX_REPORTS: u32 = 10;

/// The time for [`MAX_REPORTS`].
pub const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The shortest and the longest time between two looks: a quarter of what a worker may take, within these.
const PERIODS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// How long a thread may take to start.
const START: Duration = Duration::from_secs(1);

type Callback = Box<dyn FnMut(&Stall) + Send>;

/// Watches the runtime in which it is called, until the guard is dropped. Writes to the standard error if a
/// worker has not turned for [`DEFAULT_OVER`].
///
/// # Errors
/// As [`Watch::start`].
pub fn watch() -> io::Result<WatchGuard> {
    Watch::new().start()
}

/// What to watch for.
pub struct Watch {
    over: Duration,
    with_stack: bool,
    callback: Callback,
}

/// Ends the watch when it is dropped.
#[derive(Debug)]
#[must_use = "the watch ends when the guard is dropped"]
pub struct WatchGuard {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<WatchCounts>,
}

#[derive(Debug, Default)]
struct WatchCounts {
    looks: AtomicU64,
    stalls: AtomicU64,
    threads: AtomicU64,
}

impl Watch {
    /// The settings of [`watch`].
    pub fn new() -> Watch {
        Watch {
            over: DEFAULT_OVER,
            with_stack: true,
            callback: Box::new(|stall| eprintln!("laio: {stall}")),
        }
    }

    /// How long a worker may go without a turn. Looks come four times as often, at most every millisecond.
    pub fn over(mut self, over: Duration) -> Watch {
        self.over = over;
        self
    }

    /// Whether a stall has the functions of the program. Naming them reads the program's symbols: that takes
    /// as much memory as the program's file for a moment, and some processor time, of the watching thread.
    pub fn with_stack(mut self, with_stack: bool) -> Watch {
        self.with_stack = with_stack;
        self
    }

    /// Calls this for each stall, on the watching thread, in place of writing to the standard error.
    pub fn on_stall(mut self, callback: impl FnMut(&Stall) + Send + 'static) -> Watch {
        self.callback = Box::new(callback);
        self
    }

    /// Begins to watch the runtime in which it is called. For a current-thread runtime, drop the guard in
    /// the same `block_on`: between two of them no worker turns.
    ///
    /// # Errors
    /// Outside of a runtime, without `/proc`, or if no thread can be started.
    pub fn start(self) -> io::Result<WatchGuard> {
        let handle = Handle::try_current().map_err(io::Error::other)?;
        let threads = WorkerThreads::of(&handle)?;
        let counts = Arc::new(WatchCounts::default());
        let (end, ended) = mpsc::channel();
        let watcher = Watcher {
            workers: vec![WorkerTurns::default(); handle.metrics().num_workers()],
            handle,
            threads,
            counts: counts.clone(),
            reports: Reports::default(),
            watch: self,
        };
        let builder = std::thread::Builder::new().name("laio-stalls".to_owned());
        let thread = builder.spawn(move || watcher.run(&ended))?;
        Ok(WatchGuard {
            end: Some(end),
            thread: Some(thread),
            counts,
        })
    }
}

impl WatchGuard {
    /// How often the watch has looked at the workers.
    pub fn looks(&self) -> u64 {
        self.counts.looks.load(Ordering::Relaxed)
    }

    /// How many threads of workers it knows. A worker whose thread is not known yet is reported without its
    /// call ([`Cause::Unknown`]).
    pub fn threads(&self) -> u64 {
        self.counts.threads.load(Ordering::Relaxed)
    }

    /// How many stalls it has seen, with those that were not reported.
    pub fn stalls(&self) -> u64 {
        self.counts.stalls.load(Ordering::Relaxed)
    }
}

/// Waits for a callback that runs, unless the callback itself drops the guard.
impl Drop for WatchGuard {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A callback that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Watch");
        fields.field("over", &self.over);
        fields.field("with_stack", &self.with_stack);
        fields.finish_non_exhaustive()
    }
}

/// The watching thread.
struct Watcher {
    watch: Watch,
    handle: Handle,
    workers: Vec<WorkerTurns>,
    threads: WorkerThreads,
    counts: Arc<WatchCounts>,
    reports: Reports,
}

impl Watcher {
    fn run(mut self, ended: &mpsc::Receiver<()>) {
        let period = (self.watch.over / 4).clamp(PERIODS[0], PERIODS[1]);
        let mut last = Instant::now();
        while ended.recv_timeout(period) == Err(mpsc::RecvTimeoutError::Timeout) {
            let known = self.threads.find(&self.handle);
            self.counts.threads.store(known as u64, Ordering::Relaxed);
            // While this thread had no processor, or the process was stopped, the workers may not have run
            // either.
            let time = last.elapsed().min(period * 2);
            last = Instant::now();
            self.look(time);
            self.counts.looks.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn look(&mut self, time: Duration) {
        let metrics = self.handle.metrics();
        let mut stalled = Vec::new();
        let mut is_late = false;
        let have_started = self.threads.are_complete();
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let parks = metrics.worker_park_unpark_count(index);
            let busy = metrics.worker_total_busy_duration(index);
            // Without a turn so far, its thread may not have started.
            let start = if parks == 0 && !have_started {
                START
            } else {
                Duration::ZERO
            };
            match worker.look(time, (parks, busy), self.watch.over + start) {
                Turn::Recent => {}
                Turn::Late => is_late = true,
                Turn::Stalled => stalled.push(index),
            }
        }
        let reported = if stalled.is_empty() {
            0
        } else {
            self.report(&stalled)
        };
        // Their threads have run for a moment, as far as can be seen.
        for index in &stalled[reported..] {
            self.workers[*index].report_later();
            is_late = true;
        }
        if is_late {
            self.threads.remember();
        }
    }

    /// Reports workers that have stalled. Returns how many, because for the last ones no thread may be found
    /// that stands still.
    fn report(&mut self, stalled: &[usize]) -> usize {
        let half = self.watch.over / 2;
        let parked = self
            .workers
            .iter()
            .filter(|worker| worker.is_parked_for(half));
        let places = self.threads.places(parked.count(), stalled.len());
        let found = places.len().min(stalled.len());
        for (index, thread) in stalled.iter().zip(places) {
            let time = self.workers[*index].time();
            self.counts.stalls.fetch_add(1, Ordering::Relaxed);
            let Some(unreported) = self.reports.admit(Instant::now()) else {
                continue;
            };
            let stall = match thread {
                Some(thread) => self.threads.stall(&thread, time, self.watch.with_stack),
                None => Stall::of_unknown_thread(time),
            };
            (self.watch.callback)(&Stall {
                unreported,
                ..stall
            });
        }
        found
    }
}

/// Limits the number of reports.
#[derive(Default)]
struct Reports {
    began: Option<Instant>,
    reported: u32,
    unreported: u64,
}

impl Reports {
    /// Whether a stall may be reported now; and how many were not since the last one that was.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self
            .began
            .is_none_or(|began| now - began >= REPORT_INTERVAL)
        {
            self.began = Some(now);
            self.reported = 0;
        }
        if self.reported == MAX_REPORTS {
            self.unreported += 1;
            return None;
        }
        self.reported += 1;
        Some(std::mem::take(&mut self.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_limited() {
        let mut reports = Reports::default();
        let now = Instant::now();
        let admitted = (0..25).filter_map(|_| reports.admit(now));
        assert_eq!(admitted.collect::<Vec<_>>(), [0; MAX_REPORTS as usize]);
        assert_eq!(reports.admit(now + REPORT_INTERVAL), Some(15));
        assert_eq!(reports.admit(now + REPORT_INTERVAL), Some(0));
    }
}
