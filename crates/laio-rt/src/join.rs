//! The handle of a task: it awaits the task's output, and can abort the task.

use crate::executor::Core;
use crate::task::TaskId;
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Awaits the output of a spawned task. Dropping it detaches the task, which continues to run.
///
/// If the task panics, the panic does not propagate: the handle yields [`Aborted`], which contains the panic's
/// payload for [`std::panic::resume_unwind`].
#[must_use = "dropping the handle detaches the task: call `detach` if that is intended"]
pub struct JoinHandle<T> {
    id: TaskId,
    core: Weak<Core>,
    join: Rc<Join<T>>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(id: TaskId, core: Weak<Core>, join: Rc<Join<T>>) -> JoinHandle<T> {
        JoinHandle { id, core, join }
    }

    /// Ends the task: drops its future now, which abandons the operations it has started. If the task aborts
    /// itself, that happens when its current poll returns. Does nothing if the task has ended.
    pub fn abort(&self) {
        if let Some(core) = self.core.upgrade() {
            core.abort(self.id);
        }
    }

    /// Lets the task run without a handle, as dropping the handle does.
    pub fn detach(self) {}

    /// Whether the task has ended: returned, panicked or been aborted.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.join.state.borrow(), State::Running(_))
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, Aborted>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.join.state.borrow_mut();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Running(waker) => {
                let waker = waker.filter(|waker| waker.will_wake(context.waker()));
                *state = State::Running(Some(waker.unwrap_or_else(|| context.waker().clone())));
                Poll::Pending
            }
            State::Over(result) => Poll::Ready(result),
            State::Taken => panic!("a JoinHandle was polled after it had completed"),
        }
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

/// The slot for a task's output, shared by the task and its handle.
pub(crate) struct Join<T> {
    state: RefCell<State<T>>,
}

enum State<T> {
    Running(Option<Waker>),
    Over(Result<T, Aborted>),
    Taken,
}

impl<T> Join<T> {
    pub(crate) fn new() -> Rc<Join<T>> {
        Rc::new(Join {
            state: RefCell::new(State::Running(None)),
        })
    }

    pub(crate) fn finish(&self, result: Result<T, Aborted>) {
        let before = self.state.replace(State::Over(result));
        match before {
            State::Running(Some(waker)) => waker.wake(),
            State::Running(None) => {}
            // The first result counts: a task that returned and was aborted afterwards has returned.
            before => drop(self.state.replace(before)),
        }
    }
}

/// A [`Join`] of any output type, through which the executor ends a task.
pub(crate) trait Fail {
    fn fail(&self, why: Aborted);
}

impl<T> Fail for Join<T> {
    fn fail(&self, why: Aborted) {
        self.finish(Err(why));
    }
}

/// The reason why a task has no output: it was aborted, or it panicked.
pub struct Aborted {
    /// The panic's payload. The lock makes the error `Sync`.
    panic: Option<Mutex<Box<dyn Any + Send>>>,
}

impl Aborted {
    pub(crate) fn on_request() -> Aborted {
        Aborted { panic: None }
    }

    pub(crate) fn by_panic(payload: Box<dyn Any + Send>) -> Aborted {
        Aborted {
            panic: Some(Mutex::new(payload)),
        }
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// Returns the panic's payload, if the task panicked.
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        self.panic
            .map(|payload| payload.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn message(&self) -> Option<String> {
        let payload = self.panic.as_ref()?;
        let payload = payload.lock().unwrap_or_else(PoisonError::into_inner);
        let text = payload.downcast_ref::<&'static str>().copied();
        Some(match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => text.unwrap_or("with no message").to_owned(),
        })
    }
}

impl fmt::Display for Aborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message() {
            Some(message) => write!(f, "the task panicked: {message}"),
            None => f.write_str("the task was aborted"),
        }
    }
}

impl fmt::Debug for Aborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aborted({self})")
    }
}

impl std::error::Error for Aborted {}
