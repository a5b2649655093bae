//! The lifecycle of an operation: which part of the back end takes it, how partial results
//! continue, and when it is finished or cancelled.

use crate::attempt::{Attempted, Blocked, Try, Why, descriptor_range};
use crate::background::Steps;
use crate::background::after_open::AfterOpen;
use crate::background::job::Cancelled;
use crate::context::Context;
use crate::knowledge::facts::Facts;
use crate::operations::{InFlight, Link, Operations, Part, Slot, State, links};
use crate::options::BackPressure;
use crate::placement::{hand_over, link_of_poll};
use crate::status_word::StatusTarget;
use crate::step::{self, Next, total};
use crate::table::{Attempt, Class};
use crate::{Call, Errno, Limits, Outcome, sys};
use std::os::fd::RawFd;
use std::time::Instant;

impl Context {
    /// Starts an operation for a call whose attempt did not finish it.
    #[cold]
    pub(crate) fn start(
        &mut self,
        this: &Try<'_>,
        blocked: Blocked,
        user_data: u64,
        status: Option<StatusTarget>,
    ) -> Outcome {
        let done = blocked.done;
        if blocked.why == Why::NoCarrier && self.back_pressure == BackPressure::Fail {
            self.stats.limited += 1;
            return self.without_operation(this, done, Errno::AGAIN);
        }
        if self.operations.is_full() {
            self.abandon_dropped();
        }
        if self.operations.is_full() {
            self.stats.limited += 1;
            if self.back_pressure == BackPressure::Fail || !self.wait_for_slot() {
                return self.without_operation(this, done, Errno::AGAIN);
            }
        }
        match self.start_operation(this, blocked, user_data, status) {
            Ok(slot) => {
                self.stats.operations += 1;
                self.stats.operations_max = self.stats.operations_max.max(self.operations.live());
                if self.background.is_exposed() {
                    self.arm_descriptor();
                } else if self.background.has_batch() {
                    // Entries that the kernel does not take stay queued; `poll` reports errors.
                    let _ = self.flush();
                }
                Outcome::Pending(self.operations.handle(slot))
            }
            Err(errno) => self.without_operation(this, done, errno),
        }
    }

    /// The outcome of a call for which there is no slot or no helper. A `close` is made inline:
    /// `EAGAIN` would leave the caller in doubt whether the descriptor is still open, and operations
    /// on it have been cancelled before.
    fn without_operation(&mut self, this: &Try<'_>, done: usize, errno: Errno) -> Outcome {
        Outcome::Done(match this.row.attempt {
            Attempt::Close => {
                // Queued submissions name the descriptor by its number, so the kernel must take them
                // first.
                let _ = self.flush();
                // SAFETY: the call is a `close`.
                unsafe { self.knowledge.close_now(this.call) }
            }
            _ if done > 0 => Ok(done),
            _ => Err(errno),
        })
    }

    /// Makes an operation of a call, and hands it over or queues it behind earlier ones.
    fn start_operation(
        &mut self,
        this: &Try<'_>,
        blocked: Blocked,
        user_data: u64,
        status: Option<StatusTarget>,
    ) -> Result<Slot, Errno> {
        let Try { row, call, .. } = *this;
        let regular = self.knowledge.may_continue_short(row, call);
        let waits = self.background.reports_readiness();
        let poll = link_of_poll(this, waits, &self.operations.order, &self.knowledge.hints);
        let links = match poll {
            Some(poll) => [poll, Link::UNUSED],
            None => links(row, call, regular, &self.knowledge.hints),
        };
        let why = blocked.why;
        let slot = self.operations.insert(row, call, user_data);
        let operation = &mut self.operations[slot];
        operation.done = blocked.done;
        operation.status = status;
        operation.regular = regular;
        operation.zero_copy = why == Why::ZeroCopy;
        operation.links = links;
        if blocked.provisional.is_some() {
            operation.scratch.get_or_insert_default().provisional = blocked.provisional;
        }
        if this.load > 0 {
            operation.scratch.get_or_insert_default().after_open = Some(AfterOpen::new(this.load));
        }
        let waits = self.queue(slot);
        if let Some(flight) = blocked.in_flight {
            // The call is already running in the thread that was left behind.
            if waits {
                self.operations.leave_queue(slot);
            }
            self.background.adopt(flight, &mut self.operations, slot);
            return Ok(slot);
        }
        if waits {
            return Ok(slot);
        }
        let why = match why {
            // A test injected the failure (`Inject::attempts_fail`): no attempt was made.
            Why::WouldBlock if self.inject.attempts_fail => Why::NotTried,
            why => why,
        };
        let started = self.start_step(slot, why);
        self.note_new_rights();
        started?;
        Ok(slot)
    }

