//! The output of a task: the slot that the task and its handle share, and the reason why it may have none.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The slot for a task's output, shared by the task and its handle.
pub(crate) struct OutputSlot<T> {
    state: RefCell<State<T>>,
}

enum State<T> {
    Running(Option<Waker>),
    Over(Result<T, Aborted>),
    Taken,
}

impl<T> OutputSlot<T> {
    pub(crate) fn new() -> Rc<OutputSlot<T>> {
        Rc::new(OutputSlot {
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

    pub(crate) fn is_finished(&self) -> bool {
        !matches!(*self.state.borrow(), State::Running(_))
    }

    /// Returns the output, once. Until the task has ended, keeps the waker for its end.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<T, Aborted>> {
        let mut state = self.state.borrow_mut();
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

/// An [`OutputSlot`] of any output type, through which the executor ends a task.
pub(crate) trait Fail {
    fn fail(&self, why: Aborted);
}

impl<T> Fail for OutputSlot<T> {
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
