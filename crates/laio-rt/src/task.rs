//! The table of tasks: it polls them and ends them.

use crate::output::{Aborted, Fail, OutputSlot};
use crate::ready::{ReadyQueue, TaskId, TaskWaker};
use pin_project_lite::pin_project;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// All spawned tasks of a runtime. The table is not borrowed while foreign code (a future, a waker, a destructor of a
/// task) runs.
#[derive(Default)]
pub(crate) struct Tasks {
    table: RefCell<Table>,
    /// Whether the runtime is being dropped, and refuses new tasks.
    closed: Cell<bool>,
}

impl Tasks {
    /// Adds a task to the table and to the queue.
    pub(crate) fn spawn<F>(
        &self,
        future: F,
        queue: &Arc<ReadyQueue>,
    ) -> (TaskId, Rc<OutputSlot<F::Output>>)
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let output = OutputSlot::new();
        if self.closed.get() {
            output.finish(Err(Aborted::on_request()));
            return (TaskId::MAIN, output);
        }
        let future = Box::pin(KeepOutput {
            future,
            output: output.clone(),
        });
        let id = self.table.borrow_mut().reserve();
        let queued = TaskWaker::start(id, queue);
        let task = Task {
            future,
            waker: Waker::from(queued.clone()),
            queued,
            output: output.clone(),
        };
        let put = self.table.borrow_mut().put_back(id, task);
        debug_assert!(put.is_ok(), "the entry was reserved for the task");
        (id, output)
    }

    /// Polls a task, unless it has ended.
    pub(crate) fn poll(&self, id: TaskId) {
        let taken = self.table.borrow_mut().take(id);
        let Some(mut task) = taken else { return };
        task.queued.unqueue();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::from_waker(&task.waker);
            task.future.as_mut().poll(&mut context)
        }));
        if matches!(polled, Ok(Poll::Pending)) {
            let put_back = self.table.borrow_mut().put_back(id, task);
            if let Err(task) = put_back {
                // It was aborted meanwhile.
                task.end(Aborted::on_request());
            }
            return;
        }
        self.table.borrow_mut().remove(id);
        match polled {
            Ok(_) => task.drop_quietly(),
            Err(payload) => task.end(Aborted::by_panic(payload)),
        }
    }

    /// Ends a task: now, or when its current poll returns.
    pub(crate) fn abort(&self, id: TaskId) {
        let removed = self.table.borrow_mut().remove(id);
        if let Some(task) = removed {
            task.end(Aborted::on_request());
        }
    }

    /// Ends all tasks, and refuses new ones.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let tasks = self.table.borrow_mut().remove_all();
        for task in tasks {
            task.end(Aborted::on_request());
        }
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn count(&self) -> usize {
        self.table.borrow().count()
    }
}

pin_project! {
    /// Puts the output of a future into its slot. An `async` block would contain the future twice.
    struct KeepOutput<F: Future> {
        #[pin]
        future: F,
        output: Rc<OutputSlot<F::Output>>,
    }
}

impl<F: Future> Future for KeepOutput<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let polled = this.future.poll(context);
        polled.map(|output| this.output.finish(Ok(output)))
    }
}

/// Tasks by identity. An entry that has become free is used again, with the next generation, so that an identity that
/// a waker or a handle still has finds no other task.
#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    generation: u32,
    state: EntryState,
}

enum EntryState {
    Free,
    /// The executor has taken the task out to poll it, or is about to put in a new one. If the task is aborted
    /// meanwhile, the entry becomes free, and the task is not put back.
    Taken,
    Present(Task),
}

impl Table {
    /// Returns the identity of a new task, whose entry is empty until [`Table::put_back`].
    fn reserve(&mut self) -> TaskId {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                generation: 0,
                state: EntryState::Free,
            });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[number as usize];
        entry.state = EntryState::Taken;
        TaskId {
            entry: number,
            generation: entry.generation,
        }
    }

    fn find(&mut self, id: TaskId) -> Option<&mut EntryState> {
        let entry = self.entries.get_mut(id.entry as usize)?;
        (entry.generation == id.generation).then_some(&mut entry.state)
    }

    /// Takes a task out, to poll it. Returns `None` if it has ended or is taken.
    fn take(&mut self, id: TaskId) -> Option<Task> {
        let state = self.find(id)?;
        match std::mem::replace(state, EntryState::Taken) {
            EntryState::Present(task) => Some(task),
            before => {
                *state = before;
                None
            }
        }
    }

    /// Puts a task into the entry that is reserved for it, or returns it if the entry was removed.
    fn put_back(&mut self, id: TaskId, task: Task) -> Result<(), Task> {
        match self.find(id) {
            Some(state @ EntryState::Taken) => {
                *state = EntryState::Present(task);
                Ok(())
            }
            _ => Err(task),
        }
    }

    /// Frees the entry of a task. Returns the task, unless it has ended or is taken.
    fn remove(&mut self, id: TaskId) -> Option<Task> {
        let entry = self.entries.get_mut(id.entry as usize)?;
        if entry.generation != id.generation || matches!(entry.state, EntryState::Free) {
            return None;
        }
        // An entry whose generations are used up stays free, unused.
        if let Some(next) = entry.generation.checked_add(1) {
            entry.generation = next;
            self.free.push(id.entry);
        }
        match std::mem::replace(&mut entry.state, EntryState::Free) {
            EntryState::Present(task) => Some(task),
            EntryState::Free | EntryState::Taken => None,
        }
    }

    /// Frees all entries, and returns the tasks that are not taken.
    fn remove_all(&mut self) -> Vec<Task> {
        let ids: Vec<TaskId> = (0..)
            .zip(&self.entries)
            .map(|(entry, present)| TaskId {
                entry,
                generation: present.generation,
            })
            .collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    fn count(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| !matches!(entry.state, EntryState::Free))
            .count()
    }
}

/// A spawned future, its waker, and the slot for its output.
struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    queued: Arc<TaskWaker>,
    /// `queued`, as a waker.
    waker: Waker,
    /// Receives the error when the task ends without an output.
    output: Rc<dyn Fail>,
}

impl Task {
    /// Drops a task that has no output, then wakes the task that awaits it.
    fn end(self, why: Aborted) {
        let output = self.output.clone();
        self.drop_quietly();
        output.fail(why);
    }

    /// Drops a task. The panic hook has reported a panicking destructor, which must not end other tasks.
    fn drop_quietly(self) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(self))) {
            // The payload's own destructor could panic again.
            std::mem::forget(payload);
        }
    }
}
