//! The work of a driver's helpers: any thread adds, the helpers take.
//!
//! One helper is on its way at a time: who adds work wakes one only if none is, and a helper that takes
//! work wakes the next one if some is left. So work that comes together does not wake a helper for each
//! piece, and no piece waits behind one that takes long.
//!
//! This file uses only locks and one atomic, so that the model checker can run it; see `tests/model.rs`.

use super::atomic::{AtomicU32, Ordering::Relaxed};
use super::growth::Growth;
use super::locks::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A kind of work. Each has a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A system call, which usually takes less time than a wakeup. Taken first.
    Call,
    /// A function of the program, which may take long.
    Function,
}

pub(super) struct WorkQueue<W> {
    state: Mutex<State<W>>,
    wakeup: Condvar,
    /// Changes when the helper that spins must look.
    posted: AtomicU32,
}

struct State<W> {
    kinds: [Track<W>; 2],
    /// The helpers that run or were ordered.
    helpers: usize,
    /// How many of them sleep.
    idle: usize,
    /// How many of them will look for work although nothing else happens.
    coming: usize,
    is_spun: bool,
    phase: Phase,
    /// When a helper has last finished a piece of work.
    done_at: Instant,
    /// How long after that the last piece was added.
    gap: Duration,
}

struct Track<W> {
    queue: VecDeque<W>,
    running: usize,
    limit: Growth,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Helpers end when there is no work.
    Finishing,
    /// No work is taken any more.
    Stopped,
}

/// Who comes for work that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coming {
    /// A helper that runs.
    Helper,
    /// A helper that the caller must start; [`WorkQueue::not_started`] if that fails.
    ToBeStarted,
}

impl<W> WorkQueue<W> {
    /// A queue whose helpers make at most so many calls and run at most so many functions at a time.
    pub(super) fn new(calls: Growth, functions: Growth) -> WorkQueue<W> {
        let track = |limit| Track {
            queue: VecDeque::new(),
            running: 0,
            limit,
        };
        WorkQueue {
            state: Mutex::new(State {
                kinds: [track(calls), track(functions)],
                helpers: 0,
                idle: 0,
                coming: 0,
                is_spun: false,
                phase: Phase::Open,
                done_at: Instant::now(),
                gap: Duration::MAX,
            }),
            wakeup: Condvar::new(),
            posted: AtomicU32::new(0),
        }
    }

