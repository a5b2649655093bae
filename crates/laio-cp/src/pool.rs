//! Directories that wait for a worker. Each worker has a stack of its own, and takes from the others what
//! they have had longest: the directories nearest to the root, with the most below them.

use crate::directory::Entry;
use crate::listing::Listing;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What waits.
pub(crate) enum Task {
    /// A directory, of which nothing has been read.
    Directory(Entry),
    /// Files of a large one.
    Files(Listing),
}

pub(crate) struct Pool {
    stacks: Vec<Mutex<VecDeque<Task>>>,
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

    pub(crate) fn is_over(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Puts tasks on a worker's stack.
    pub(crate) fn push(&self, worker: usize, tasks: impl Iterator<Item = Task>) {
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
    pub(crate) fn pop(&self, worker: usize) -> Option<Task> {
        lock(&self.stacks[worker]).pop_back()
    }

    /// The oldest task of another worker.
    pub(crate) fn steal(&self, worker: usize) -> Option<Task> {
        let count = self.stacks.len();
        (1..count).find_map(|step| lock(&self.stacks[(worker + step) % count]).pop_front())
    }

    /// Wakes the worker when there may be something to do. False if there is already.
    pub(crate) fn wait(&self, worker: usize, waker: &Waker) -> bool {
        let mut waiting = lock(&self.waiting);
        self.waiting_count.fetch_add(1, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        let any = |index: usize| index != worker && !lock(&self.stacks[index]).is_empty();
        if self.is_over() || (0..self.stacks.len()).any(any) {
            self.waiting_count.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        waiting.push(waker.clone());
        true
    }
}
