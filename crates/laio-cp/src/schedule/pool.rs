//! The work items of all workers. Each worker has a stack of its own; idle workers steal the oldest
//! item of another worker, which is nearest to the root and has the most below it.

use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

/// The stacks of all workers.
pub(crate) struct Pool<T> {
    stacks: Vec<Mutex<VecDeque<T>>>,
    /// The wakers of idle workers.
    waiting: Mutex<Vec<Waker>>,
    waiting_count: AtomicUsize,
    stopped: AtomicBool,
}

impl<T> Pool<T> {
    pub(crate) fn new(workers: usize) -> Pool<T> {
        Pool {
            stacks: (0..workers).map(|_| Mutex::default()).collect(),
            waiting: Mutex::default(),
            waiting_count: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether there is more than one worker.
    pub(crate) fn is_shared(&self) -> bool {
        self.stacks.len() > 1
    }

    /// Tells all workers that no work is left.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Pushes items to a worker's stack, and wakes idle workers.
    pub(crate) fn push(&self, worker: usize, items: impl Iterator<Item = T>) {
        let mut stack = lock(&self.stacks[worker]);
        let before = stack.len();
        stack.extend(items);
        let added = stack.len() - before;
        drop(stack);
        if added == 0 {
            return;
        }
        // Paired with the fence in `register_waker`: either this thread sees the waiting worker, or the
        // worker sees the items.
        std::sync::atomic::fence(Ordering::SeqCst);
        for _ in 0..added.min(self.waiting_count.load(Ordering::SeqCst)) {
            let waker = lock(&self.waiting).pop();
            let Some(waker) = waker else { break };
            self.waiting_count.fetch_sub(1, Ordering::SeqCst);
            waker.wake();
        }
    }

    /// Pops the newest item of the worker's own stack.
    pub(crate) fn pop(&self, worker: usize) -> Option<T> {
        lock(&self.stacks[worker]).pop_back()
    }

    /// Steals the oldest item of another worker.
    pub(crate) fn steal(&self, worker: usize) -> Option<T> {
        let count = self.stacks.len();
        (1..count).find_map(|step| lock(&self.stacks[(worker + step) % count]).pop_front())
    }

    /// Registers a waker for new items. Returns `false` if there may be some already.
    pub(crate) fn register_waker(&self, worker: usize, waker: &Waker) -> bool {
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

    /// Far longer than one round takes.
    const LIMIT: Duration = Duration::from_secs(120);
    const ROUNDS: usize = 20_000;
    /// The time after which no new round starts: on a busy machine a wakeup takes milliseconds.
    const ENOUGH: Duration = Duration::from_secs(20);

    /// Steals until the pool is stopped.
    fn take(pool: &Pool<()>, worker: usize, taken: &AtomicUsize) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        while !pool.is_stopped() {
            if pool.steal(worker).is_some() {
                taken.fetch_add(1, Ordering::SeqCst);
            } else if pool.register_waker(worker, &waker) {
                thread::park();
            }
        }
    }

    #[test]
    fn no_worker_sleeps_while_items_are_available() {
        const TAKERS: usize = 3;
        let pool = Arc::new(Pool::new(1 + TAKERS));
        let taken = Arc::new(AtomicUsize::new(0));
        let takers: Vec<_> = (1..=TAKERS)
            .map(|worker| {
                let (pool, taken) = (pool.clone(), taken.clone());
                thread::spawn(move || take(&pool, worker, &taken))
            })
            .collect();
        let started = Instant::now();
        let mut pushed = 0;
        for round in (0..ROUNDS).take_while(|_| started.elapsed() < ENOUGH) {
            let started = Instant::now();
            let items = vec![(); 1 + round % 3];
            pushed += items.len();
            // The pushing thread takes nothing, so a lost wakeup would not be repaired.
            pool.push(0, items.into_iter());
            while taken.load(Ordering::SeqCst) < pushed {
                assert!(
                    started.elapsed() < LIMIT,
                    "in round {round} no worker woke up"
                );
                thread::yield_now();
            }
        }
        pool.stop();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
    }
}
