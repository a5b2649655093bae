//! Operations as futures.

use crate::executor::Core;
use crate::extra_contexts::ContextId;
use laio::{Handle, Operation, Outcome, PollOptions, Submitted, Ticket};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Returns a future that makes an operation.
///
/// The first poll makes the call. If the call does not block, the future is ready at once, without an
/// allocation or a queue entry. Otherwise the operation continues in the background and wakes the task when it
/// completes. If the future is dropped before that, the operation is abandoned: it is cancelled, and its buffers
/// and descriptors stay alive until the kernel has released them.
///
/// # Panics
/// When polled outside of [`Runtime::block_on`](crate::Runtime::block_on).
///
/// ```
/// use laio::ops::{Name, StatPath};
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// let status = runtime.block_on(laio_rt::submit(StatPath::new(Name::new(c"/"))))?;
/// assert!(status.is_dir());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn submit<O: Operation>(operation: O) -> Submission<O> {
    submit_to(ContextId::OWN, operation)
}

/// As [`submit`], in one of the contexts that were added to the runtime.
///
/// # Panics
/// When polled outside of [`Runtime::block_on`](crate::Runtime::block_on), or in a runtime that has no such context.
pub fn submit_to<O: Operation>(context: ContextId, operation: O) -> Submission<O> {
    Submission {
        state: State::New(operation),
        context,
    }
}

/// Makes an operation and blocks until it completes, in a runtime whose back end is
/// [`BackendKind::Sync`](laio::BackendKind::Sync). So a program that wants to block needs no second context.
///
/// # Panics
/// Outside of [`Runtime::block_on`](crate::Runtime::block_on), and with any other back end for a call that would block.
///
/// ```
/// use laio::ops::{Name, StatPath};
/// let options = laio::Options::new().backend(laio::BackendKind::Sync);
/// let runtime = laio_rt::Runtime::new(options)?;
/// let status = runtime.block_on(async { laio_rt::now(StatPath::new(Name::new(c"/"))) })?;
/// assert!(status.is_dir());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn now<O: Operation>(operation: O) -> O::Output {
    let core = Core::current();
    let mut engine = core.engine_of(ContextId::OWN).borrow_mut();
    match engine.start(operation, Waker::noop()) {
        Outcome::Done(output) => output,
        Outcome::Pending(_) => panic!("only the back end sync makes every call at once"),
    }
}

/// The future of an operation; see [`submit`].
#[must_use = "the call is made when the future is polled"]
pub struct Submission<O: Operation> {
    state: State<O>,
    context: ContextId,
}

enum State<O: Operation> {
    New(O),
    Pending { ticket: Ticket<O>, core: Rc<Core> },
    Over,
}

// The operation moves to the heap before its address is passed to the kernel.
impl<O: Operation> Unpin for Submission<O> {}

impl<O: Operation> Future for Submission<O> {
    type Output = O::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O::Output> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::New(operation) => self.start(operation, context),
            State::Pending { ticket, core } => {
                let mut engine = core.engine_of(self.context).borrow_mut();
                match engine.context.take(ticket) {
                    Ok(output) => Poll::Ready(output),
                    Err(ticket) => {
                        engine.waiters.set(ticket.handle(), context.waker());
                        drop(engine);
                        self.state = State::Pending { ticket, core };
                        Poll::Pending
                    }
                }
            }
            State::Over => panic!("a Submission was polled after it had completed"),
        }
    }
}

impl<O: Operation> Submission<O> {
    /// Whether the call was made. That may take several polls: a task that has used up its budget of operations
    /// first lets other tasks run.
    pub fn is_started(&self) -> bool {
        !matches!(self.state, State::New(_))
    }

    fn start(&mut self, operation: O, context: &mut Context<'_>) -> Poll<O::Output> {
        let core = Core::current();
        if !core.spend_budget() {
            self.state = State::New(operation);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut engine = core.engine_of(self.context).borrow_mut();
        match engine.start(operation, context.waker()) {
            Outcome::Done(output) => Poll::Ready(output),
            Outcome::Pending(ticket) => {
                drop(engine);
                self.state = State::Pending { ticket, core };
                Poll::Pending
            }
        }
    }
}

impl<O: Operation> Drop for Submission<O> {
    fn drop(&mut self) {
        if let State::Pending { ticket, core } = std::mem::replace(&mut self.state, State::Over) {
            core.with_engine(self.context, move |engine| engine.abandon(ticket));
        }
    }
}

impl<O: Operation> fmt::Debug for Submission<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::New(_) => f.write_str("Submission(not started)"),
            State::Pending { ticket, .. } => write!(f, "Submission({:?})", ticket.handle()),
            State::Over => f.write_str("Submission(over)"),
        }
    }
}

/// A context, and the wakers of the tasks that wait for its operations.
pub(crate) struct Engine {
    pub(crate) context: laio::Context,
    waiters: Waiters,
}

impl Engine {
    pub(crate) fn new(context: laio::Context) -> Engine {
        Engine {
            context,
            waiters: Waiters::default(),
        }
    }

    /// Adds the wakers of finished operations to `woken`. Waits up to `timeout` for the first.
    pub(crate) fn reap(
        &mut self,
        timeout: Option<Duration>,
        woken: &mut Vec<Waker>,
    ) -> io::Result<()> {
        let Engine { context, waiters } = self;
        if timeout == Some(Duration::ZERO) && context.pending() == 0 {
            return Ok(());
        }
        context.poll_with(
            PollOptions {
                timeout,
                ..PollOptions::default()
            },
            |completion| {
                woken.extend(waiters.take(completion.handle));
            },
        )?;
        Ok(())
    }

    /// Cancels an operation, whose output is dropped when it completes.
    pub(crate) fn abandon<O: Operation>(&mut self, ticket: Ticket<O>) {
        self.waiters.take(ticket.handle());
        self.context.abandon(ticket);
    }

    /// Starts an operation that wakes `waker` when it completes.
    pub(crate) fn start<O: Operation>(&mut self, operation: O, waker: &Waker) -> Submitted<O> {
        let submitted = self.context.submit(operation);
        if let Outcome::Pending(ticket) = &submitted {
            self.waiters.set(ticket.handle(), waker);
        }
        submitted
    }

    /// Starts an operation, and drops its output when it completes.
    pub(crate) fn start_detached<O: Operation>(&mut self, operation: O) {
        drop(self.context.submit(operation));
    }
}

/// Wakers, indexed by the slots of operations, which are dense. The handle identifies the operation of the slot
/// to which the waker belongs.
#[derive(Default)]
struct Waiters(Vec<Option<(Handle, Waker)>>);

impl Waiters {
    fn set(&mut self, handle: Handle, waker: &Waker) {
        let slot = handle.slot();
        if slot >= self.0.len() {
            self.0.resize_with((slot + 1).next_power_of_two(), || None);
        }
        match &mut self.0[slot] {
            Some((present, old)) if *present == handle => old.clone_from(waker),
            entry => *entry = Some((handle, waker.clone())),
        }
    }

    fn take(&mut self, handle: Handle) -> Option<Waker> {
        let entry = self.0.get_mut(handle.slot())?;
        let (_, waker) = entry.take_if(|(present, _)| *present == handle)?;
        Some(waker)
    }
}
