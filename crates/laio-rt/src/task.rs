//! The table of tasks: it polls them and ends them.

use crate::output::{Aborted, Fail, OutputSlot};
use crate::ready::{ReadyQueue, TaskId, TaskWaker};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// All spawned tasks of a runtime. The table is not borrowed while foreign code (a future, a waker, a destructor of a
/// task) runs.
#[derive(Default)]
pub(crate) struct Tasks {
    /// `None` stands for a task that the executor has taken out to poll it. If the task is aborted meanwhile, its entry
    /// is removed, and the task is not put back.
    table: RefCell<HashMap<TaskId, Option<Task>>>,
    /// The number of tasks spawned so far: identities are never used again.
    spawned: Cell<u64>,
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
        let slot = output.clone();
        // Boxed separately: an async block that awaited the future would contain it twice.
        let mut future = Box::pin(future);
        let future = Box::pin(poll_fn(move |context| {
            let polled = future.as_mut().poll(context);
            polled.map(|output| slot.finish(Ok(output)))
        }));
        self.spawned.set(self.spawned.get() + 1);
        let id = TaskId(self.spawned.get());
        let queued = TaskWaker::start(id, queue);
        let task = Task {
            future,
            waker: Waker::from(queued.clone()),
            queued,
            output: output.clone(),
        };
        self.table.borrow_mut().insert(id, Some(task));
        (id, output)
    }

    /// Polls a task, unless it has ended.
    pub(crate) fn poll(&self, id: TaskId) {
        let entry = self.table.borrow_mut().get_mut(&id).and_then(Option::take);
        let Some(mut task) = entry else { return };
        task.queued.unqueue();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::from_waker(&task.waker);
            task.future.as_mut().poll(&mut context)
        }));
        if matches!(polled, Ok(Poll::Pending))
            && let Some(entry) = self.table.borrow_mut().get_mut(&id)
        {
            *entry = Some(task);
            return;
        }
        self.table.borrow_mut().remove(&id);
        match polled {
            Ok(Poll::Ready(())) => task.drop_quietly(),
            // It was aborted meanwhile.
            Ok(Poll::Pending) => task.end(Aborted::on_request()),
            Err(payload) => task.end(Aborted::by_panic(payload)),
        }
    }

    /// Ends a task: now, or when its current poll returns.
    pub(crate) fn abort(&self, id: TaskId) {
        let entry = self.table.borrow_mut().remove(&id);
        if let Some(Some(task)) = entry {
            task.end(Aborted::on_request());
        }
    }

    /// Ends all tasks, and refuses new ones.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let tasks = self.table.take();
        for task in tasks.into_values().flatten() {
            task.end(Aborted::on_request());
        }
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn count(&self) -> usize {
        self.table.borrow().len()
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
