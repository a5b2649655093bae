//! The table of tasks, and their wakers.

use crate::executor::Core;
use crate::join::Fail;
use laio::Notifier;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Identifies a task: its slot in the table, and the slot's generation, which distinguishes it from earlier tasks
/// of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    index: u32,
    generation: u32,
}

impl TaskId {
    /// The future of `block_on`, which is on the stack and not in the table.
    pub(crate) const MAIN: TaskId = TaskId {
        index: u32::MAX,
        generation: 0,
    };
}

/// The data behind a waker. Any thread can queue the task with it, also after the task has ended.
#[derive(Debug)]
pub(crate) struct Header {
    id: TaskId,
    /// Whether the task is in a queue. Keeps it from being queued twice.
    queued: AtomicBool,
    remote: Arc<Remote>,
}

impl Header {
    pub(crate) fn new(id: TaskId, remote: Arc<Remote>) -> Arc<Header> {
        Arc::new(Header {
            id,
            queued: AtomicBool::new(false),
            remote,
        })
    }

    /// Notes that the task has left the queue and is about to be polled: later wakeups queue it again.
    ///
    /// This must acquire the last waker's writes, or the poll might not see the event that woke the task.
    pub(crate) fn unqueue(&self) {
        self.queued.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Header {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) && !Core::queue_here(&self.remote, self.id) {
            self.remote.queue(self.id);
        }
    }
}

/// Tasks woken from other threads.
#[derive(Debug)]
pub(crate) struct Remote {
    woken: Mutex<Vec<TaskId>>,
    any: AtomicBool,
    notifier: Notifier,
}

impl Remote {
    pub(crate) fn new(notifier: Notifier) -> Arc<Remote> {
        Arc::new(Remote {
            woken: Mutex::default(),
            any: AtomicBool::new(false),
            notifier,
        })
    }

    fn queue(&self, id: TaskId) {
        // A panic while pushing leaves the list intact, so a poisoned lock is harmless.
        self.woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(id);
        self.any.store(true, Ordering::Release);
        self.notifier.notify();
    }

    /// Wakes the executor, or keeps it from going to sleep.
    pub(crate) fn notify(&self) {
        self.notifier.notify();
    }

    /// Removes and returns the tasks woken so far.
    pub(crate) fn take(&self) -> Vec<TaskId> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut woken)
    }
}

/// A spawned future, its waker, and the slot for its output.
pub(crate) struct Task {
    pub(crate) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(crate) header: Arc<Header>,
    pub(crate) waker: Waker,
    /// Receives the error when the task ends without an output.
    pub(crate) join: Rc<dyn Fail>,
}

enum Slot {
    Free,
    Waiting(Task),
    /// The executor has taken the task out to poll it. If it is `aborted` meanwhile, it is not put back.
    Polled {
        aborted: bool,
    },
}

/// All spawned tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<(u32, Slot)>,
    free: Vec<u32>,
}

impl Tasks {
    /// Inserts the task that `make` returns for its identity.
    pub(crate) fn insert(&mut self, make: impl FnOnce(TaskId) -> Task) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, Slot::Free));
            (self.slots.len() - 1) as u32
        });
        let (generation, slot) = &mut self.slots[index as usize];
        let id = TaskId {
            index,
            generation: *generation,
        };
        *slot = Slot::Waiting(make(id));
        id
    }

    fn slot(&mut self, id: TaskId) -> Option<&mut Slot> {
        let (generation, slot) = self.slots.get_mut(id.index as usize)?;
        (*generation == id.generation).then_some(slot)
    }

    /// Takes a task out to poll it. Returns `None` if it has ended.
    pub(crate) fn take_to_poll(&mut self, id: TaskId) -> Option<Task> {
        let slot = self.slot(id)?;
        match std::mem::replace(slot, Slot::Polled { aborted: false }) {
            Slot::Waiting(task) => Some(task),
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Puts a task back that has not ended. Returns it if it was aborted meanwhile.
    pub(crate) fn put_back(&mut self, id: TaskId, task: Task) -> Result<(), Task> {
        match self.slot(id) {
            Some(slot @ Slot::Polled { aborted: false }) => {
                *slot = Slot::Waiting(task);
                Ok(())
            }
            _ => {
                self.remove(id);
                Err(task)
            }
        }
    }

    /// Frees the slot of a task that has ended.
    pub(crate) fn remove(&mut self, id: TaskId) {
        if let Some(slot) = self.slot(id) {
            *slot = Slot::Free;
            let (generation, _) = &mut self.slots[id.index as usize];
            *generation = generation.wrapping_add(1);
            self.free.push(id.index);
        }
    }

    /// Ends a task. Removes and returns it unless it is being polled.
    pub(crate) fn abort(&mut self, id: TaskId) -> Option<Task> {
        let slot = self.slot(id)?;
        if let Slot::Polled { aborted } = slot {
            *aborted = true;
            return None;
        }
        let Slot::Waiting(task) = std::mem::replace(slot, Slot::Free) else {
            return None;
        };
        self.remove(id);
        Some(task)
    }

    /// Removes and returns all tasks.
    pub(crate) fn drain(&mut self) -> Vec<Task> {
        let ids = self.slots.iter().enumerate().map(|(index, slot)| TaskId {
            index: index as u32,
            generation: slot.0,
        });
        let ids: Vec<_> = ids.collect();
        ids.into_iter().filter_map(|id| self.abort(id)).collect()
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
