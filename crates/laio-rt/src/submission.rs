//! Operations as futures.

use crate::contexts::ContextId;
use crate::executor::Core;
use laio::walk::{Walk, WalkStep};
use laio::{Operation, Outcome, ReadsStream, Ticket};
use std::fmt;
use std::future::Future;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

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

/// Makes an operation whose result is discarded, such as removing a temporary file when a task is dropped, in a task of
/// its own. Without a runtime, the operation is dropped instead.
///
/// ```
/// use laio::ops::{Name, Unlink};
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(async { laio_rt::detach(Unlink::new(Name::new(c"/nonexistent"))) });
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn detach<O: Operation>(operation: O) {
    if let Some(core) = Core::try_current() {
        core.spawn(async move { drop(submit(operation).await) })
            .detach();
    }
}

/// Runs a walk to its end, in one of the contexts of the runtime.
///
/// # Errors
/// Those of [`Walk::step`], and of the operations.
///
/// # Panics
/// As [`submit_to`].
pub async fn walk_in<F>(context: ContextId, mut walk: Walk<F>) -> io::Result<OwnedFd>
where
    F: AsFd + Clone + 'static,
{
    loop {
        let after = match walk.step()? {
            WalkStep::Open(open) => walk.opened(submit_to(context, open).await),
            WalkStep::ReadLink(read) => walk.link_read(submit_to(context, read).await),
        };
        if let ControlFlow::Break(opened) = after {
            return opened;
        }
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
    let mut engine = core.contexts.engine(ContextId::OWN).borrow_mut();
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
                let engine = core.contexts.engine(self.context);
                let taken = engine.borrow_mut().take(ticket, context.waker());
                match taken {
                    Ok(output) => Poll::Ready(output),
                    Err(ticket) => {
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

    /// Cancels the operation, if it is in flight. The future completes with what the operation has done, or with
    /// `ECANCELED`: unlike a drop, this loses no bytes that have just arrived.
    pub fn cancel(&mut self) {
        if let State::Pending { ticket, core } = &self.state {
            let handle = ticket.handle();
            core.contexts
                .with_engine(self.context, move |engine| engine.cancel(handle));
        }
    }

    /// The runtime in which the operation is in flight.
    pub(crate) fn in_flight_in(&self) -> Option<&Rc<Core>> {
        match &self.state {
            State::Pending { core, .. } => Some(core),
            _ => None,
        }
    }

    fn start(&mut self, operation: O, context: &mut Context<'_>) -> Poll<O::Output> {
        let core = Core::current();
        if !core.spend_budget() {
            self.state = State::New(operation);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut engine = core.contexts.engine(self.context).borrow_mut();
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

impl<O: ReadsStream> Submission<O> {
    /// Waits until the operation, which is in flight, has completed. Returns its bytes, apart from its buffer.
    pub(crate) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        let State::Pending { ticket, core } = std::mem::replace(&mut self.state, State::Over)
        else {
            panic!("only an operation in flight is asked for its bytes");
        };
        let engine = core.contexts.engine(self.context);
        let taken = engine.borrow_mut().take_bytes(ticket, context.waker());
        match taken {
            Ok(bytes) => Poll::Ready(bytes),
            Err(ticket) => {
                self.state = State::Pending { ticket, core };
                Poll::Pending
            }
        }
    }
}

impl<O: Operation> Drop for Submission<O> {
    fn drop(&mut self) {
        if let State::Pending { ticket, core } = std::mem::replace(&mut self.state, State::Over) {
            core.contexts
                .with_engine(self.context, move |engine| engine.abandon(ticket));
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
