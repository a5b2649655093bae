//! The lifecycle of an operation: which part of the back end takes it, how partial results
//! continue, and when it is finished.

use crate::attempt::{Blocked, Try, Why, descriptor_range};
use crate::background::Steps;
use crate::context::Context;
use crate::knowledge::facts::Facts;
use crate::operations::{Link, Part, Slot, State, links};
use crate::options::BackPressure;
use crate::placement::{hand_over, link_of_poll};
use crate::status_word::StatusTarget;
use crate::step::{self, Next, total};
use crate::table::Attempt;
use crate::{Errno, Outcome};

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
        let slot = self.operations.insert(row, call, user_data);
        let operation = &mut self.operations[slot];
        operation.done = blocked.done;
        operation.status = status;
        operation.regular = regular;
        operation.zero_copy = blocked.why == Why::ZeroCopy;
        operation.links = links;
        if blocked.provisional.is_some() {
            operation.scratch.get_or_insert_default().provisional = blocked.provisional;
        }
        let waits = match row.attempt {
            Attempt::CloseRange => self.operations.link_range(slot, descriptor_range(call)),
            _ => self.operations.link(slot),
        };
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
        let why = match blocked.why {
            // A test injected the failure (`Inject::attempts_fail`): no attempt was made.
            Why::WouldBlock if self.inject.attempts_fail => Why::NotTried,
            why => why,
        };
        let handed_over = self.hand_over(slot, why);
        self.note_new_rights();
        match handed_over {
            Ok(None) => Ok(slot),
            Ok(Some(step)) => {
                self.proceed(slot, step);
                Ok(slot)
            }
            Err(errno) => {
                self.operations.unlink(slot);
                self.operations[slot].state = State::Finished;
                self.operations.remove(slot);
                Err(errno)
            }
        }
    }

    /// Asks the kernel for its facts again if the thread's rights were found to have changed: a
    /// filter may forbid what was possible before.
    pub(crate) fn note_new_rights(&mut self) {
        if self.background.take_new_rights() {
            self.knowledge.facts = Facts::get();
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
                Err(errno) => Next::Finished(total(self.operations[slot].done, Err(errno))),
            };
        }
    }

    /// Hands an operation's next step to the part of the background that takes it. Returns what
    /// comes next if the operation must be attempted first.
    fn hand_over(&mut self, slot: Slot, why: Why) -> Result<Option<Next>, Errno> {
        let call = self.operations[slot].step(self.inject.short_transfer);
        let (background, operations) = (&mut self.background, &mut self.operations);
        let knowledge = &mut self.knowledge;
        let taken = hand_over(background, operations, knowledge, slot, &call, why)?;
        Ok((!taken).then_some(Next::Attempt))
    }

    /// Makes a helper make the rest of an operation.
    fn hand_to_helper(&mut self, slot: Slot) -> Result<Option<Next>, Errno> {
        let (part, call) = (Part::Helper, self.operations[slot].call);
        let operations = &mut self.operations;
        self.background
            .start(part, operations, slot, &call, Why::Unsupported)?;
        Ok(None)
    }

    /// Attempts the rest of an operation: its descriptor is ready, or the rest may be available.
    fn attempt_rest(&mut self, slot: Slot) -> Next {
        let row = self.operations[slot].row;
        if row.attempt == Attempt::Never {
            // The call has no non-blocking form, so a helper makes it.
            return Next::Helper;
        }
        self.note_new_rights();
        let call = self.operations[slot].step(self.inject.short_transfer);
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered.
        let attempted = unsafe { self.knowledge.attempt(&Try::new(&call)) };
        let short = self.inject.short_transfer;
        step::after_attempt(&mut self.operations[slot], attempted, short)
    }

    /// Continues the operations of which a step has finished, and empties `steps`.
    pub(crate) fn run_steps(&mut self, steps: &mut Steps) {
        for (slot, step) in steps.drain(..) {
            self.proceed(slot, step);
        }
    }

    pub(crate) fn finish_cancelled(&mut self, slot: Slot) {
        let done = self.operations[slot].done;
        self.finish(slot, total(done, Err(Errno::CANCELED)));
    }

    /// Stores the result of an operation, which is then finished unless a zero-copy notification is
    /// outstanding.
    pub(crate) fn finish(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let hints = &mut self.knowledge.hints;
        self.operations.finish(slot, result, hints);
    }

    /// Hands the queued operations over that no longer wait for an earlier one.
    pub(crate) fn unblock_queued(&mut self) {
        while let Some(fd) = self.operations.next_unblocked() {
            for slot in self.operations.startable_on(fd) {
                if self.operations.may_start(slot) {
                    self.operations.leave_queue(slot);
                    self.proceed(slot, Next::Again(Why::Ordered));
                }
            }
        }
    }
}
