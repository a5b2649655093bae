//! Warns when a worker of this program's runtime does not turn: what the runtimes have in common.
//!
//! A worker turns when it looks for events. The runtime counts that. A thread of the watch looks at the
//! counts, and at `/proc/self/task` when a worker is late. No thread is stopped.

mod stall;
mod threads;
mod turns;

pub use stall::{Stall, StallCause};
pub use threads::KnownThreads;
pub use turns::TurnCounts;

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use threads::WorkerThreads;
use turns::{Turn, WorkerTurns};

/// How long a worker may go without a turn, unless [`RuntimeWatch::over`] says otherwise.
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

/// A runtime whose workers are watched.
pub trait WatchedRuntime: Send + Sized + 'static {
    /// What a task can do that computes.
    const WHEN_RUNNING: &'static str;

    /// The runtime in which it is called.
    ///
    /// # Errors
    /// Outside of a runtime, or without `/proc`.
    fn current() -> io::Result<Self>;

    /// How many workers it has.
    fn workers(&self) -> usize;

    /// The turns of a worker. They change when it looks for events.
    fn turns(&self, worker: usize) -> TurnCounts;

    /// The threads of the workers, as far as they are known.
    fn threads(&self) -> Arc<KnownThreads>;

    /// Looks for threads that are not known yet. It is called before each look.
    fn find_threads(&mut self) {}
}

/// What to watch a runtime for.
pub struct RuntimeWatch<R> {
    over: Duration,
    with_stack: bool,
    callback: Callback,
    runtime: PhantomData<fn() -> R>,
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

impl<R: WatchedRuntime> RuntimeWatch<R> {
    /// The usual settings: [`DEFAULT_OVER`], with the functions, to the standard error.
    pub fn new() -> RuntimeWatch<R> {
        RuntimeWatch {
            over: DEFAULT_OVER,
            with_stack: true,
            callback: Box::new(|stall| eprintln!("laio: {stall}")),
            runtime: PhantomData,
        }
    }

    /// How long a worker may go without a turn. Looks come four times as often, at most every millisecond.
    pub fn over(mut self, over: Duration) -> Self {
        self.over = over;
        self
    }

    /// Whether a stall has the functions of the program. Naming them reads the program's symbols: that takes
    /// as much memory as the program's file for a moment, and some processor time, of the watching thread.
    pub fn with_stack(mut self, with_stack: bool) -> Self {
        self.with_stack = with_stack;
        self
    }

    /// Calls this for each stall, on the watching thread, in place of writing to the standard error.
    pub fn on_stall(mut self, callback: impl FnMut(&Stall) + Send + 'static) -> Self {
        self.callback = Box::new(callback);
        self
    }

    /// Begins to watch the runtime in which it is called.
    ///
    /// # Errors
    /// Outside of a runtime, without `/proc`, or if no thread can be started.
    pub fn start(self) -> io::Result<WatchGuard> {
        let runtime = R::current()?;
        let counts = Arc::new(WatchCounts::default());
        let (end, ended) = mpsc::channel();
        let watcher = Watcher {
            workers: vec![WorkerTurns::default(); runtime.workers()],
            threads: WorkerThreads::new(runtime.threads(), runtime.workers()),
            runtime,
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
    /// call ([`StallCause::Unknown`]).
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

impl<R: WatchedRuntime> Default for RuntimeWatch<R> {
    fn default() -> Self {
        RuntimeWatch::new()
    }
}

impl<R> fmt::Debug for RuntimeWatch<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("RuntimeWatch");
        fields.field("over", &self.over);
        fields.field("with_stack", &self.with_stack);
        fields.finish_non_exhaustive()
    }
}

/// The watching thread.
struct Watcher<R> {
    watch: RuntimeWatch<R>,
    runtime: R,
    workers: Vec<WorkerTurns>,
    threads: WorkerThreads,
    counts: Arc<WatchCounts>,
    reports: Reports,
}

impl<R: WatchedRuntime> Watcher<R> {
    fn run(mut self, ended: &mpsc::Receiver<()>) {
        let period = (self.watch.over / 4).clamp(PERIODS[0], PERIODS[1]);
        let mut last = Instant::now();
        while ended.recv_timeout(period) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.runtime.find_threads();
            let known = self.threads.count();
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
        let mut stalled = Vec::new();
        let mut is_late = false;
        let have_started = self.threads.are_complete();
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let counts = self.runtime.turns(index);
            // Without a turn so far, its thread may not have started.
            let start = if counts.0 == 0 && !have_started {
                START
            } else {
                Duration::ZERO
            };
            match worker.look(time, counts, self.watch.over + start) {
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
            // A worker may have gone to sleep meanwhile, whose thread is now remembered as one that sleeps.
            for (index, worker) in self.workers.iter_mut().enumerate() {
                worker.note(self.runtime.turns(index));
            }
        }
    }

    /// Reports workers that have stalled. Returns how many, because for the last ones no thread may be found
    /// that stands still.
    fn report(&mut self, stalled: &[usize]) -> usize {
        let parked = self.workers.iter().filter(|worker| worker.has_slept());
        let places = self.threads.places(parked.count(), stalled.len());
        let found = places.len().min(stalled.len());
        for (index, thread) in stalled.iter().zip(places) {
            let time = self.workers[*index].time();
            self.counts.stalls.fetch_add(1, Ordering::Relaxed);
            let Some(unreported) = self.reports.admit(Instant::now()) else {
                continue;
            };
            let stall = match thread {
                Some(thread) => {
                    let with_stack = self.watch.with_stack;
                    self.threads
                        .stall(&thread, time, with_stack, R::WHEN_RUNNING)
                }
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
