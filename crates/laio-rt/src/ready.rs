//! The queue of ready tasks, and the wakers, which add to it on any thread.

use laio::Notifier;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

/// Identifies a task of a runtime: its entry in the table of tasks, and the number of tasks that had the entry before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) entry: u32,
    pub(crate) generation: u32,
}

impl TaskId {
    /// The future of `block_on`, which is on the stack and not in the table of tasks.
    pub(crate) const MAIN: TaskId = TaskId {
        entry: u32::MAX,
        generation: 0,
    };
}

/// The tasks that the executor polls next, in the order in which they were woken.
///
/// It contains identities, not tasks: a future never leaves the executor's thread, and a waker may outlive its task
/// and the runtime.
#[derive(Debug)]
pub(crate) struct ReadyQueue {
    tasks: Mutex<VecDeque<TaskId>>,
    /// Whether the executor polls its contexts for completions, and may sleep.
    reaping: AtomicBool,
    notifier: Notifier,
}

impl ReadyQueue {
    pub(crate) fn new(notifier: Notifier) -> Arc<ReadyQueue> {
        Arc::new(ReadyQueue {
            tasks: Mutex::default(),
            reaping: AtomicBool::new(false),
            notifier,
        })
    }

    fn push(&self, id: TaskId) {
        self.lock().push_back(id);
        // The executor sets `reaping` before it looks at the queue for the last time. If it has not seen this task
        // there, the lock makes the flag visible here.
        if self.reaping.load(Ordering::Relaxed) {
            self.notifier.notify();
        }
    }

    /// Removes and returns the first task.
    pub(crate) fn pop(&self) -> Option<TaskId> {
        self.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// While `reaping` is set, a wakeup makes the poll of the runtime's context return.
    pub(crate) fn set_reaping(&self, reaping: bool) {
        self.reaping.store(reaping, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<TaskId>> {
        // A panic while pushing leaves the queue intact, so a poisoned lock is harmless.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data behind a task's waker.
#[derive(Debug)]
pub(crate) struct TaskWaker {
    id: TaskId,
    /// Whether the task is in the queue. Keeps it from being queued twice.
    queued: AtomicBool,
    queue: Arc<ReadyQueue>,
}

impl TaskWaker {
    /// Returns the waker of a new task, which it adds to the queue.
    pub(crate) fn start(id: TaskId, queue: &Arc<ReadyQueue>) -> Arc<TaskWaker> {
        queue.push(id);
        Arc::new(TaskWaker {
            id,
            queued: AtomicBool::new(true),
            queue: queue.clone(),
        })
    }

    /// Notes that the task has left the queue and is about to be polled: later wakeups queue it again.
    ///
    /// This must acquire the last waker's writes, or the poll might not see the event that woke the task.
    pub(crate) fn unqueue(&self) {
        self.queued.swap(false, Ordering::AcqRel);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.push(self.id);
        }
    }
}
