//! Typed operations: safe to start, because each owns its descriptor and its buffers until it has
//! finished.
//!
//! [`Context::submit`] takes an operation by value. If the call does not block, it returns the
//! operation's output, and nothing was allocated. Otherwise the operation moves to the heap, where
//! its address is stable, and the call goes to the background; [`Context::take`] returns the output
//! after [`Context::poll`] has delivered the completion.

use crate::attempt::{Attempted, Why};
use crate::context::Context;
use crate::operation::State;
use crate::strategy::Strategy;
use crate::table;
use crate::{Call, Errno, Handle, Outcome};
use std::marker::PhantomData;

/// A system call together with everything it uses.
///
/// # Safety
/// Every pointer in the call that [`Operation::call`] returns must point into memory that `self`
/// owns (or that is static), and must stay valid while `self` is neither moved, dropped nor
/// otherwise used. The engine calls `call` again after moving `self`, and uses only the latest
/// call.
pub unsafe trait Operation: 'static {
    /// The output: usually the result together with the buffer.
    type Output;

    /// The system call.
    fn call(&mut self) -> Call;

    /// Whether the call is expected to block: then it is submitted to the ring, if there is one,
    /// without an attempt. For receiving, and for positioned reads of a file.
    fn expects_to_block(&self) -> bool {
        false
    }

    /// Whether to make a zero-copy send. For `sendto` without an address only.
    fn is_zero_copy(&self) -> bool {
        false
    }

    /// Converts the result of the call into the output.
    fn finish(self, result: Result<usize, Errno>) -> Self::Output;
}

/// The outcome of submitting a typed operation.
#[derive(Debug)]
#[must_use = "a pending operation's output must be taken or abandoned"]
pub enum Submitted<O: Operation> {
    /// The call did not block: this is its output.
    Done(O::Output),
    /// The call is in the background.
    Pending(Ticket<O>),
}

/// The ticket for the output of a typed operation in the background.
///
/// Give it to [`Context::take`] or to [`Context::abandon`]: a ticket that is just dropped leaves its
/// slot in use until the context ends.
pub struct Ticket<O> {
    handle: Handle,
    operation: PhantomData<fn() -> O>,
}

impl<O> Ticket<O> {
    /// The handle, as the completion carries it.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

impl<O> std::fmt::Debug for Ticket<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ticket").field(&self.handle).finish()
    }
}

impl Context {
    /// Starts a typed operation. The completion, if it is pending, carries `user_data`.
    pub fn submit<O: Operation>(&mut self, mut operation: O, user_data: u64) -> Submitted<O> {
        self.notice_fork();
        if self.activations.is_some() {
            return self.submit_in_place(Box::new(operation), user_data);
        }
        if operation.expects_to_block() && self.can_skip_attempt(&operation.call()) {
            return self.submit_untried(Box::new(operation), Why::ExpectedToBlock, user_data);
        }
        if operation.is_zero_copy() {
            if self.sends_without_copy() {
                return self.submit_untried(Box::new(operation), Why::ZeroCopy, user_data);
            }
            self.stats.zero_copy.ordinary += 1;
        }
        let call = operation.call();
        // SAFETY: the operation owns what the call points to and stays where it is during the attempt.
        let attempted = unsafe {
            self.memory_is_good = true;
            let attempted = self.attempt_any(&call);
            self.memory_is_good = false;
            attempted
        };
        if let Attempted::Done(result) = attempted {
            return Submitted::Done(operation.finish(result));
        }
        // From here on the operation must not move; the call must hold its new addresses.
        let mut operation = Box::new(operation);
        let call = operation.call();
        self.keep(operation, &call, attempted, user_data)
    }

    /// Submits an operation that must not move even during its attempt, because a carrier may
    /// continue the call itself.
    fn submit_in_place<O: Operation>(
        &mut self,
        mut operation: Box<O>,
        user_data: u64,
    ) -> Submitted<O> {
        let call = operation.call();
        // SAFETY: the operation owns what the call points to, and stays where it is.
        let attempted = unsafe {
            self.memory_is_good = true;
            let attempted = self.attempt_any(&call);
            self.memory_is_good = false;
            attempted
        };
        self.keep(operation, &call, attempted, user_data)
    }

    /// Submits an operation without an attempt.
    fn submit_untried<O: Operation>(
        &mut self,
        mut operation: Box<O>,
        why: Why,
        user_data: u64,
    ) -> Submitted<O> {
        let call = operation.call();
        let index = table::find(call.number).0;
        let attempted = self.count(index, Strategy::Try, Attempted::blocked(0, why));
        self.keep(operation, &call, attempted, user_data)
    }

    /// Completes the submission of an operation at its final address, after its attempt.
    fn keep<O: Operation>(
        &mut self,
        operation: Box<O>,
        call: &Call,
        attempted: Attempted,
        user_data: u64,
    ) -> Submitted<O> {
        let outcome = match attempted {
            Attempted::Blocked(blocked) => self.start(call, blocked, user_data),
            Attempted::OverBudget(result) => self.defer_result(call, result, user_data),
            Attempted::Done(result) => Outcome::Done(result),
        };
        match outcome {
            Outcome::Done(result) => Submitted::Done(operation.finish(result)),
            Outcome::Pending(handle) => {
                let slot = handle.slot();
                if slot >= self.payloads.len() {
                    self.payloads
                        .resize_with((slot + 1).next_power_of_two(), || None);
                }
                self.payloads[slot] = Some(operation);
                Submitted::Pending(Ticket {
                    handle,
                    operation: PhantomData,
                })
            }
        }
    }

    /// Takes the output of an operation whose completion has been delivered.
    ///
    /// # Errors
    /// Returns the ticket if the operation has not been delivered, or belongs to another context.
    pub fn take<O: Operation>(&mut self, ticket: Ticket<O>) -> Result<O::Output, Ticket<O>> {
        self.notice_fork();
        let found = self.operations.find(ticket.handle);
        let Some(slot) = found.filter(|&slot| self.operations[slot].state == State::Delivered)
        else {
            return Err(ticket);
        };
        let payload = self.payloads[slot as usize].take();
        match payload.map(|payload| payload.downcast::<O>()) {
            Some(Ok(operation)) => {
                let result = self.operations[slot].result;
                self.operations.remove(slot);
                Ok(operation.finish(result))
            }
            // Another context's ticket.
            Some(Err(payload)) => {
                self.payloads[slot as usize] = Some(payload);
                Err(ticket)
            }
            None => Err(ticket),
        }
    }

    /// Abandons an operation: it is cancelled, its completion is not delivered, and its buffers are
    /// freed as soon as the kernel no longer uses them. A descriptor that it still produces is
    /// closed.
    pub fn abandon<O: Operation>(&mut self, ticket: Ticket<O>) {
        self.notice_fork();
        let Some(slot) = self.operations.find(ticket.handle) else {
            return;
        };
        match self.operations[slot].state {
            State::Delivered => {
                let payload = self.payloads[slot as usize].take();
                let result = self.operations[slot].result;
                self.operations.remove(slot);
                // Dropping the output, rather than the operation, closes a descriptor it holds.
                if let Some(Ok(operation)) = payload.map(|payload| payload.downcast::<O>()) {
                    drop(operation.finish(result));
                }
            }
            State::Finished => {
                self.ready.retain(|&ready| ready != slot);
                self.operations.deliver(slot);
                self.abandon(ticket);
            }
            _ => {
                self.operations[slot].abandoned = true;
                self.cancel_slot(slot);
                self.unblock_queued();
                if self.exposed {
                    self.arm_descriptor();
                }
            }
        }
    }
}
