//! Typed operations: safe to start, because each owns its descriptor and its buffers until it has
//! finished.
//!
//! [`Context::submit`] takes an operation by value. If the call does not block, it returns the
//! operation's output, and nothing was allocated. Otherwise the operation moves to the heap, where
//! its address is stable, and the call goes to the background; [`Context::take`] returns the output
//! after [`Context::poll`] has delivered the completion.

use crate::attempt::{Attempted, Blocked, Examined, Try, Why};
use crate::composition::Strategy;
use crate::context::Context;
use crate::operation::Operation;
use crate::operations::{Payload, Slot};
use crate::table::{self, Class};
use crate::ticket::Ticket;
use crate::{Call, Outcome};
use std::ptr::NonNull;

/// The outcome of submitting a typed operation: its output, or a ticket for it.
pub type Submitted<O> = Outcome<<O as Operation>::Output, Ticket<O>>;

impl Context {
    /// Starts a typed operation.
    ///
    /// ```
    /// use laio::ops::Read;
    /// use laio::{Context, Options, Outcome};
    ///
    /// let mut context = Context::new(Options::new())?;
    /// let (from, to) = std::io::pipe()?;
    /// // The pipe is empty, so the read goes to the background with its descriptor and its buffer.
    /// let read = Read::new(from, Vec::with_capacity(16));
    /// let Outcome::Pending(ticket) = context.submit(read) else { panic!() };
    ///
    /// std::io::Write::write_all(&mut &to, b"hello")?;
    /// let mut completions = Vec::new();
    /// context.poll(&mut completions, None)?;
    /// assert_eq!(completions[0].handle, ticket.handle());
    /// let (read, buffer) = context.take(ticket).expect("its completion was delivered");
    /// assert_eq!((read?, &buffer[..]), (5, &b"hello"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn submit<O: Operation>(&mut self, operation: O) -> Submitted<O> {
        self.submit_with(operation, 0)
    }

    /// As [`Context::submit`]; the completion, if it is pending, carries `user_data`.
    pub fn submit_with<O: Operation>(&mut self, mut operation: O, user_data: u64) -> Submitted<O> {
        self.notice_fork();
        if self.background.carriers().is_some() {
            return self.submit_in_place(operation, user_data);
        }
        if operation.expects_to_block() && self.can_skip_attempt(&operation.call()) {
            return self.submit_untried(operation, Why::ExpectedToBlock, user_data);
        }
        if operation.is_zero_copy() {
            if self.sends_without_copy() {
                return self.submit_untried(operation, Why::ZeroCopy, user_data);
            }
            self.stats.zero_copy.ordinary += 1;
        }
        let call = operation.call();
        let examined = Examined::default();
        let this = Try {
            examined: operation.wants_status().then_some(&examined),
            ..owned(&call)
        };
        // SAFETY: the operation owns what the call points to and stays where it is during the attempt.
        let attempted = unsafe { self.attempt_any(&this) };
        if operation.wants_status()
            && let Attempted::Done(Ok(_)) | Attempted::OverBudget(Ok(_)) = attempted
        {
            operation.examined(&examined);
        }
        if let Attempted::Done(result) = attempted {
            return Outcome::Done(operation.finish(result));
        }
        // From here on the operation must not move; the call must hold its new addresses.
        self.keep(Placed::new(operation), attempted, user_data)
    }

    /// Whether a call that is expected to block costs less on the ring alone than after an attempt.
    fn can_skip_attempt(&self, call: &Call) -> bool {
        // Only `lazy` and `uring` have a ring, and both use one strategy for streams, reads and
        // writes. So `streams` answers for writes of files too.
        let fast_paths = self.knowledge.fast_paths;
        let tries = match table::row(call.number).class {
            Class::FileRead => fast_paths.files,
            _ => fast_paths.streams,
        };
        tries && self.has_ring()
    }

    /// Submits an operation that must not move even during its attempt, because a carrier may
    /// continue the call itself.
    fn submit_in_place<O: Operation>(&mut self, operation: O, user_data: u64) -> Submitted<O> {
        let placed = Placed::new(operation);
        // SAFETY: the operation owns what the call points to, and stays where it is.
        let attempted = unsafe { self.attempt_any(&placed.to_try()) };
        self.keep(placed, attempted, user_data)
    }

    /// Submits an operation without an attempt.
    fn submit_untried<O: Operation>(
        &mut self,
        operation: O,
        why: Why,
        user_data: u64,
    ) -> Submitted<O> {
        let placed = Placed::new(operation);
        let row = table::row(placed.call.number);
        let attempted = self.count(row, Strategy::Try, Attempted::blocked(0, why));
        self.keep(placed, attempted, user_data)
    }

    /// Submits an operation that another thread has attempted.
    pub(crate) fn submit_attempted<O: Operation>(
        &mut self,
        operation: O,
        blocked: Blocked,
    ) -> Submitted<O> {
        self.keep(Placed::new(operation), Attempted::Blocked(blocked), 0)
    }

    /// Completes the submission of an operation at its final address, after its attempt.
    fn keep<O: Operation>(
        &mut self,
        placed: Placed<O>,
        attempted: Attempted,
        user_data: u64,
    ) -> Submitted<O> {
        // If this unwinds, the kernel may already use the operation, which is then not freed.
        let outcome = self.conclude(&placed.to_try(), attempted, user_data, None);
        let operation = placed.operation;
        match outcome {
            Outcome::Done(result) => {
                // SAFETY: `Placed::new` has leaked it, and the call is over.
                let operation = unsafe { Box::from_raw(operation.as_ptr()) };
                Outcome::Done(operation.finish(result))
            }
            Outcome::Pending(handle) => {
                let slot = handle.slot() as Slot;
                // SAFETY: `Placed::new` has leaked it.
                let payload = unsafe { Payload::new(operation) };
                self.operations.payloads.put(slot, payload);
                Outcome::Pending(Ticket::new(handle, &self.dropped))
            }
        }
    }
}

/// An operation at its final address on the heap, and its call there.
struct Placed<O> {
    operation: NonNull<O>,
    call: Call,
    /// See [`Operation::wants_loaded`].
    load: usize,
}

impl<O: Operation> Placed<O> {
    /// Moves an operation to its final address.
    fn new(operation: O) -> Placed<O> {
        let load = operation.wants_loaded();
        let operation = NonNull::from(Box::leak(Box::new(operation)));
        // SAFETY: no other pointer to it exists yet.
        let call = unsafe { (*operation.as_ptr()).call() };
        Placed {
            operation,
            call,
            load,
        }
    }

    fn to_try(&self) -> Try<'_> {
        Try {
            load: self.load,
            ..owned(&self.call)
        }
    }
}

/// The call of a typed operation, which owns its memory.
fn owned(call: &Call) -> Try<'_> {
    Try {
        memory_is_good: true,
        ..Try::new(call)
    }
}
