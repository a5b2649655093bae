//! Tickets of typed operations in the background: taking the output, or abandoning the operation.

use crate::context::{Context, DroppedTickets};
use crate::lifecycle::Lifecycle;
use crate::operation::{Operation, ReadsStream};
use crate::operations::State;
use crate::{Errno, Handle};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::RawFd;

/// The right to take the output of a typed operation in the background.
///
/// [`Context::take`] exchanges it for the output. A program that drops it abandons the operation,
/// as [`Context::abandon`] does at once: the context does so in the next `poll`, or before that if its
/// limit of operations is reached.
///
/// ```
/// use laio::ops::Sleep;
/// use laio::{Context, Options, Outcome};
/// use std::time::Duration;
///
/// let mut context = Context::new(Options::new())?;
/// let Outcome::Pending(ticket) = context.submit(Sleep::new(Duration::from_secs(60))) else {
///     panic!("a minute does not pass at once");
/// };
/// drop(ticket);
/// // The sleep is cancelled, and delivers nothing.
/// assert_eq!(context.poll(&mut Vec::new(), None)?, 0);
/// assert_eq!(context.pending(), 0);
/// # Ok::<(), laio::Errno>(())
/// ```
pub struct Ticket<O: Operation> {
    handle: Handle,
    /// Of the operation's context. `None` when the ticket was used.
    dropped: Option<DroppedTickets>,
    operation: PhantomData<fn() -> O>,
}

impl<O: Operation> Ticket<O> {
    pub(crate) fn new(handle: Handle, dropped: &DroppedTickets) -> Ticket<O> {
        Ticket {
            handle,
            dropped: Some(dropped.clone()),
            operation: PhantomData,
        }
    }

    /// The handle, as the completion carries it.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Gives the right up without abandoning the operation.
    pub(crate) fn into_handle(mut self) -> Handle {
        self.dropped = None;
        self.handle
    }

    fn is_of(&self, context: &Context) -> bool {
        let dropped = self.dropped.as_ref();
        dropped.is_some_and(|dropped| dropped.is(&context.dropped))
    }
}

impl<O: Operation> Drop for Ticket<O> {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.push(self.handle, Context::abandon_handle::<O>);
        }
    }
}

impl<O: Operation> fmt::Debug for Ticket<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.handle).finish()
    }
}

/// An operation that is over, and the result of its call.
type Taken<O> = (Box<O>, Result<usize, Errno>);

impl Context {
    /// Takes the output of an operation whose completion has been delivered.
    ///
    /// # Errors
    /// Returns the ticket if the operation has not been delivered, or belongs to another context.
    pub fn take<O: Operation>(&mut self, ticket: Ticket<O>) -> Result<O::Output, Ticket<O>> {
        let (operation, result) = self.take_operation(ticket)?;
        Ok(operation.finish(result))
    }

    /// Takes the bytes that an operation has read, apart from its buffer, which is dropped: for a program
    /// that has cancelled the operation, and passes its bytes on to the next reader.
    ///
    /// # Errors
    /// As for [`Context::take`].
    pub fn take_bytes<O: ReadsStream>(
        &mut self,
        ticket: Ticket<O>,
    ) -> Result<io::Result<Vec<u8>>, Ticket<O>> {
        let (operation, result) = self.take_operation(ticket)?;
        // SAFETY: the result is that of the operation's call.
        Ok(unsafe { operation.into_bytes(result) })
    }

    /// Takes an operation whose completion has been delivered, and the result of its call.
    fn take_operation<O: Operation>(
        &mut self,
        mut ticket: Ticket<O>,
    ) -> Result<Taken<O>, Ticket<O>> {
        self.notice_fork();
        if !ticket.is_of(self) {
            return Err(ticket);
        }
        let found = self.operations.find(ticket.handle);
        let Some(slot) = found.filter(|&slot| self.operations[slot].state == State::Delivered)
        else {
            return Err(ticket);
        };
        ticket.dropped = None;
        let payload = self.operations.payloads.take(slot);
        let operation = payload.and_then(|payload| payload.into_box().downcast::<O>().ok());
        let mut operation = operation.expect("the operation of the ticket");
        let result = self.operations[slot].result;
        let scratch = self.operations[slot].scratch.as_mut();
        if let (Some(after_open), Ok(fd)) = (scratch.and_then(|it| it.after_open.take()), result) {
            operation.examined(&self.knowledge.learn_opened(fd as RawFd, &after_open));
        }
        self.operations.remove(slot);
        Ok((operation, result))
    }

    /// Abandons an operation: it is cancelled, its completion is not delivered, and its buffers are
    /// freed as soon as the kernel no longer uses them. A descriptor that it still produces is
    /// closed. In a context to which the ticket does not belong, this only drops the ticket.
    pub fn abandon<O: Operation>(&mut self, mut ticket: Ticket<O>) {
        self.notice_fork();
        if ticket.is_of(self) {
            ticket.dropped = None;
            self.abandon_handle::<O>(ticket.handle);
        }
    }

    /// Abandons the operations whose tickets were dropped.
    #[inline]
    pub(crate) fn abandon_dropped(&mut self) {
        // One by one: a buffer whose destructor panics, or drops further tickets, loses none.
        while let Some((handle, abandon)) = self.dropped.pop() {
            abandon(self, handle);
            // A destructor may fork too.
            self.notice_fork();
        }
    }

    /// Drops the values of abandoned operations that are over. Called last, because their
    /// destructors are the program's, and may panic or fork.
    pub(crate) fn drop_discarded(&mut self) {
        while let Some(payload) = self.operations.payloads.take_discarded() {
            drop(payload);
            self.notice_fork();
        }
    }

    fn abandon_handle<O: Operation>(&mut self, handle: Handle) {
        let Some(slot) = self.operations.find(handle) else {
            return;
        };
        match self.operations[slot].state {
            State::Delivered => {
                let payload = self.operations.payloads.take(slot);
                let result = self.operations[slot].result;
                self.operations.remove(slot);
                // Dropping the output, rather than the operation, closes a descriptor it holds.
                let operation = payload.map(|payload| payload.into_box().downcast::<O>());
                if let Some(Ok(operation)) = operation {
                    drop(operation.finish(result));
                }
            }
            State::Finished => {
                self.operations.ready.retain(|&ready| ready != slot);
                self.operations.deliver(slot);
                self.abandon_handle::<O>(handle);
            }
            _ => {
                self.abandon_in_flight(slot);
                self.arm_descriptor();
                self.drop_discarded();
            }
        }
    }
}
