//! Finds the threads of the workers, and which of them stands still.
//!
//! A runtime need not say which thread a worker is. The one that stands still is found among the threads by
//! what they do: a sleeping one waits for events or for another thread, and the runtime says how many sleep.

use super::stall::{Stall, StallCause};
use crate::own::{OwnLook, OwnThread};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How many functions a stall has.
const FRAMES: usize = 8;

type Threads = BTreeMap<u32, Arc<OwnThread>>;

/// The threads of a runtime that are known to be workers.
#[derive(Debug, Default)]
pub struct KnownThreads {
    threads: Mutex<Threads>,
}

impl KnownThreads {
    /// Adds a worker.
    pub fn add(&self, thread: OwnThread) {
        self.lock().insert(thread.tid(), Arc::new(thread));
    }

    /// Holds the calling thread until so many are known, at most for this time. It does not sleep: a watch
    /// would report a worker without a processor as one that waits for a lock.
    pub fn wait_for(&self, workers: usize, time: Duration) {
        let begin = Instant::now();
        while self.count() < workers && begin.elapsed() < time {
            std::thread::yield_now();
        }
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        let threads = self.threads.lock();
        threads.unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Looks at all of them, and forgets those that have ended.
    fn looks(&self) -> Vec<(u32, OwnLook)> {
        // Without the lock, for which a worker may wait with a task of the watch.
        let known = self.lock().clone();
        let mut looks = Vec::new();
        for (tid, thread) in known {
            match thread.look() {
                Some(look) => looks.push((tid, look)),
                None => drop(self.lock().remove(&tid)),
            }
        }
        looks
    }
}

/// The known threads, with what each did before.
pub(super) struct WorkerThreads {
    known: Arc<KnownThreads>,
    workers: usize,
    /// What each thread did when a worker was late.
    before: HashMap<u32, OwnLook>,
}

/// A thread that stands still.
pub(super) struct StillThread {
    tid: u32,
    look: OwnLook,
}

impl WorkerThreads {
    pub(super) fn new(known: Arc<KnownThreads>, workers: usize) -> WorkerThreads {
        WorkerThreads {
            known,
            workers,
            before: HashMap::new(),
        }
    }

    /// How many are known.
    pub(super) fn count(&self) -> usize {
        self.known.count()
    }

    /// Whether all are known, so that all have started.
    pub(super) fn are_complete(&self) -> bool {
        self.count() >= self.workers
    }

    /// Remembers what the threads do while a worker is late.
    pub(super) fn remember(&mut self) {
        self.before = self.known.looks().into_iter().collect();
    }

    /// The threads of so many workers that stand still, while so many sleep. `None` for a thread that is
    /// not known; none at all for a worker that has just gone to sleep.
    pub(super) fn places(&mut self, parked: usize, stalled: usize) -> Vec<Option<StillThread>> {
        let looks = self.known.looks();
        let candidates: Vec<Candidate> = looks
            .iter()
            .map(|(tid, look)| Candidate::new(*tid, look, self.before.get(tid)))
            .collect();
        let mut chosen: Vec<Option<StillThread>> = choose(candidates, parked, stalled)
            .into_iter()
            .filter_map(|tid| looks.iter().find(|(known, _)| *known == tid))
            .map(|(tid, look)| {
                Some(StillThread {
                    tid: *tid,
                    look: *look,
                })
            })
            .collect();
        let unknown = self.workers.saturating_sub(looks.len());
        let more = stalled.saturating_sub(chosen.len()).min(unknown);
        chosen.extend((0..more).map(|_| None));
        chosen
    }