    /// Asks the kernel for its facts again if the thread's rights were found to have changed: a
    /// filter may forbid what was possible before.
    pub(crate) fn note_new_rights(&mut self) {
        if self.background.take_new_rights() {
            self.knowledge.facts = Facts::get();
        }
    }
}

/// What continues operations: a context, or a simulation of one. The provided methods are all that is decided
/// about an operation between its start and its result; the required ones do what is decided.
pub(crate) trait Lifecycle {
    fn operations(&mut self) -> &mut Operations;

    /// Stores the result of an operation. Returns a descriptor to close; see [`Operations::finish`].
    fn store_result(&mut self, slot: Slot, result: Result<usize, Errno>) -> Option<RawFd>;

    fn close_descriptor(&mut self, fd: RawFd);

    /// The injected bound of one step; 0 for none.
    fn step_bound(&self) -> usize;

    /// Hands a step to the part of the background that takes it; see [`crate::placement::hand_over`].
    fn place_step(&mut self, slot: Slot, call: &Call, why: Why) -> Result<bool, Errno>;

    /// Makes a helper make a call.
    fn start_helper(&mut self, slot: Slot, call: &Call) -> Result<(), Errno>;

    /// Makes a call of an operation in its non-blocking form.
    fn attempt_step(&mut self, slot: Slot, call: &Call) -> Attempted;

    /// Cancels the step that a part of the background has.
    fn cancel_step(&mut self, part: Part, slot: Slot) -> Cancelled;

    /// Repeats a refused cancellation a little later.
    fn retry_cancel(&mut self, slot: Slot);

    /// Puts a new operation behind the earlier ones on its descriptors. Returns whether it must wait.
    fn queue(&mut self, slot: Slot) -> bool {
        let operations = self.operations();
        let InFlight { row, call, .. } = operations[slot];
        match row.attempt {
            Attempt::CloseRange => operations.link_range(slot, descriptor_range(&call)),
            _ => operations.link(slot),
        }
    }

    /// Starts the first step of an operation that need not wait. On an error there is no operation.
    fn start_step(&mut self, slot: Slot, why: Why) -> Result<(), Errno> {
        match self.hand_over(slot, why) {
            Ok(None) => Ok(()),
            Ok(Some(step)) => {
                self.proceed(slot, step);
                Ok(())
            }
            Err(errno) => {
                let operations = self.operations();
                operations.unlink(slot);
                operations[slot].state = State::Finished;
                operations.remove(slot);
                Err(errno)
            }
        }
    }

    /// Continues an operation until a part of the back end has it, or it is finished. This ends: an
    /// attempt that moves no bytes never leads to another (see [`step::after_attempt`]).
    fn proceed(&mut self, slot: Slot, mut next: Next) {
        loop {
            let handed_over = match next {
                Next::Finished(result) => return self.finish(slot, result),
                Next::Attempt => Ok(Some(self.attempt_rest(slot))),
                Next::Again(why) => self.hand_over(slot, why),
                Next::Helper => self.hand_to_helper(slot),
            };
            next = match handed_over {
                Ok(None) => return,
                Ok(Some(further)) => further,
                Err(errno) => Next::Finished(total(self.operations()[slot].done, Err(errno))),
            };
        }
    }

    /// Hands an operation's next step to the part of the background that takes it. Returns what
    /// comes next if the operation must be attempted first.
    fn hand_over(&mut self, slot: Slot, why: Why) -> Result<Option<Next>, Errno> {
        let bound = self.step_bound();
        let call = self.operations()[slot].step(bound);
        let taken = self.place_step(slot, &call, why)?;
        Ok((!taken).then_some(Next::Attempt))
    }

    /// Makes a helper make the rest of an operation.
    fn hand_to_helper(&mut self, slot: Slot) -> Result<Option<Next>, Errno> {
        let call = self.operations()[slot].call;
        self.start_helper(slot, &call)?;
        Ok(None)
    }

    /// Attempts the rest of an operation: its descriptor is ready, or the rest may be available.
    fn attempt_rest(&mut self, slot: Slot) -> Next {
        if self.operations()[slot].row.attempt == Attempt::Never {
            // The call has no non-blocking form, so a helper makes it.
            return Next::Helper;
        }
        let bound = self.step_bound();
        let call = self.operations()[slot].step(bound);
        let attempted = self.attempt_step(slot, &call);
        step::after_attempt(&mut self.operations()[slot], attempted, bound)
    }

    /// Continues the operations of which a step has finished, and empties `steps`.
    fn run_steps(&mut self, steps: &mut Steps) {
        for (slot, step) in steps.drain(..) {
            self.proceed(slot, step);
        }
    }

