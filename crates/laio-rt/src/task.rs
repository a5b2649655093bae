//! The table of tasks, and how they are woken.

use crate::executor::Core;
use crate::join::Fail;
use laio::Notifier;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The identity of a task: its place in the table, and how many tasks had that place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    index: u32,
    generation: u32,
}

impl TaskId {
    /// The future given to `block_on`, which is on the stack and not in the table.
    pub(crate) const MAIN: TaskId = TaskId {
        index: u32::MAX,
        generation: 0,
    };
}

/// What a waker points to: enough to queue the task from any thread, also when it is long over.
#[derive(Debug)]
pub(crate) struct Header {
    id: TaskId,
    /// Whether the task is in a queue, so that it is there once at most.
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

    /// The task was taken from the queue and is about to be polled: wakes from now on queue it again.
    ///
    /// This must read what the last waker wrote, or the poll might not see what it was woken for.
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
        // Pushing cannot leave the list in disorder.
        self.woken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(id);
        self.any.store(true, Ordering::Release);
        self.notifier.notify();
    }

    /// Makes the executor look around instead of going to sleep, or of sleeping on.
    pub(crate) fn notify(&self) {
        self.notifier.notify();
    }

    /// Takes the tasks woken so far.
    pub(crate) fn take(&self) -> Vec<TaskId> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut woken)
    }
}

/// A spawned future and what belongs to it.
pub(crate) struct Task {
    pub(crate) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(crate) header: Arc<Header>,
    pub(crate) waker: Waker,
    /// Told when the task ends without an output.
    pub(crate) join: Rc<dyn Fail>,
}

enum Place {
    Free,
    Waiting(Task),
    /// The executor has the task out to poll it; `aborted` meanwhile, it does not come back.
    Polled {
        aborted: bool,
    },
}

/// All spawned tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    places: Vec<(u32, Place)>,
    free: Vec<u32>,
}

impl Tasks {
    /// Takes a place for a task, which `make` makes for it.
    pub(crate) fn insert(&mut self, make: impl FnOnce(TaskId) -> Task) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, Place::Free));
            (self.places.len() - 1) as u32
        });
        let (generation, place) = &mut self.places[index as usize];
        let id = TaskId {
            index,
            generation: *generation,
        };
        *place = Place::Waiting(make(id));
        id
    }

    fn place(&mut self, id: TaskId) -> Option<&mut Place> {
        let (generation, place) = self.places.get_mut(id.index as usize)?;
        (*generation == id.generation).then_some(place)
    }

    /// Takes a task out to poll it. `None` if it is over.
    pub(crate) fn take_to_poll(&mut self, id: TaskId) -> Option<Task> {
        let place = self.place(id)?;
        match std::mem::replace(place, Place::Polled { aborted: false }) {
            Place::Waiting(task) => Some(task),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Puts a task back that is not over. Gives it back if it was aborted meanwhile.
    pub(crate) fn put_back(&mut self, id: TaskId, task: Task) -> Result<(), Task> {
        match self.place(id) {
            Some(place @ Place::Polled { aborted: false }) => {
                *place = Place::Waiting(task);
                Ok(())
            }
            _ => {
                self.remove(id);
                Err(task)
            }
        }
    }

    /// Frees the place of a task that is over.
    pub(crate) fn remove(&mut self, id: TaskId) {
        if let Some(place) = self.place(id) {
            *place = Place::Free;
            let (generation, _) = &mut self.places[id.index as usize];
            *generation = generation.wrapping_add(1);
            self.free.push(id.index);
        }
    }

    /// Ends a task. One that is not being polled is removed and returned.
    pub(crate) fn abort(&mut self, id: TaskId) -> Option<Task> {
        let place = self.place(id)?;
        if let Place::Polled { aborted } = place {
            *aborted = true;
            return None;
        }
        let Place::Waiting(task) = std::mem::replace(place, Place::Free) else {
            return None;
        };
        self.remove(id);
        Some(task)
    }

    /// Takes all tasks out.
    pub(crate) fn drain(&mut self) -> Vec<Task> {
        let ids = self.places.iter().enumerate().map(|(index, place)| TaskId {
            index: index as u32,
            generation: place.0,
        });
        let ids: Vec<_> = ids.collect();
        ids.into_iter().filter_map(|id| self.abort(id)).collect()
    }

    /// Tasks that are not over.
    pub(crate) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