    /// Describes the stall of a thread.
    pub(super) fn stall(
        &self,
        still: &StillThread,
        lasted: Duration,
        with_stack: bool,
        running: &'static str,
    ) -> Stall {
        let Some(thread) = self.known.lock().get(&still.tid).cloned() else {
            return Stall::of_unknown_thread(lasted);
        };
        let place = thread.place(&still.look, self.before.get(&still.tid));
        let frames = if with_stack {
            thread.stack(&still.look)
        } else {
            Vec::new()
        };
        let (cause, call, remedy) = match place.cause {
            Some(cause) => (cause.into(), place.call, place.remedy),
            None => (StallCause::Running, "running", running),
        };
        Stall {
            lasted,
            thread: thread.name().to_owned(),
            thread_id: still.tid,
            cause,
            call,
            subject: place.subject,
            stack: frames
                .into_iter()
                .take(FRAMES)
                .map(|frame| frame.name)
                .collect(),
            remedy,
            unreported: 0,
        }
    }
}

/// What decides whether a thread is the one that stands still.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    tid: u32,
    activity: Activity,
    /// Whether it has not run since a worker was late.
    is_still: bool,
    /// How long it has run since.
    run: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Events,
    /// It waits for another thread, with so deep a stack.
    Lock(u64),
    Call,
    Running,
}

impl Candidate {
    fn new(tid: u32, look: &OwnLook, before: Option<&OwnLook>) -> Candidate {
        let activity = match look {
            _ if look.waits_for_events() => Activity::Events,
            _ if look.waits_for_a_thread() => Activity::Lock(look.depth()),
            _ if look.is_blocked() => Activity::Call,
            _ => Activity::Running,
        };
        Candidate {
            tid,
            activity,
            is_still: look.is_blocked() && before.is_some_and(|before| before.turns == look.turns),
            run: look.run - before.map_or(0, |before| before.run.min(look.run)),
        }
    }
}

/// Chooses the threads that stand still: those that wait for another thread, with the deepest stacks, as far
/// as more wait than sleep; those that stand in a call; and those that have run longest.
fn choose(mut candidates: Vec<Candidate>, parked: usize, stalled: usize) -> Vec<u32> {
    let sleeps = |candidate: &&Candidate| {
        candidate.is_still && matches!(candidate.activity, Activity::Events | Activity::Lock(_))
    };
    let locked = candidates
        .iter()
        .filter(sleeps)
        .count()
        .saturating_sub(parked);
    let mut chosen = Vec::new();
    candidates.sort_by_key(|candidate| Reverse(depth(candidate)));
    let deepest = candidates.iter().filter(|candidate| depth(candidate) > 0);
    chosen.extend(deepest.map(|candidate| candidate.tid).take(locked));
    candidates
        .retain(|candidate| !matches!(candidate.activity, Activity::Events | Activity::Lock(_)));
    candidates.sort_by_key(|candidate| (!candidate.is_still, Reverse(candidate.run)));
    chosen.extend(candidates.iter().map(|candidate| candidate.tid));
    chosen.truncate(stalled);
    chosen
}

/// How deep the stack of a thread is that has waited for another one all the time.
fn depth(candidate: &Candidate) -> u64 {
    match candidate.activity {
        Activity::Lock(depth) if candidate.is_still => depth,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(tid: u32, activity: Activity, is_still: bool, run: u64) -> Candidate {
        Candidate {
            tid,
            activity,
            is_still,
            run,
        }
    }

    #[test]
    fn a_thread_in_a_call_is_chosen_before_one_that_runs() {
        let threads = vec![
            candidate(1, Activity::Events, true, 0),
            candidate(2, Activity::Lock(400), true, 0),
            candidate(3, Activity::Running, false, 90),
            candidate(4, Activity::Call, false, 95),
            candidate(5, Activity::Call, true, 0),
        ];
        assert_eq!(choose(threads.clone(), 2, 1), [5]);
        assert_eq!(choose(threads.clone(), 2, 2), [5, 4]);
        assert_eq!(choose(threads, 2, 9), [5, 4, 3]);
    }

    #[test]
    fn a_lock_is_a_stall_if_more_threads_wait_than_sleep() {
        let threads = vec![
            candidate(1, Activity::Events, true, 0),
            candidate(2, Activity::Lock(400), true, 0),
            candidate(3, Activity::Lock(900), true, 0),
            candidate(4, Activity::Lock(950), false, 0),
        ];
        assert_eq!(choose(threads.clone(), 2, 1), [3]);
        assert_eq!(choose(threads, 3, 1), Vec::<u32>::new());
    }
}
