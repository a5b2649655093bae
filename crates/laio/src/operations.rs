//! What is in flight: operations in slots with stable addresses, their order on their descriptors,
//! the values of typed operations, deadlines, and the completions that wait for `poll`.

mod deadlines;
mod order;
mod payloads;
mod slots;

pub(crate) use deadlines::Deadlines;
pub(crate) use order::{Access, Direction, Link, Order, links};
pub(crate) use payloads::{Payload, Payloads};
pub(crate) use slots::{InFlight, Part, Slot, Slots, State};

use crate::attempt::descriptor_range;
use crate::knowledge::hints::Hints;
use crate::status_word::StatusTarget;
use crate::table::Attempt;
use crate::{Completion, Errno, Handle};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::time::Instant;

/// The operations of one context. It derefs to its slots.
#[derive(Debug)]
pub(crate) struct Operations {
    slots: Slots,
    pub(crate) order: Order,
    /// Typed operations, by slot.
    pub(crate) payloads: Payloads,
    pub(crate) deadlines: Deadlines,
    /// Finished operations whose completions have not been delivered, oldest first.
    pub(crate) ready: VecDeque<Slot>,
    /// Descriptors on which an operation has ended while others are queued.
    unblocked: Vec<RawFd>,
}

impl Operations {
    pub(crate) fn new(limit: u32) -> Operations {
        Operations {
            slots: Slots::new(limit),
            order: Order::default(),
            payloads: Payloads::default(),
            deadlines: Deadlines::default(),
            ready: VecDeque::new(),
            unblocked: Vec::new(),
        }
    }

    /// The slot of an operation that has not finished.
    ///
    /// # Errors
    /// `EALREADY` if it has finished; `ENOENT` if the handle is not live.
    pub(crate) fn in_flight(&self, handle: Handle) -> Result<Slot, Errno> {
        let slot = self.find(handle).ok_or(Errno::NOENT)?;
        match self[slot].state {
            State::Finished => Err(Errno::ALREADY),
            State::Delivered => Err(Errno::NOENT),
            _ => Ok(slot),
        }
    }

    /// Adds a new operation at the end of the lists of its descriptors. Returns whether it must wait.
    pub(crate) fn link(&mut self, slot: Slot) -> bool {
        self.order.link(&mut self.slots, slot)
    }

    /// Adds a new `close_range`, for these descriptors. Returns whether it must wait.
    pub(crate) fn link_range(&mut self, slot: Slot, fds: (RawFd, RawFd)) -> bool {
        self.order.link_range(&self.slots, slot, fds)
    }

    /// Removes an operation from the lists of its descriptors.
    pub(crate) fn unlink(&mut self, slot: Slot) {
        self.order.unlink(&mut self.slots, slot);
    }

    /// Records that a queued operation waits no more.
    pub(crate) fn leave_queue(&mut self, slot: Slot) {
        self.order.count_queued(&self.slots, slot, -1);
    }

    /// The operations in flight on a descriptor, oldest first.
    pub(crate) fn on(&self, fd: RawFd) -> Vec<Slot> {
        self.order.operations(&self.slots, fd)
    }

    /// The operations on a descriptor that may start as far as this descriptor is concerned, oldest first.
    pub(crate) fn startable_on(&self, fd: RawFd) -> Vec<Slot> {
        self.order.startable(&self.slots, fd)
    }

    /// The next descriptor on which queued operations may start.
    pub(crate) fn next_unblocked(&mut self) -> Option<RawFd> {
        self.unblocked.pop()
    }

    /// Whether a queued operation no longer waits for an earlier one.
    pub(crate) fn may_start(&self, slot: Slot) -> bool {
        self[slot].state == State::Queued && !self.order.still_waits(&self.slots, slot)
    }

    /// Stores the result of an operation, which is then finished unless a zero-copy notification is
    /// outstanding. `hints`: those of descriptors that begin or end with this call are cleared. Returns the
    /// descriptor that the call has opened although it was cancelled: the caller closes it.
    pub(crate) fn finish(
        &mut self,
        slot: Slot,
        mut result: Result<usize, Errno>,
        hints: &mut Hints,
    ) -> Option<RawFd> {
        self.leave_descriptors(slot);
        let operation = &mut self.slots[slot];
        if operation.awaiting_notif > 0 {
            operation.result = result;
            operation.state = State::AwaitingNotif;
            return None;
        }
        let mut unwanted = None;
        let succeeded = result.is_ok();
        let status_published = operation.status.is_some_and(StatusTarget::is_published);
        // A typed operation takes over the new descriptor even if cancelled: closing an accepted
        // connection would lose it.
        let owned = self.payloads.has(slot);
        if operation.row.yields_descriptor
            && let Ok(fd) = result
        {
            if (operation.cancelled && !status_published && !owned) || operation.abandoned {
                // The caller of a cancelled call does not expect a descriptor.
                unwanted = Some(fd as RawFd);
                result = Err(Errno::CANCELED);
            } else {
                // The number may have belonged to a descriptor that was closed behind the context's
                // back.
                hints.forget(fd as RawFd);
            }
        }
        match operation.row.attempt {
            Attempt::Close if operation.remote.is_none() => {
                hints.forget(operation.call.descriptor(0));
            }
            Attempt::Duplicate(arg) if succeeded => {
                let onto = operation.call.descriptor(arg);
                if onto != operation.call.descriptor(0) {
                    hints.forget(onto);
                }
            }
            Attempt::CloseRange if succeeded => {
                let (first, last) = descriptor_range(&operation.call);
                hints.forget_range(first, last);
            }
            _ => {}
        }
        if operation.timed_out && result == Err(Errno::CANCELED) {
            result = Err(Errno::TIME);
        }
        if let Some(status) = operation.status {
            status.publish(result);
        }
        operation.result = result;
        operation.state = State::Finished;
        if operation.abandoned {
            self.payloads.discard(slot);
            self.slots.remove(slot);
        } else {
            self.ready.push_back(slot);
        }
        unwanted
    }

