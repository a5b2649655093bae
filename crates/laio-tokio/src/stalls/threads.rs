//! Finds the threads of the workers, and which of them stands still.
//!
//! The runtime does not say which thread a worker is. Tasks of the watch tell the threads that run them. A
//! worker that stands still is found among these by what they do: a sleeping one waits for events or for
//! another thread, and the runtime says how many sleep.

use super::{Cause, Stall};
use laio_stalls::{OwnLook, OwnThread};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How long a task of the watch holds its worker, so that other workers take the other ones.
const HOLD: Duration = Duration::from_millis(2);

/// The time between two searches for threads. It doubles up to the second one.
const SEARCH_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];

/// What a task can do that computes.
const RUNNING: &str =
    "not a call: a task runs without a pause; `spawn_blocking` or `yield_now` is for that";

/// How many functions a stall has.
const FRAMES: usize = 8;

type Threads = BTreeMap<u32, Arc<OwnThread>>;

#[derive(Default)]
struct Found {
    threads: Mutex<Threads>,
    changed: Condvar,
}

/// The threads that are known to be workers.
pub(super) struct WorkerThreads {
    found: Arc<Found>,
    workers: usize,
    next_search: Instant,
    pause: Duration,
    /// What each thread did when a worker was late.
    before: HashMap<u32, OwnLook>,
}

/// A thread that stands still.
pub(super) struct StillThread {
    tid: u32,
    look: OwnLook,
}

impl WorkerThreads {
    pub(super) fn of(handle: &Handle) -> io::Result<WorkerThreads> {
        let own = OwnThread::current()?;
        let found = Arc::new(Found::default());
        if handle.runtime_flavor() != RuntimeFlavor::MultiThread {
            lock(&found.threads).insert(own.tid(), Arc::new(own));
        }
        Ok(WorkerThreads {
            found,
            workers: handle.metrics().num_workers(),
            next_search: Instant::now(),
            pause: SEARCH_PAUSES[0],
            before: HashMap::new(),
        })
    }

    /// Whether all are known, so that all have started.
    pub(super) fn are_complete(&self) -> bool {
        lock(&self.found.threads).len() >= self.workers
    }

    /// Sends tasks to the workers if some are not known. Returns how many are.
    pub(super) fn find(&mut self, handle: &Handle) -> usize {
        let known = lock(&self.found.threads).len();
        if known < self.workers && Instant::now() >= self.next_search {
            for _ in 0..self.workers {
                handle.spawn(probe(self.found.clone(), self.workers));
            }
            self.next_search = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(SEARCH_PAUSES[1]);
        }
        known
    }

    /// Remembers what the threads do while a worker is late.
    pub(super) fn remember(&mut self) {
        self.before = self.looks().into_iter().collect();
    }

    /// The threads of so many workers that stand still, while so many sleep. `None` for a thread that is
    /// not known; none at all for a worker that has just gone to sleep.
    pub(super) fn places(&mut self, parked: usize, stalled: usize) -> Vec<Option<StillThread>> {
        let looks = self.looks();
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
    pub(super) fn stall(&self, still: &StillThread, lasted: Duration, with_stack: bool) -> Stall {
        let Some(thread) = lock(&self.found.threads).get(&still.tid).cloned() else {
            return Stall::of_unknown_thread(lasted);
        };
        let place = thread.place(&still.look, self.before.get(&still.tid));
        let frames = if with_stack {
            thread.stack(&still.look)
        } else {
            Vec::new()
        };
        let (cause, call, remedy) = match place.cause {
            Some(cause) => (cause_of(cause), place.call, place.remedy),
            None => (Cause::Running, "running", RUNNING),
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

    /// Looks at all known threads, and forgets those that have ended.
    fn looks(&self) -> Vec<(u32, OwnLook)> {
        // Without the lock, for which a worker may wait with a task of the watch.
        let known = lock(&self.found.threads).clone();
        let mut looks = Vec::new();
        for (tid, thread) in known {
            match thread.look() {
                Some(look) => looks.push((tid, look)),
                None => drop(lock(&self.found.threads).remove(&tid)),
            }
        }
        looks
    }
}

/// Tells on which thread it runs, and holds it until the other workers have done so.
async fn probe(found: Arc<Found>, workers: usize) {
    let Ok(thread) = OwnThread::current() else {
        return;
    };
    let mut threads = lock(&found.threads);
    threads.insert(thread.tid(), Arc::new(thread));
    found.changed.notify_all();
    let is_incomplete = |threads: &mut Threads| threads.len() < workers;
    drop(
        found
            .changed
            .wait_timeout_while(threads, HOLD, is_incomplete),
    );
}

fn lock(threads: &Mutex<Threads>) -> MutexGuard<'_, Threads> {
    threads
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn cause_of(cause: laio_stalls::Cause) -> Cause {
    match cause {
        laio_stalls::Cause::Call => Cause::Call,
        laio_stalls::Cause::Futex => Cause::Lock,
        laio_stalls::Cause::PageFault => Cause::PageFault,
        laio_stalls::Cause::Processor => Cause::Processor,
        laio_stalls::Cause::Stopped => Cause::Stopped,
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
