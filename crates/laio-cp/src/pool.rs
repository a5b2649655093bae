//! Directories that wait for a worker. Each worker has a stack of its own, and takes from the others what
//! they have had longest: the directories nearest to the root, with the most below them.

use crate::directory::Entry;
use crate::listing::Listing;
use crate::plan::PlanTask;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What waits.
pub(crate) enum WorkItem {
    /// A directory, of which nothing has been read.
    Directory(Entry),
    /// Files of a large one.
    Files(Listing),
    /// A task of a plan.
    Planned(PlanTask),
}

pub(crate) struct Pool {
    stacks: Vec<Mutex<VecDeque<WorkItem>>>,
    /// Workers with nothing to do.
    waiting: Mutex<Vec<Waker>>,
    waiting_count: AtomicUsize,
    stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // None of the lists can be left in disorder.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(crate) fn new(workers: usize) -> Pool {
        Pool {
            stacks: (0..workers).map(|_| Mutex::default()).collect(),
            waiting: Mutex::default(),
            waiting_count: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether there are several workers.
    pub(crate) fn is_shared(&self) -> bool {
        self.stacks.len() > 1
    }

    /// Nothing more is to be done.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Puts tasks on a worker's stack.
    pub(crate) fn push(&self, worker: usize, tasks: impl Iterator<Item = WorkItem>) {
        let mut stack = lock(&self.stacks[worker]);
        let before = stack.len();
        stack.extend(tasks);
        let added = stack.len() - before;
        drop(stack);
        if added == 0 {
            return;
        }
        // Either a worker that goes to sleep is seen here, or it sees the tasks.
        std::sync::atomic::fence(Ordering::SeqCst);
        for _ in 0..added.min(self.waiting_count.load(Ordering::SeqCst)) {
            let waker = lock(&self.waiting).pop();
            let Some(waker) = waker else { break };
            self.waiting_count.fetch_sub(1, Ordering::SeqCst);
            waker.wake();
        }
    }

    /// The newest task of a worker's own.
    pub(crate) fn pop(&self, worker: usize) -> Option<WorkItem> {
        lock(&self.stacks[worker]).pop_back()
    }

    /// The oldest task of another worker.
    pub(crate) fn steal(&self, worker: usize) -> Option<WorkItem> {
        let count = self.stacks.len();
        (1..count).find_map(|step| lock(&self.stacks[(worker + step) % count]).pop_front())
    }

    /// Wakes the worker when there may be something to do. False if there is already.
    pub(crate) fn wait(&self, worker: usize, waker: &Waker) -> bool {
        let mut waiting = lock(&self.waiting);
        self.waiting_count.fetch_add(1, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        let any = |index: usize| index != worker && !lock(&self.stacks[index]).is_empty();
        if self.is_stopped() || (0..self.stacks.len()).any(any) {
            self.waiting_count.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        waiting.push(waker.clone());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{Directory, Entry, Handles};
    use laio_rt::fs::FileType;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::task::Wake;
    use std::thread::{self, Thread};
    use std::time::{Duration, Instant};

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Far above what a round takes.
    const LIMIT: Duration = Duration::from_secs(120);
    const ROUNDS: usize = 20_000;
    /// After this time no more rounds are begun: where others are busy, a wake-up takes milliseconds.
    const ENOUGH: Duration = Duration::from_secs(20);

    /// A worker that takes from others until there is nothing more.
    fn take(pool: &Pool, worker: usize, taken: &AtomicUsize) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        while !pool.is_stopped() {
            if pool.steal(worker).is_some() {
                taken.fetch_add(1, Ordering::SeqCst);
            } else if pool.wait(worker, &waker) {
                thread::park();
            }
        }
    }

    #[test]
    fn nobody_sleeps_while_there_is_something_to_take() {
        const TAKERS: usize = 3;
        let pool = Arc::new(Pool::new(1 + TAKERS));
        let taken = Arc::new(AtomicUsize::new(0));
        let takers: Vec<_> = (1..=TAKERS)
            .map(|worker| {
                let (pool, taken) = (pool.clone(), taken.clone());
                thread::spawn(move || take(&pool, worker, &taken))
            })
            .collect();
        let directory = Directory::root(Handles::default(), (PathBuf::new(), PathBuf::new()));
        let task = || {
            WorkItem::Directory(Entry {
                directory: directory.clone(),
                name: "name".into(),
                new_name: None,
                kind: FileType::Directory,
                argument: None,
                handles: None,
            })
        };
        let begun = Instant::now();
        let mut pushed = 0;
        for round in (0..ROUNDS).take_while(|_| begun.elapsed() < ENOUGH) {
            let begun = Instant::now();
            let tasks: Vec<_> = (0..=round % 3).map(|_| task()).collect();
            pushed += tasks.len();
            // The one that pushes takes nothing itself: a wake-up that is lost stays lost.
            pool.push(0, tasks.into_iter());
            while taken.load(Ordering::SeqCst) < pushed {
                assert!(begun.elapsed() < LIMIT, "in round {round} nobody woke up");
                thread::yield_now();
            }
        }
        pool.stop();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
    }
}