    /// Adds work. Returns it if the queue was stopped.
    pub(super) fn add(&self, kind: Kind, work: W) -> Result<Coming, W> {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return Err(work);
        }
        state.gap = state.done_at.elapsed();
        state.kinds[kind as usize].queue.push_back(work);
        Ok(self.bring_one(state))
    }

    /// Waits for work, at most `idle` long. `spin` may look for work by its second argument; the first
    /// is how long after the end of the last piece the newest was added.
    ///
    /// # Errors
    /// The helper must end: it has waited that long, or is no longer needed.
    pub(super) fn next(
        &self,
        idle: Duration,
        spin: impl FnOnce(Duration, &dyn Fn() -> bool),
    ) -> Result<Taken<W>, Ended> {
        let mut state = self.lock();
        let (mut spin, mut timed_out) = (Some(spin), false);
        // It was ordered, or has announced itself when it was done.
        state.arrived();
        loop {
            if let Some((kind, work)) = state.take() {
                let coming = self.bring_one(state);
                return Ok(Taken { kind, work, coming });
            }
            let is_over = state.phase != Phase::Open && state.is_empty();
            if is_over || timed_out {
                state.helpers -= 1;
                if is_over {
                    // Those that have looked while this one worked.
                    self.wake_all();
                }
                return Err(Ended {
                    was_last: is_over && state.helpers == 0,
                });
            }
            if !state.is_spun
                && let Some(spin) = spin.take()
            {
                state.is_spun = true;
                let (gap, before) = (state.gap, self.posted.load(Relaxed));
                drop(state);
                spin(gap, &|| self.posted.load(Relaxed) != before);
                state = self.lock();
                // The thread that has added work has counted this one as coming.
                if self.posted.load(Relaxed) != before {
                    state.arrived();
                }
                state.is_spun = false;
                continue;
            }
            state.idle += 1;
            let waited = self.wakeup.wait_timeout(state, idle);
            let (guard, wait) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            state = guard;
            state.idle -= 1;
            state.arrived();
            timed_out = wait.timed_out();
        }
    }

    /// A helper is done with a piece of work, and will look for the next one.
    pub(super) fn done(&self, kind: Kind) {
        let now = Instant::now();
        let mut state = self.lock();
        let track = &mut state.kinds[kind as usize];
        track.running -= 1;
        // This helper takes a piece of work, and then wakes another one if there is room for it.
        track.limit.ended(!track.queue.is_empty(), now);
        state.coming += 1;
        state.done_at = now;
    }

    /// A helper could not be started. Returns the work that no helper will take.
    pub(super) fn not_started(&self) -> Vec<W> {
        let mut state = self.lock();
        state.helpers -= 1;
        state.arrived();
        match state.helpers {
            0 => state.take_all(),
            _ => Vec::new(),
        }
    }

    /// Removes work that no helper has taken.
    pub(super) fn remove(&self, kind: Kind, is_it: impl Fn(&W) -> bool) -> Option<W> {
        let mut state = self.lock();
        let queue = &mut state.kinds[kind as usize].queue;
        let at = queue.iter().position(is_it)?;
        queue.remove(at)
    }

    /// Lets the helpers end when there is no work.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Finishing;
        }
        self.wake_all();
    }

    /// Whether there is no work, neither waiting nor begun.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Lets the helpers end now. Returns the work that none of them has taken.
    pub(super) fn stop(&self) -> Vec<W> {
        let mut state = self.lock();
        state.phase = Phase::Stopped;
        self.wake_all();
        state.take_all()
    }

    /// Makes a helper come, unless one is on its way or all are busy.
    fn bring_one(&self, mut state: MutexGuard<'_, State<W>>) -> Coming {
        if state.coming > 0 || !state.has_startable() {
            return Coming::Helper;
        }
        let sleeps = !state.is_spun && state.idle > 0;
        let starts = !state.is_spun && !sleeps;
        if starts && state.helpers >= state.most() {
            return Coming::Helper;
        }
        state.coming += 1;
        state.helpers += usize::from(starts);
        if state.is_spun {
            self.posted.fetch_add(1, Relaxed);
        }
        // A helper that wakes takes the lock first.
        drop(state);
        if sleeps {
            self.wakeup.notify_one();
        }
        if starts {
            Coming::ToBeStarted
        } else {
            Coming::Helper
        }
    }

    fn wake_all(&self) {
        self.posted.fetch_add(1, Relaxed);
        self.wakeup.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Work for a helper.
pub(super) struct Taken<W> {
    pub(super) kind: Kind,
    pub(super) work: W,
    /// Who comes for what is left.
    pub(super) coming: Coming,
}

/// The end of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Whether the queue is finished and empty, and no other helper is left.
    pub(super) was_last: bool,
}

impl<W> State<W> {
    /// The next piece of work that a helper may begin.
    fn take(&mut self) -> Option<(Kind, W)> {
        [Kind::Call, Kind::Function].into_iter().find_map(|kind| {
            let track = &mut self.kinds[kind as usize];
            if track.running >= track.limit.limit() {
                return None;
            }
            let work = track.queue.pop_front()?;
            track.running += 1;
            Some((kind, work))
        })
    }

    fn take_all(&mut self) -> Vec<W> {
        let [calls, functions] = &mut self.kinds;
        calls
            .queue
            .drain(..)
            .chain(functions.queue.drain(..))
            .collect()
    }

    fn has_startable(&self) -> bool {
        let startable =
            |track: &Track<W>| track.running < track.limit.limit() && !track.queue.is_empty();
        self.kinds.iter().any(startable)
    }

    fn is_empty(&self) -> bool {
        self.kinds
            .iter()
            .all(|track| track.queue.is_empty() && track.running == 0)
    }

    fn most(&self) -> usize {
        self.kinds.iter().map(|track| track.limit.most()).sum()
    }

    /// A helper that was on its way looks for work now.
    fn arrived(&mut self) {
        self.coming = self.coming.saturating_sub(1);
    }
}