    fn finish_cancelled(&mut self, slot: Slot) {
        let done = self.operations()[slot].done;
        self.finish(slot, total(done, Err(Errno::CANCELED)));
    }

    /// Stores the result of an operation, which is then finished unless a zero-copy notification is
    /// outstanding.
    fn finish(&mut self, slot: Slot, result: Result<usize, Errno>) {
        if let Some(fd) = self.store_result(slot, result) {
            self.close_descriptor(fd);
        }
    }

    /// Hands the queued operations over that no longer wait for an earlier one.
    fn unblock_queued(&mut self) {
        while let Some(fd) = self.operations().next_unblocked() {
            for slot in self.operations().startable_on(fd) {
                if self.operations().may_start(slot) {
                    self.operations().leave_queue(slot);
                    self.proceed(slot, Next::Again(Why::Ordered));
                }
            }
        }
    }

    /// Cancels an operation in flight, or asks the kernel to.
    fn cancel_slot(&mut self, slot: Slot) {
        let operation = &mut self.operations()[slot];
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
                self.operations().leave_queue(slot);
                self.finish_cancelled(slot);
            }
            State::With(part) => self.cancel_at(part, slot),
            State::Free | State::AwaitingNotif | State::Finished | State::Delivered => {}
        }
    }

    /// Asks a part of the background to end its step of an operation.
    fn cancel_at(&mut self, part: Part, slot: Slot) {
        match self.cancel_step(part, slot) {
            Cancelled::Removed => self.finish_cancelled(slot),
            Cancelled::Running => {}
            Cancelled::Refused => self.retry_cancel(slot),
        }
    }

    /// Repeats a cancel request for which the kernel did not find the operation, unless it is over.
    /// The kernel never finds file reads and writes that wait for a disk; they finish by
    /// themselves.
    fn cancel_again(&mut self, slot: Slot) {
        let operation = &self.operations()[slot];
        let file = matches!(operation.row.class, Class::FileRead | Class::FileWrite);
        if operation.cancelled
            && matches!(
                operation.state,
                State::With(Part::Ring | Part::RingWorker | Part::Readiness)
            )
            && !(file || operation.regular)
        {
            self.operations()[slot].cancelled = false;
            self.cancel_slot(slot);
        }
    }

    /// Cancels all operations in flight on a descriptor.
    fn cancel_all_on(&mut self, fd: RawFd) {
        for slot in self.operations().on(fd) {
            let state = self.operations()[slot].state;
            if !matches!(state, State::Finished | State::Free) {
                self.cancel_slot(slot);
            }
        }
        self.unblock_queued();
    }

    /// Abandons an operation in flight: it is cancelled, and its completion is not delivered.
    fn abandon_in_flight(&mut self, slot: Slot) {
        self.operations()[slot].abandoned = true;
        self.cancel_slot(slot);
        self.unblock_queued();
    }
}

impl Lifecycle for Context {
    fn operations(&mut self) -> &mut Operations {
        &mut self.operations
    }

    fn store_result(&mut self, slot: Slot, result: Result<usize, Errno>) -> Option<RawFd> {
        let hints = &mut self.knowledge.hints;
        self.operations.finish(slot, result, hints)
    }

    fn close_descriptor(&mut self, fd: RawFd) {
        let _ = sys::close(fd);
    }

    fn step_bound(&self) -> usize {
        self.inject.short_transfer
    }

    fn place_step(&mut self, slot: Slot, call: &Call, why: Why) -> Result<bool, Errno> {
        let (background, operations) = (&mut self.background, &mut self.operations);
        hand_over(background, operations, &mut self.knowledge, slot, call, why)
    }

    fn start_helper(&mut self, slot: Slot, call: &Call) -> Result<(), Errno> {
        let (part, operations) = (Part::Helper, &mut self.operations);
        self.background
            .start(part, operations, slot, call, Why::Unsupported)?;
        Ok(())
    }

    fn attempt_step(&mut self, _: Slot, call: &Call) -> Attempted {
        self.note_new_rights();
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered.
        unsafe { self.knowledge.attempt(&Try::new(call)) }
    }

    fn cancel_step(&mut self, part: Part, slot: Slot) -> Cancelled {
        self.background.cancel(part, &mut self.operations, slot)
    }

    fn retry_cancel(&mut self, slot: Slot) {
        let again = Instant::now().checked_add(Limits::SIGNAL_RETRY);
        self.operations.set_deadline(slot, again);
        // Without a timer, a program that sleeps on the pollable descriptor repeats it at its
        // next poll.
        let _ = self.prepare_timer();
    }
}
