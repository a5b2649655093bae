//! Cancelling operations.

use crate::background::helpers::Cancelled;
use crate::context::{Context, Waiter};
use crate::operation::{Slot, State};
use crate::readiness::awaited;
use crate::table::{Attempt, Class};
use std::os::fd::RawFd;

impl Context {
    /// Cancels an operation in flight, or asks the kernel to.
    pub(crate) fn cancel_slot(&mut self, slot: Slot) {
        let handle = self.operations.handle(slot);
        let operation = &mut self.operations[slot];
        if std::mem::replace(&mut operation.cancelled, true) {
            return;
        }
        if matches!(
            operation.row.attempt,
            Attempt::Close | Attempt::Duplicate(_) | Attempt::CloseRange
        ) {
            // A close is not cancelled: that would leave the state of the descriptor in doubt.
            operation.cancelled = false;
            return;
        }
        match operation.state {
            State::Queued => {
                self.descriptors.count_queued(&self.operations, slot, -1);
                self.finish_cancelled(slot);
            }
            State::Helper => {
                let cancelled = match self.one_shot.cancel(handle) {
                    Some(cancelled) => cancelled,
                    None => self.helpers.cancel(handle),
                };
                if cancelled == Cancelled::Removed {
                    self.finish_cancelled(slot);
                }
            }
            State::Aio => self.cancel_in_aio(slot, handle),
            State::Carrier => {
                if let Some(activations) = &self.activations {
                    activations.cancel(handle);
                }
            }
            State::Readiness | State::Ring | State::ForceAsync => match &mut self.waiter {
                // If the submission queue is full, the operation ends by itself or is cancelled
                // again at the next request.
                Waiter::Ring(ring) => operation.cancelled = ring.cancel(handle).is_ok(),
                Waiter::Reactor(reactor) => {
                    let (fd, direction) = awaited(operation);
                    reactor.remove(fd, direction);
                    self.finish_cancelled(slot);
                }
            },
            State::Free | State::AwaitingNotif | State::Finished | State::Delivered => {}
        }
    }

    /// Repeats a cancel request for which the kernel did not find the operation, unless it is over.
    /// The kernel never finds file reads and writes that wait for a disk; they finish by
    /// themselves.
    pub(crate) fn cancel_again(&mut self, slot: Slot) {
        let operation = &self.operations[slot];
        let file = matches!(operation.row.class, Class::FileRead | Class::FileWrite);
        if operation.cancelled
            && matches!(operation.state, State::Ring | State::Readiness)
            && !(file || operation.regular)
        {
            self.operations[slot].cancelled = false;
            self.cancel_slot(slot);
        }
    }

    /// Cancels all operations in flight on a descriptor.
    pub(crate) fn cancel_all_on(&mut self, fd: RawFd) {
        for slot in self.descriptors.operations(&self.operations, fd) {
            if !matches!(self.operations[slot].state, State::Finished | State::Free) {
                self.cancel_slot(slot);
            }
        }
        self.unblock_queued();
    }
}
