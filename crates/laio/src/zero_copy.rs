//! Sends without a copy: the kernel still has the memory when the result is there, and tells when it has let go.

use crate::background::prepare;
use crate::background::ring::{Part, Reaped};
use crate::context::{Context, Waiter};
use crate::operation::{Slot, State};
use crate::{Errno, Limits};
use io_uring::opcode;
use std::time::{Duration, Instant};

impl Context {
    /// Whether [`Send::zero_copy`](crate::ops::Send::zero_copy) can be had here: with a ring, on Linux 6.0 or later.
    pub fn sends_without_copy(&self) -> bool {
        match &self.waiter {
            Waiter::Ring(ring) => ring.opcodes().has(opcode::SendZc::CODE),
            Waiter::Reactor(_) => false,
        }
    }

    /// Notes which of its two completions a send has got; whether it is that the kernel has let go of the memory.
    pub(crate) fn is_notification(&mut self, slot: Slot, reaped: &Reaped) -> bool {
        let operation = &mut self.operations[slot];
        if reaped.part == Part::Result {
            operation.awaiting_notif += 1;
            return false;
        }
        operation.awaiting_notif -= 1;
        // What was refused has no use of the memory to tell of, which looks like a copy.
        if operation.zero_copy {
            let copied = prepare::has_copied(reaped.result);
            self.stats.zero_copy.sends += 1;
            self.stats.zero_copy.copied += u64::from(copied);
        }
        if operation.state == State::AwaitingNotif && operation.awaiting_notif == 0 {
            let result = operation.result;
            self.finish(slot, result);
        }
        true
    }

    /// Whether a send without a copy, or what is left of it, has to be an ordinary one.
    pub(crate) fn falls_back_to_copy(&mut self, slot: Slot, result: Result<usize, Errno>) -> bool {
        let operation = &mut self.operations[slot];
        // Not of this kind of socket; or no more memory may be locked; or a filter forbids this operation only.
        let refused = matches!(
            result,
            Err(Errno::OPNOTSUPP
                | Errno::INVAL
                | Errno::NOMEM
                | Errno::NOBUFS
                | Errno::PERM
                | Errno::ACCES)
        );
        let changes = refused && !operation.cancelled;
        if changes {
            operation.zero_copy = false;
            self.stats.zero_copy.ordinary += 1;
        }
        changes
    }

    /// For the end of a context that has tried to end its operations since `begun`: how long to wait for memory that
    /// the kernel still has, if it has any. Once that time is up the memory is given up.
    pub(crate) fn wait_for_notifs(&mut self, begun: Instant) -> Option<Duration> {
        let left = Limits::LENT.saturating_sub(begun.elapsed());
        if left.is_zero() {
            self.leak_awaiting_notif();
            return None;
        }
        let mut slots = self.operations.slots();
        slots
            .any(|slot| self.operations[slot].awaiting_notif > 0)
            .then_some(left)
    }

    /// Gives up memory that the kernel still sends from: when a peer takes it is not for us to know. It is never used
    /// again.
    fn leak_awaiting_notif(&mut self) {
        let awaiting = |&slot: &Slot| self.operations[slot].state == State::AwaitingNotif;
        let awaiting: Vec<Slot> = self.operations.slots().filter(awaiting).collect();
        for slot in awaiting {
            let payload = self.payloads.get_mut(slot as usize);
            std::mem::forget(payload.and_then(Option::take));
            self.operations[slot].state = State::Finished;
        }
    }
}
