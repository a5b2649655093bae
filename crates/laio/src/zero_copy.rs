//! Zero-copy sends: the kernel still uses the memory after it has posted the result, and posts a
//! notification CQE when it no longer does.

use crate::background::prepare;
use crate::background::ring::{CqeKind, Reaped};
use crate::context::{Context, Waiter};
use crate::operation::{Slot, State};
use crate::{Errno, Limits};
use io_uring::opcode;
use std::time::{Duration, Instant};

impl Context {
    /// Whether [`Send::zero_copy`](crate::ops::Send::zero_copy) is available: with a ring, on Linux
    /// 6.0 or later.
    pub fn sends_without_copy(&self) -> bool {
        match &self.waiter {
            Waiter::Ring(ring) => ring.opcodes().has(opcode::SendZc::CODE),
            Waiter::Reactor(_) => false,
        }
    }

    /// Counts the two CQEs of a zero-copy send. Returns whether this one is the notification.
    pub(crate) fn is_notification(&mut self, slot: Slot, reaped: &Reaped) -> bool {
        let operation = &mut self.operations[slot];
        if reaped.kind == CqeKind::Result {
            operation.awaiting_notif += 1;
            return false;
        }
        operation.awaiting_notif -= 1;
        // After a refusal the operation is an ordinary send, and the notification says nothing
        // about copying.
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

    /// Whether a zero-copy send was refused, so that the rest must be an ordinary send.
    pub(crate) fn falls_back_to_copy(&mut self, slot: Slot, result: Result<usize, Errno>) -> bool {
        let operation = &mut self.operations[slot];
        // The socket type has no zero-copy sends, RLIMIT_MEMLOCK is reached, or a filter forbids
        // this operation.
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

    /// How long a context that has been shutting down since `begun` still waits for zero-copy
    /// notifications, if any are outstanding. After that time the memory is leaked.
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

    /// Leaks memory that the kernel still sends from: the peer decides when it is read, and that
    /// may never happen.
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
