//! The lifecycle of an operation: which part of the back end takes it, how partial results
//! continue, and when it is finished.

use crate::attempt::{Blocked, RingOpened, Try, Why, descriptor_range, may_open_device};
use crate::background::helpers::Job;
use crate::background::lane;
use crate::background::prepare;
use crate::background::reactor::Direction;
use crate::background::ring::{CqeKind, Reaped};
use crate::context::{Context, Waiter};
use crate::descriptors::{Access, Link, links};
use crate::knowledge::mounts::FileKind;
use crate::operation::{Slot, State};
use crate::placement::{Case, Parts, Placement, placement};
use crate::readiness::{
    direction, has_timeout, is_connect, polled_descriptor, waits_for_readiness,
};
use crate::rights::Maker;
use crate::status_word::StatusTarget;
use crate::step::{self, Step, may_lose_terminal, reads_bytes, total};
use crate::table::{Attempt, Class, Row, Transfer};
use crate::transfer::{only_plain, remaining, shortened, uses_position};
use crate::{Call, Errno, Handle, sys};
use std::os::fd::RawFd;

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
        let waits = self.descriptors.link(&mut self.operations, slot);
        if let Some(flight) = blocked.in_flight {
            // The call is already running in the thread that was left behind.
            if waits {
                self.descriptors.count_queued(&self.operations, slot, -1);
            }
            self.operations[slot].state = State::Carrier;
            let handle = self.operations.handle(slot);
            if let Some(activations) = &self.activations {
                activations.set_owner(flight, handle);
            }
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
        match self.hand_over(slot, why) {
            Ok(None) => Ok(slot),
            Ok(Some(step)) => {
                self.proceed(slot, step);
                Ok(slot)
            }
            Err(errno) => {
                self.descriptors.unlink(&mut self.operations, slot);
                self.operations[slot].state = State::Finished;
                self.operations.remove(slot);
                Err(errno)
            }
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

    /// Continues an operation until a part of the back end has it, or it is finished.
    pub(crate) fn proceed(&mut self, slot: Slot, mut step: Step) {
        loop {
            let handed_over = match step {
                Step::Finished(result) => return self.finish(slot, result),
                Step::Attempt => Ok(Some(self.attempt_rest(slot))),
                Step::Again(why) => self.hand_over(slot, why),
                Step::Helper => self.hand_to_helper(slot).map(|()| None),
            };
            step = match handed_over {
                Ok(None) => return,
                Ok(Some(next)) => next,
                Err(errno) => Step::Finished(total(self.operations[slot].done, Err(errno))),
            };
        }
    }

    /// Hands an operation's next step to the part of the back end that takes it. Returns the step
    /// if the operation must be attempted first.
    fn hand_over(&mut self, slot: Slot, why: Why) -> Result<Option<Step>, Errno> {
        if self.operations[slot].row.attempt == Attempt::CloseRange && self.close_range_waits(slot)
        {
            return Ok(None);
        }
        let call = self.step(slot);
        let mut case = self.case(slot, &call, why);
        loop {
            let placement = placement(&case);
            let taken = match placement {
                Placement::Attempt => return Ok(Some(Step::Attempt)),
                Placement::Ring => self.hand_to_ring(slot, &call, why)?,
                Placement::Readiness => self.wait_until_ready(slot)?,
                Placement::Aio => self.take_to_aio(slot, &call),
                Placement::Helper(_) => return self.hand_to_helper(slot).map(|()| None),
            };
            if taken {
                return Ok(None);
            }
            case.parts.decline(placement);
        }
    }

    /// Gathers what decides the placement of an operation's next step, which is `call`. Questions
    /// to the kernel are asked only where the answer matters.
    fn case(&mut self, slot: Slot, call: &Call, why: Why) -> Case {
        let operation = &self.operations[slot];
        let (row, regular, zero_copy) = (operation.row, operation.regular, operation.zero_copy);
        let has_status_word = operation.status.is_some();
        let is_poll = polled_descriptor(operation).is_some();
        // The attempt has opened a FIFO or device, whose open may wait.
        let scratch = operation.scratch.as_ref();
        let provisional = scratch.is_some_and(|scratch| scratch.provisional.is_some());
        let fd = call.descriptor(0);
        let stream = row.class == Class::Stream && !regular;
        let tried = why == Why::WouldBlock;
        let has_ring = self.has_ring();
        let parts = Parts {
            ring: has_ring && self.ring_may_take(row),
            readiness: has_ring || self.uses_reactor(),
            aio: self.aio.is_some(),
        };
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
        }
    }

    /// Hands a step to io_uring. Returns false if no operation of the ring makes this call.
    fn hand_to_ring(&mut self, slot: Slot, call: &Call, why: Why) -> Result<bool, Errno> {
        self.stamp_rights(slot)?;
        let handle = self.operations.handle(slot);
        let operation = &mut self.operations[slot];
        let row = operation.row;
        let Waiter::Ring(ring) = &mut self.waiter else {
            return Ok(false);
        };
        let stream = row.class == Class::Stream && !operation.regular;
        let entry = match why {
            Why::ExpectedToBlock if stream => prepare::poll_first(call, ring.opcodes()),
            _ if operation.zero_copy => prepare::zero_copy(call, ring.opcodes()),
            _ => prepare::entry(row, call, &mut operation.scratch, ring.opcodes()),
        };
        let Some(entry) = entry else {
            return Ok(false);
        };
        // The ring first tries an operation on the submitting thread, and for `open` the kernel
        // trusts the dcache, also for a remote or FUSE file system.
        let force_async = row.attempt == Attempt::CachedOpen && self.knowledge.mounts.any_remote();
        let (state, entry) = match force_async {
            true => (State::ForceAsync, prepare::force_async(entry)),
            false => (State::Ring, entry),
        };
        operation.state = state;
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered; scratch memory lives as long as the operation.
        unsafe { ring.push(entry, handle.to_raw())? };
        if operation.rights.is_some() || prepare::counts_from_submission(row, call) {
            // Submitting now fixes the thread's credentials. An entry that the kernel does not take
            // stays queued; the next poll reports errors.
            let _ = ring.submit();
        }
        Ok(true)
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
            && !self.descriptors.has_others(fd)
            && (self.knowledge.kind(fd) != FileKind::Regular || !sys::has_position(fd))
    }

    fn hand_to_helper(&mut self, slot: Slot) -> Result<(), Errno> {
        let handle = self.operations.handle(slot);
        // The helper itself applies the test hook `Inject::short_transfer`.
        let call = self.rest(slot);
        let maker = self.maker(self.operations[slot].row, &call);
        self.stamp_rights(slot)?;
        let operation = &mut self.operations[slot];
        operation.state = State::Helper;
        let provisional = operation
            .scratch
            .as_ref()
            .map(|scratch| &scratch.provisional);
        let is_unbounded = matches!(provisional, Some(Some(_)));
        let lane = lane::of(operation.row, &call, operation.regular, is_unbounded);
        let job = Job {
            handle,
            row: operation.row,
            call,
            regular: operation.regular,
            status: operation.status.map(|status| (status, operation.done)),
            short: self.inject.short_transfer,
            may_lose_terminal: may_lose_terminal(operation),
        };
        match maker {
            Maker::Helper => self.helpers.start(lane, job),
            Maker::OneShotThreads => self.one_shot.start(lane, self.rights.version(), job),
        }
    }

    /// Returns the call for the bytes of an operation that are left.
    fn rest(&mut self, slot: Slot) -> Call {
        let operation = &mut self.operations[slot];
        let (row, call, done) = (operation.row, operation.call, operation.done);
        // SAFETY: if `done > 0`, the kernel has already accepted the pointers.
        unsafe { remaining(row, &call, done, &mut operation.scratch) }
    }

    /// Returns the call for the next step: the remaining bytes, or as many as the test hook
    /// `Inject::short_transfer` allows, which limits the bytes of one step.
    fn step(&mut self, slot: Slot) -> Call {
        let rest = self.rest(slot);
        let operation = &mut self.operations[slot];
        match self.inject.short_transfer {
            0 => rest,
            // SAFETY: as for the system call.
            bound => unsafe { shortened(operation.row, &rest, bound, &mut operation.scratch) },
        }
    }

    /// Handles a CQE: a step of an operation has finished, or its descriptor is ready.
    pub(crate) fn ring_completed(&mut self, reaped: Reaped) {
        let handle = Handle::from_raw(reaped.handle).expect("the ring's entries carry handles");
        let slot = self
            .operations
            .find(handle)
            .expect("an operation on the ring is live");
        if reaped.kind != CqeKind::Only && self.is_notification(slot, &reaped) {
            return;
        }
        let operation = &self.operations[slot];
        if operation.state == State::Readiness {
            return match operation.cancelled {
                true => self.finish_cancelled(slot),
                false => self.proceed(slot, Step::Attempt),
            };
        }
        let result = prepare::result(operation, reaped.result);
        let (row, call, cancelled) = (operation.row, operation.call, operation.cancelled);
        if operation.zero_copy && self.falls_back_to_copy(slot, result) {
            return self.proceed(slot, Step::Again(Why::WouldBlock));
        }
        let operation = &self.operations[slot];
        if operation.state == State::Ring
            && row.attempt == Attempt::CachedOpen
            && let ring_opened @ (RingOpened::WithoutReader | RingOpened::FifoOrDevice(_)) =
                self.knowledge.check_opened_by_ring(row, &call, result)
        {
            // The ring opens in non-blocking mode first, so it has not waited where the plain call
            // may wait. A helper makes the plain call.
            if let RingOpened::FifoOrDevice(provisional) = ring_opened {
                self.operations[slot]
                    .scratch
                    .get_or_insert_default()
                    .provisional = Some(provisional);
            }
            if cancelled {
                return self.finish_cancelled(slot);
            }
            return self.proceed(slot, Step::Helper);
        }
        let rights_changed = self.refused_by_other_rights(slot, result);
        let short = self.inject.short_transfer;
        let step = step::after_result(&mut self.operations[slot], result, short, rights_changed);
        self.proceed(slot, step);
    }

    /// Whether a call was refused, and the thread's rights are not those with which it was
    /// dispatched.
    pub(crate) fn refused_by_other_rights(
        &mut self,
        slot: Slot,
        result: Result<usize, Errno>,
    ) -> bool {
        matches!(result, Err(Errno::PERM | Errno::ACCES)) && self.has_other_rights(slot)
    }

    /// Attempts the rest of an operation: its descriptor is ready, or the rest may be available.
    fn attempt_rest(&mut self, slot: Slot) -> Step {
        let row = self.operations[slot].row;
        if row.attempt == Attempt::Never {
            // The call has no non-blocking form, so a helper makes it.
            return Step::Helper;
        }
        let call = self.step(slot);
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered.
        let attempted = unsafe { self.knowledge.attempt(&Try::new(&call)) };
        let short = self.inject.short_transfer;
        step::after_attempt(&mut self.operations[slot], attempted, short)
    }

    /// Handles the result of a call that a helper has made.
    pub(crate) fn helper_completed(&mut self, slot: Slot, result: Result<usize, Errno>) {
        self.finish(slot, total(self.operations[slot].done, result));
    }

    /// Handles the result of a call that blocked in its thread while a spare thread took over the
    /// program.
    pub(crate) fn carrier_completed(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let step = step::after_carrier(&mut self.operations[slot], result);
        self.proceed(slot, step);
    }

    pub(crate) fn finish_cancelled(&mut self, slot: Slot) {
        let done = self.operations[slot].done;
        self.finish(slot, total(done, Err(Errno::CANCELED)));
    }

    /// Stores the result of an operation, which is then finished unless a zero-copy notification is
    /// outstanding.
    pub(crate) fn finish(&mut self, slot: Slot, mut result: Result<usize, Errno>) {
        let operation = &mut self.operations[slot];
        if operation.awaiting_notif > 0 {
            operation.result = result;
            operation.state = State::AwaitingNotif;
            return self.leave_descriptors(slot);
        }
        let (row, call) = (operation.row, operation.call);
        let status_published = operation.status.is_some_and(StatusTarget::is_published);
        // A typed operation takes over the new descriptor even if cancelled: closing an accepted
        // connection would lose it.
        let owned = self
            .payloads
            .get(slot as usize)
            .is_some_and(Option::is_some);
        if row.yields_descriptor
            && let Ok(fd) = result
        {
            if (operation.cancelled && !status_published && !owned) || operation.abandoned {
                // The caller of a cancelled call does not expect a descriptor, so it is closed.
                let _ = sys::close(fd as RawFd);
                result = Err(Errno::CANCELED);
            } else {
                // The number may have belonged to a descriptor that was closed behind the context's
                // back.
                self.knowledge.hints.forget(fd as RawFd);
            }
        }
        self.leave_descriptors(slot);
        match row.attempt {
            Attempt::Close => self.knowledge.hints.forget(call.descriptor(0)),
            Attempt::Duplicate(arg) => self.knowledge.hints.forget(call.descriptor(arg)),
            _ => {}
        }
        let operation = &mut self.operations[slot];
        if operation.timed_out && result == Err(Errno::CANCELED) {
            result = Err(Errno::TIME);
        }
        if let Some(status) = operation.status {
            status.publish(result);
        }
        operation.result = result;
        operation.state = State::Finished;
        if operation.abandoned {
            if let Some(payload) = self.payloads.get_mut(slot as usize) {
                *payload = None;
            }
            self.operations.remove(slot);
        } else {
            self.ready.push_back(slot);
        }
    }

    /// Removes the operation from its descriptors' lists and notes which of them have queued
    /// operations.
    fn leave_descriptors(&mut self, slot: Slot) {
        self.descriptors.unlink(&mut self.operations, slot);
        let links = std::mem::replace(&mut self.operations[slot].links, [Link::UNUSED; 2]);
        for link in links {
            if self.descriptors.has_queued(link.fd) {
                self.unblocked.push(link.fd);
            }
        }
    }

    /// Dispatches the queued operations that no longer wait for an earlier one.
    pub(crate) fn unblock_queued(&mut self) {
        while let Some(fd) = self.unblocked.pop() {
            for slot in self.descriptors.operations(&self.operations, fd) {
                let may_start = self.operations[slot].state == State::Queued
                    && !self.descriptors.still_waits(&self.operations, slot);
                if may_start {
                    self.descriptors.count_queued(&self.operations, slot, -1);
                    self.proceed(slot, Step::Again(Why::Ordered));
                }
            }
        }
    }

    /// Whether descriptors of a `close_range` are still in use; then it queues behind two of them
    /// at a time.
    fn close_range_waits(&mut self, slot: Slot) -> bool {
        let (first, last) = descriptor_range(&self.operations[slot].call);
        self.descriptors.unlink(&mut self.operations, slot);
        let mut links = [Link::UNUSED; 2];
        for (link, fd) in links.iter_mut().zip(self.descriptors.busy_in(first, last)) {
            *link = Link::new(fd, Access::CLOSING);
        }
        let operation = &mut self.operations[slot];
        operation.links = links;
        operation.state = State::Queued;
        self.descriptors.link(&mut self.operations, slot)
    }
}
