//! The handle of a task: it awaits the task's output, and can abort the task.

use crate::output::{Aborted, OutputSlot};
use crate::ready::TaskId;
use crate::task::Tasks;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

/// Awaits the output of a spawned task. Dropping it detaches the task, which continues to run.
///
/// If the task panics, the panic does not propagate: the handle yields [`Aborted`], which contains the panic's
/// payload for [`std::panic::resume_unwind`].
#[must_use = "dropping the handle detaches the task: call `detach` if that is intended"]
pub struct JoinHandle<T> {
    id: TaskId,
    tasks: Weak<Tasks>,
    output: Rc<OutputSlot<T>>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(id: TaskId, tasks: Weak<Tasks>, output: Rc<OutputSlot<T>>) -> JoinHandle<T> {
        JoinHandle { id, tasks, output }
    }

    /// Ends the task: drops its future now, which abandons the operations it has started. If the task aborts
    /// itself, that happens when its current poll returns. Does nothing if the task has ended.
    pub fn abort(&self) {
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.abort(self.id);
        }
    }

    /// Lets the task run without a handle, as dropping the handle does.
    pub fn detach(self) {}

    /// Whether the task has ended: returned, panicked or been aborted.
    pub fn is_finished(&self) -> bool {
        self.output.is_finished()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Aborted>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.output.poll(context)
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id)
            .field("finished", &self.is_finished())
            .finish()
    }
}