    /// Notes that a helper closes a file of a remote file system from now on. The number may belong to
    /// another file before the close ends: the kernel gives the number free first, and then waits for the
    /// file system, which may never answer. So nothing waits for its end.
    pub(crate) fn begin_remote_close(&mut self, slot: Slot, hints: &mut Hints) {
        hints.forget(self.slots[slot].call.descriptor(0));
        self.leave_descriptors(slot);
    }

    /// Removes the operation from its descriptors' lists and notes which of them have queued
    /// operations.
    fn leave_descriptors(&mut self, slot: Slot) {
        let closed = self.order.closed_by(slot);
        self.unlink(slot);
        let links = std::mem::replace(&mut self.slots[slot].links, [Link::UNUSED; 2]);
        for fd in links.map(|link| link.fd).into_iter().chain(closed) {
            if self.order.has_queued(fd) {
                self.unblocked.push(fd);
            }
        }
    }

    /// Returns the completion of a finished operation and marks it as delivered.
    pub(crate) fn take_completion(&mut self, slot: Slot) -> Completion {
        let completion = self.slots.completion(slot);
        if self.payloads.has(slot) {
            self.slots.deliver(slot)
        } else {
            self.slots.remove(slot)
        }
        completion
    }

    /// Sets or removes the deadline of an operation.
    pub(crate) fn set_deadline(&mut self, slot: Slot, deadline: Option<Instant>) {
        self.slots[slot].deadline = deadline;
        if let Some(deadline) = deadline {
            let handle = self.slots.handle(slot);
            self.deadlines.add(deadline, handle, &self.slots);
        }
    }

    /// The next operation in flight whose deadline has passed. It is marked as timed out, unless it was
    /// cancelled before: then the deadline is that of another attempt to cancel it.
    pub(crate) fn next_expired(&mut self, now: Instant) -> Option<Slot> {
        while let Some((deadline, handle)) = self.deadlines.pop_before(now) {
            let Ok(slot) = self.in_flight(handle) else {
                continue;
            };
            let operation = &mut self.slots[slot];
            if operation.deadline == Some(deadline) {
                operation.deadline = None;
                operation.timed_out |= !operation.cancelled;
                return Some(slot);
            }
        }
        None
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.slots.memory()
            + self.order.memory()
            + self.payloads.memory()
            + self.ready.capacity() * size_of::<Slot>()
    }
}

impl Deref for Operations {
    type Target = Slots;

    #[inline]
    fn deref(&self) -> &Slots {
        &self.slots
    }
}

impl DerefMut for Operations {
    #[inline]
    fn deref_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, table};

    /// The slots that may start, of all descriptors on which operations have ended.
    fn started(operations: &mut Operations) -> Vec<Slot> {
        let mut started = Vec::new();
        while let Some(fd) = operations.next_unblocked() {
            let may_start = |&slot: &Slot| operations.may_start(slot);
            started.extend(operations.startable_on(fd).into_iter().filter(may_start));
        }
        started.sort_unstable();
        started.dedup();
        started
    }

    #[test]
    fn a_range_waits_for_older_operations_and_later_ones_for_it() {
        let mut operations = Operations::new(8);
        let mut hints = Hints::default();
        let call = Call::new(libc::SYS_read, [0; 3]);
        let insert = |operations: &mut Operations, fd: Option<RawFd>| {
            let slot = operations.insert(table::row(call.number), &call, 0);
            let waits = match fd {
                Some(fd) => {
                    operations[slot].links[0] = Link::new(fd, Access::READING);
                    operations.link(slot)
                }
                None => operations.link_range(slot, (0, 2)),
            };
            (slot, waits)
        };
        let (zero, waits) = insert(&mut operations, Some(0));
        assert!(!waits);
        let (one, waits) = insert(&mut operations, Some(1));
        assert!(!waits);
        for slot in [zero, one] {
            operations[slot].state = State::With(Part::Ring);
        }
        let (close, waits) = insert(&mut operations, None);
        assert!(waits);
        let later: Vec<Slot> = (0..3)
            .map(|fd| {
                let (slot, waits) = insert(&mut operations, Some(fd));
                assert!(waits, "{fd}");
                slot
            })
            .collect();
        let _ = operations.finish(zero, Err(Errno::CANCELED), &mut hints);
        assert_eq!(started(&mut operations), []);
        let _ = operations.finish(one, Err(Errno::CANCELED), &mut hints);
        assert_eq!(started(&mut operations), [close]);
        operations[close].state = State::With(Part::Helper);
        let _ = operations.finish(close, Ok(0), &mut hints);
        assert_eq!(started(&mut operations), later);
    }
}
