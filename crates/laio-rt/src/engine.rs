//! A context, and the wakers of the tasks that wait for its operations.

use laio::{Handle, Operation, Outcome, PollOptions, ReadsStream, Submitted, Ticket};
use std::io;
use std::task::Waker;
use std::time::Duration;

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

    /// Cancels an operation, which completes soon after.
    pub(crate) fn cancel(&mut self, handle: Handle) {
        // It may have finished.
        let _ = self.context.cancel(handle);
    }

    /// Starts an operation that wakes `waker` when it completes.
    pub(crate) fn start<O: Operation>(&mut self, operation: O, waker: &Waker) -> Submitted<O> {
        let submitted = self.context.submit(operation);
        if let Outcome::Pending(ticket) = &submitted {
            self.waiters.set(ticket.handle(), waker);
        }
        submitted
    }

    /// Returns the output of an operation that has completed; for any other, replaces the waker.
    pub(crate) fn take<O: Operation>(
        &mut self,
        ticket: Ticket<O>,
        waker: &Waker,
    ) -> Result<O::Output, Ticket<O>> {
        let taken = self.context.take(ticket);
        taken.inspect_err(|ticket| self.waiters.set(ticket.handle(), waker))
    }

    /// Returns the bytes of a read that has completed; for any other, replaces the waker.
    pub(crate) fn take_bytes<O: ReadsStream>(
        &mut self,
        ticket: Ticket<O>,
        waker: &Waker,
    ) -> Result<io::Result<Vec<u8>>, Ticket<O>> {
        let taken = self.context.take_bytes(ticket);
        taken.inspect_err(|ticket| self.waiters.set(ticket.handle(), waker))
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
