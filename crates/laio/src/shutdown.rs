//! The end of a context: shutting it down, and resetting it in a forked child.

use crate::Limits;
use crate::context::Context;
use crate::lifecycle::Lifecycle;
use crate::operations::{Slot, State};

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

impl Context {
    /// Shuts the context down as dropping it does, but waits at most `timeout`. Returns false if
    /// operations are left, which cannot be cancelled because they hang in the kernel; the context
    /// is then leaked, so that the memory they use stays valid.
    ///
    /// Meant for the end of a process, which ends such operations.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> bool {
        if !self.life.is_current() || self.shut_down(Some(timeout)) {
            return true;
        }
        std::mem::forget(self);
        false
    }

    /// Cancels all operations and waits until the kernel no longer uses their buffers. Returns
    /// false if `timeout` has passed before.
    fn shut_down(&mut self, timeout: Option<Duration>) -> bool {
        // The signaller polls a descriptor of this context, so it ends first.
        self.signaller = None;
        self.close_undelivered();
        self.operations.ready.clear();
        let begun = Instant::now();
        let end = timeout.and_then(|timeout| begun.checked_add(timeout));
        let in_flight = |context: &Context| -> Vec<Slot> {
            let slots = context.operations.slots();
            slots
                .filter(|&slot| context.operations[slot].state.is_in_flight())
                .collect()
        };
        loop {
            let awaiting = self.wait_for_notifs(begun);
            // Repeated in each round: operations that were queued may have started.
            for slot in in_flight(self) {
                self.operations[slot].abandoned = true;
                self.cancel_slot(slot);
            }
            self.unblock_queued();
            if in_flight(self).is_empty() {
                return true;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return false;
            }
            let left = [left, awaiting].into_iter().flatten().min();
            // With a notification pending, no wait would sleep, and no `poll` follows.
            self.background.doorbell().take_notification();
            if self.reap(left).is_err() {
                // It cannot be known when the kernel is done, so memory that it may still write to
                // is not freed.
                self.operations.payloads.leak();
                return true;
            }
        }
    }

    /// How long a context that has been shutting down since `begun` still waits for zero-copy
    /// notifications, if any are outstanding. After that time the memory is leaked.
    fn wait_for_notifs(&mut self, begun: Instant) -> Option<Duration> {
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
            std::mem::forget(self.operations.payloads.take(slot));
            self.operations[slot].state = State::Finished;
        }
    }

    /// Closes the descriptors produced by finished operations whose completions are not delivered
    /// any more.
    fn close_undelivered(&mut self) {
        let undelivered = |&slot: &Slot| match self.operations[slot].state {
            State::Finished => true,
            State::Delivered => self.operations.payloads.has(slot),
            _ => false,
        };
        for slot in self.operations.slots().filter(undelivered) {
            let operation = &self.operations[slot];
            if operation.row.yields_descriptor
                && let Ok(fd) = operation.result
            {
                let _ = crate::sys::close(fd as RawFd);
            }
        }
    }

    /// Releases what a child inherited, without touching state shared with the parent.
    fn forget_in_child(&mut self) {
        self.background.forget_in_child();
        // Buffers of typed operations are leaked: the parent's operations hold their addresses.
        self.operations.payloads.leak();
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.life.is_current() {
            // In a forked child the operations belong to the parent.
            self.forget_in_child();
            return;
        }
        self.shut_down(None);
    }
}
