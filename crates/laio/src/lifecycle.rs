//! The lifecycle of an operation: which part of the back end takes it, how partial results
//! continue, and when it is finished.

use crate::attempt::{Blocked, Try, Why, descriptor_range, may_open_device};
use crate::background::Steps;
use crate::background::reactor::Direction;
use crate::context::Context;
use crate::knowledge::facts::Facts;
use crate::knowledge::mounts::FileKind;
use crate::operations::{Access, Link, Slot, State, links};
use crate::placement::{Case, Part, placement};
use crate::readiness::{
    direction, has_timeout, is_connect, polled, polled_descriptor, waits_for_readiness,
};
use crate::status_word::StatusTarget;
use crate::step::{self, Step, reads_bytes, total};
use crate::table::{Attempt, Class, Row, Transfer};
use crate::transfer::{only_plain, uses_position};
use crate::{Call, Errno, sys};

impl Context {
    /// Makes an operation of a call, and dispatches it or queues it behind earlier ones.
    pub(crate) fn start_operation(
        &mut self,
        this: &Try<'_>,
        blocked: Blocked,
        user_data: u64,
        status: Option<StatusTarget>,
    ) -> Result<Slot, Errno> {
        let Try { row, call, .. } = *this;
        let regular = self.may_continue_short(row, call);
        let links = match self.link_of_poll(this) {
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

    /// Whether a short transfer may be continued (see [`Operation::regular`]). True for positioned
    /// calls; otherwise if the call reads or writes a regular file.
    fn may_continue_short(&mut self, row: &Row, call: &Call) -> bool {
        match (row.class, row.attempt) {
            (Class::FileRead | Class::FileWrite, _) if !uses_position(row, call) => true,
            (_, Attempt::NowaitRead | Attempt::NowaitWrite) => {
                self.knowledge.is_regular_file(call.descriptor(0))
            }
            _ => false,
        }
    }

    /// Continues an operation until a part of the back end has it, or it is finished. This ends: an
    /// attempt that moves no bytes never leads to another (see [`step::after_attempt`]).
    pub(crate) fn proceed(&mut self, slot: Slot, mut step: Step) {
        loop {
            let handed_over = match step {
                Step::Finished(result) => return self.finish(slot, result),
                Step::Attempt => Ok(Some(self.attempt_rest(slot))),
                Step::Again(why) => self.hand_over(slot, why),
                Step::Helper => self.hand_to_helper(slot),
            };
            step = match handed_over {
                Ok(None) => return,
                Ok(Some(next)) => next,
                Err(errno) => Step::Finished(total(self.operations[slot].done, Err(errno))),
            };
        }
    }

    /// Hands an operation's next step to the part of the background that takes it. Returns the step
    /// if the operation must be attempted first.
    fn hand_over(&mut self, slot: Slot, why: Why) -> Result<Option<Step>, Errno> {
        let call = self.operations[slot].step(self.inject.short_transfer);
        let mut case = self.case(slot, &call, why);
        loop {
            let Some(part) = placement(&case).part() else {
                return Ok(Some(Step::Attempt));
            };
            let operations = &mut self.operations;
            if self.background.start(part, operations, slot, &call, why)? {
                return Ok(None);
            }
            case.parts.decline(part);
        }
    }

    /// Makes a helper make the rest of an operation.
    fn hand_to_helper(&mut self, slot: Slot) -> Result<Option<Step>, Errno> {
        let (part, call) = (Part::Helpers, self.operations[slot].call);
        let operations = &mut self.operations;
        self.background
            .start(part, operations, slot, &call, Why::Unsupported)?;
        Ok(None)
    }

    /// Gathers what decides the placement of an operation's next step, which is `call`. Questions
    /// to the kernel are asked only where the answer matters.
    fn case(&mut self, slot: Slot, call: &Call, why: Why) -> Case {
        let operation = &self.operations[slot];
        let (row, regular, zero_copy) = (operation.row, operation.regular, operation.zero_copy);
        let has_status_word = operation.status.is_some();
        let is_poll = polled_descriptor(operation).is_some();
        let provisional = operation.is_provisional();
        let fd = call.descriptor(0);
        let stream = row.class == Class::Stream && !regular;
        let tried = why == Why::WouldBlock;
        let has_ring = self.has_ring();
        let parts = self.background.accepts(row);
        // The ring ignores SO_RCVTIMEO and SO_SNDTIMEO. It also ignores non-blocking mode where the
        // kernel supports non-blocking attempts (FMODE_NOWAIT: sockets and pipes): there it waits
        // for readiness. An attempt that failed with EAGAIN has seen the mode.
        // FileKind::Stream excludes sockets, which alone have these time-outs.
        let may_time_out = self.knowledge.hints.kind(fd) != Some(FileKind::Stream);
        let has_timeout_or_mode = stream
            && !(why == Why::ExpectedToBlock || zero_copy)
            && ((may_time_out
                && has_timeout(fd, direction(row) == Direction::Write || is_connect(row)))
                || (!tried && sys::is_nonblocking(fd)));
        let began_hung_up =
            stream && !tried && reads_bytes(row, call) && sys::terminal::is_hung_up(fd);
        self.operations[slot].began_hung_up = began_hung_up;
        Case {
            why,
            parts,
            has_attempt: row.attempt != Attempt::Never,
            is_poll,
            is_retriable: stream && waits_for_readiness(row, call, parts.ring),
            has_status_word,
            may_open_device: provisional || (!has_status_word && may_open_device(row, call, false)),
            began_hung_up,
            has_timeout_or_mode,
            has_invalid_offset: has_ring && !tried && self.has_invalid_offset(slot),
            // The ring does not advance the file position when a transfer ends outside the
            // submission (O_DIRECT, FUSE), nor when the rest of it fails (the disk is full, a
            // buffer is bad).
            moves_file_position: regular && uses_position(row, call),
            // Seen on Linux 6.18: at the end of a FUSE file the ring counts the bytes before it
            // twice. And a FUSE file counts as ready, because it has a poll operation, so a read
            // waits inside io_uring_enter.
            is_remote_file: match row.class {
                Class::Path => false,
                Class::FileRead | Class::FileWrite => !self.knowledge.is_local(fd),
                _ => regular && !self.knowledge.is_local(fd),
            },
            only_plain: only_plain(row, call),
            // For `open` the kernel trusts the dcache, also for a remote or FUSE file system.
            waits_in_submission: row.attempt == Attempt::CachedOpen
                && self.knowledge.mounts.any_remote(),
        }
    }

    /// Whether the call gives an offset for a descriptor without positions, which the ring accepts
    /// but the plain call refuses.
    fn has_invalid_offset(&mut self, slot: Slot) -> bool {
        let operation = &self.operations[slot];
        let placed = matches!(
            operation.row.transfer,
            Transfer::Buffer {
                offset: Some(_),
                ..
            } | Transfer::Vector {
                offset: Some(_),
                ..
            }
        );
        let fd = operation.call.descriptor(0);
        // The hint may be stale, so ask for a position (pipes have none). Not needed while other
        // operations are in flight: the first of them has checked.
        placed
            && !self.operations.order.has_others(fd)
            && (self.knowledge.kind(fd) != FileKind::Regular || !sys::has_position(fd))
    }

    /// Attempts the rest of an operation: its descriptor is ready, or the rest may be available.
    fn attempt_rest(&mut self, slot: Slot) -> Step {
        let row = self.operations[slot].row;
        if row.attempt == Attempt::Never {
            // The call has no non-blocking form, so a helper makes it.
            return Step::Helper;
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
            for slot in self.operations.on(fd) {
                if self.operations.may_start(slot) {
                    self.operations.leave_queue(slot);
                    self.proceed(slot, Step::Again(Why::Ordered));
                }
            }
        }
    }

    /// The link of a poll without a time-out on one event of one descriptor, if readiness can serve
    /// it: no other operation waits there for the same event. Later calls then queue behind it, and
    /// a close cancels it.
    pub(crate) fn link_of_poll(&self, this: &Try<'_>) -> Option<Link> {
        let (fd, direction) = polled(this)?;
        let access = match direction {
            Direction::Read => Access::READING,
            Direction::Write => Access::WRITING,
        };
        let waits = self.background.reports_readiness();
        let link = Link::new(fd, access).ordered(self.knowledge.hints.is_ordered(fd));
        let free = waits && !this.has_status && !self.operations.order.must_wait(&link);
        free.then_some(link)
    }
}
