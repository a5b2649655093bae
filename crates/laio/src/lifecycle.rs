//! The lifecycle of an operation: which part of the back end takes it, how partial results
//! continue, and when it is finished.

use crate::attempt::{
    Attempted, Blocked, RingOpened, Why, descriptor_range, may_be_empty_name, may_open_device,
};
use crate::background::helpers::Job;
use crate::background::lane;
use crate::background::prepare;
use crate::background::reactor::Direction;
use crate::background::ring::{CqeKind, Reaped};
use crate::blocking::interrupted_transfer;
use crate::context::{Context, Waiter};
use crate::descriptors::{Access, Link};
use crate::knowledge::mounts::FileKind;
use crate::operation::{Operation, Slot, State};
use crate::readiness::{
    direction, has_timeout, is_connect, polled_descriptor, waits_for_readiness,
};
use crate::rights::Maker;
use crate::status_word::StatusTarget;
use crate::sys::terminal::has_lost_its_master;
use crate::table::{self, Attempt, Class, Opcode, Row, Transfer, Use};
use crate::transfer::{
    Provisional, continues, only_plain, remaining, shortened, uses_position, wanted,
};
use crate::{Call, Errno, Handle, sys};
use std::os::fd::RawFd;

impl Context {
    /// Makes an operation of a call, and dispatches it or queues it behind earlier ones.
    pub(crate) fn start_operation(
        &mut self,
        call: &Call,
        blocked: Blocked,
        provisional: Option<Provisional>,
        user_data: u64,
    ) -> Result<Slot, Errno> {
        let (_, row) = table::find(call.number);
        let regular = self.may_continue_short(row, call);
        let links = self.links(row, call, regular);
        let slot = self.operations.insert(row, call, user_data);
        let operation = &mut self.operations[slot];
        operation.done = blocked.done;
        operation.status = self.status.take();
        operation.regular = regular;
        operation.zero_copy = blocked.why == Why::ZeroCopy;
        operation.links = links;
        if provisional.is_some() {
            operation.scratch.get_or_insert_default().provisional = provisional;
        }
        let waits = self.descriptors.link(&mut self.operations, slot);
        if let Some(flight) = self.in_flight_call.take() {
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
        self.dispatch(slot, why).inspect_err(|_| {
            self.descriptors.unlink(&mut self.operations, slot);
            self.operations[slot].state = State::Finished;
            self.operations.remove(slot);
        })?;
        Ok(slot)
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

    /// Hands an operation to the part of the back end that takes it: ring, epoll, AIO or a helper.
    fn dispatch(&mut self, slot: Slot, why: Why) -> Result<(), Errno> {
        let row = self.operations[slot].row;
        let ring_allowed = self.has_ring() && self.ring_may_take(row);
        if row.attempt == Attempt::CloseRange && self.close_range_waits(slot) {
            return Ok(());
        }
        if let Some((fd, direction)) = polled_descriptor(&self.operations[slot])
            && self.wait_until_ready(slot, fd, direction)?
        {
            return Ok(());
        }
        let handle = self.operations.handle(slot);
        let untouched = self.operations[slot].done == 0 && self.inject.short_transfer == 0;
        let rest = if untouched {
            None
        } else {
            Some(self.step(slot))
        };
        let force_async = self.knowledge.mounts.any_remote() && self.may_ask_remote(slot);
        let kind = self
            .knowledge
            .hints
            .kind(self.operations[slot].call.descriptor(0));
        let uses_epoll = self.uses_reactor();
        let invalid_offset =
            self.has_ring() && why != Why::WouldBlock && self.has_invalid_offset(slot);
        let zero_copy = self.operations[slot].zero_copy;
        if ring_allowed {
            self.stamp_rights(slot)?;
        }
        let Operation {
            call,
            scratch,
            state,
            regular,
            status,
            rights,
            began_hung_up,
            ..
        } = &mut self.operations[slot];
        let call = rest.as_ref().unwrap_or(call);
        let fd = call.descriptor(0);
        let stream = row.class == Class::Stream && !*regular;
        let tried = why == Why::WouldBlock;
        // The ring ignores SO_RCVTIMEO and SO_SNDTIMEO. It also ignores non-blocking mode where the
        // kernel supports non-blocking attempts (FMODE_NOWAIT: sockets and pipes): there it waits
        // for readiness. An attempt that failed with EAGAIN has seen the mode.
        // FileKind::Stream excludes sockets, which alone have these time-outs.
        let may_time_out = kind != Some(FileKind::Stream);
        let expects_to_block = why == Why::ExpectedToBlock;
        let needs_plain_call = stream
            && !(expects_to_block || zero_copy)
            && ((may_time_out
                && has_timeout(fd, direction(row) == Direction::Write || is_connect(row)))
                || (!tried && sys::is_nonblocking(fd)));
        // The attempt has opened a FIFO or device, whose open may wait.
        let provisional = scratch
            .as_ref()
            .is_some_and(|scratch| scratch.provisional.is_some());
        // The ring does not advance the file position when a transfer ends outside the submission
        // (O_DIRECT, FUSE), nor when the rest of it fails (the disk is full, a buffer is bad).
        let moves_position = *regular && uses_position(row, call);
        // For a remote or FUSE file the ring may report more bytes than were read (seen on Linux
        // 6.18: at the end of a FUSE file it counts the bytes before it twice).
        let is_remote_file = force_async && row.class != Class::Path;
        *began_hung_up =
            stream && !tried && reads_bytes(row, call) && sys::terminal::is_hung_up(fd);
        if status.is_some()
            || may_open_device(row, call, false)
            || *began_hung_up
            || needs_plain_call
            || invalid_offset
            || provisional
            || moves_position
            || is_remote_file
            || only_plain(row, call)
        {
            return self.dispatch_to_helper(slot);
        }
        let by_readiness = stream && waits_for_readiness(row, call) && why != Why::Unsupported;
        // An invalid call fails at once, so it is attempted before it waits for readiness.
        let try_first = by_readiness && !tried && row.attempt != Attempt::Never;
        match &mut self.waiter {
            Waiter::Ring(ring) => {
                let entry = match (expects_to_block && stream, zero_copy) {
                    _ if !ring_allowed => None,
                    (true, _) => prepare::poll_first(call, ring.opcodes()),
                    (_, true) => prepare::zero_copy(call, ring.opcodes()),
                    _ => prepare::entry(row, call, scratch, ring.opcodes()),
                };
                if let Some(mut entry) = entry {
                    *state = State::Ring;
                    if force_async {
                        *state = State::ForceAsync;
                        entry = prepare::force_async(entry);
                    }
                    // SAFETY: the caller has promised that the call's memory stays valid until the
                    // completion is delivered; scratch memory lives as long as the operation.
                    unsafe { ring.push(entry, handle.to_raw())? };
                    if rights.is_some() || prepare::counts_from_submission(row, call) {
                        // Submitting now fixes the thread's credentials. An entry that the kernel
                        // does not take stays queued; the next poll reports errors.
                        let _ = ring.submit();
                    }
                    return Ok(());
                }
                if by_readiness && !(ring_allowed && row.opcode == Some(Opcode::Accept)) {
                    if try_first {
                        self.retry(slot);
                        return Ok(());
                    }
                    *state = State::Readiness;
                    let entry = prepare::readiness(fd, direction(row) == Direction::Write);
                    // SAFETY: the entry points to nothing.
                    return unsafe { ring.push(entry, handle.to_raw()) };
                }
            }
            Waiter::Reactor(reactor) => {
                if uses_epoll && try_first {
                    self.retry(slot);
                    return Ok(());
                }
                // On an error (epoll does not support the descriptor, it is not open, or
                // max_user_watches is reached) a helper makes the plain call, whose result is
                // right.
                if uses_epoll && by_readiness && reactor.add(fd, direction(row), slot).is_ok() {
                    *state = State::Readiness;
                    return Ok(());
                }
            }
        }
        let call = *call;
        if self.take_to_aio(slot, &call) {
            return Ok(());
        }
        self.dispatch_to_helper(slot)
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

    pub(crate) fn dispatch_to_helper(&mut self, slot: Slot) -> Result<(), Errno> {
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
                false => self.retry(slot),
            };
        }
        let result = prepare::result(operation, reaped.result);
        let (row, call, cancelled) = (operation.row, operation.call, operation.cancelled);
        if operation.zero_copy && self.falls_back_to_copy(slot, result) {
            return self.redispatch(slot, Why::WouldBlock);
        }
        let operation = &self.operations[slot];
        if operation.state == State::Ring
            && row.attempt == Attempt::CachedOpen
            && let ring_opened @ (RingOpened::WithoutReader | RingOpened::FifoOrDevice(_)) =
                self.check_opened_by_ring(row, &call, result)
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
            if let Err(errno) = self.dispatch_to_helper(slot) {
                self.finish(slot, Err(errno));
            }
            return;
        }
        self.on_step_result(slot, result);
    }

    /// Handles the result of a step: the operation is finished, or continues.
    pub(crate) fn on_step_result(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let operation = &self.operations[slot];
        let (row, call, done) = (operation.row, operation.call, operation.done);
        let errno = match result {
            Ok(moved) => return self.on_progress(slot, moved),
            Err(errno) => errno,
        };
        match errno {
            _ if done > 0 => self.finish(slot, Ok(done)),
            Errno::CANCELED | Errno::INTR if operation.cancelled => {
                self.finish(slot, Err(Errno::CANCELED));
            }
            Errno::AGAIN | Errno::PERM | Errno::ACCES | Errno::INVAL | Errno::OPNOTSUPP
                if operation.cancelled =>
            {
                self.finish(slot, Err(Errno::CANCELED));
            }
            // The kernel interrupted it for reasons of its own.
            Errno::INTR => self.redispatch(slot, Why::WouldBlock),
            // The stream is in non-blocking mode, and the ring respects that where the kernel has no
            // non-blocking attempts (no FMODE_NOWAIT; see `dispatch` for sockets and pipes). In
            // blocking mode the operation cannot wait on the ring (splice), but can in a helper.
            Errno::AGAIN
                if row.class == Class::Stream && sys::is_nonblocking(call.descriptor(0)) =>
            {
                self.finish(slot, Err(errno))
            }
            // With the thread's present rights the plain call might be allowed although it was not
            // when the program made it.
            Errno::PERM | Errno::ACCES if self.has_other_rights(slot) => {
                self.finish(slot, Err(errno));
            }
            // Either the call's result, or "not supported here": an older kernel, or a security
            // module or io_uring restriction that forbids this opcode (seccomp cannot). A helper
            // makes the plain call to find out; the operation has had no effect so far.
            Errno::AGAIN
            | Errno::CANCELED
            | Errno::PERM
            | Errno::ACCES
            | Errno::INVAL
            | Errno::NOSYS
            | Errno::OPNOTSUPP
            | Errno::BADF
            | Errno::BADFD
                if row.attempt != Attempt::Close =>
            {
                if let Err(errno) = self.dispatch_to_helper(slot) {
                    self.finish(slot, Err(errno));
                }
            }
            // The ring checks names before flags; the plain call checks flags first.
            Errno::NAMETOOLONG | Errno::FAULT | Errno::NOENT
                if row.class == Class::Path
                    && row.file.is_some()
                    && (errno != Errno::NOENT || may_be_empty_name(row, &call)) =>
            {
                if let Err(errno) = self.dispatch_to_helper(slot) {
                    self.finish(slot, Err(errno));
                }
            }
            // The ring checks the memory before the descriptor. Data may already be received and
            // lost, so a helper repeats a receive only where nothing can have been received.
            Errno::FAULT | Errno::MSGSIZE
                if row.descriptors[0].is_some_and(|first| {
                    let fd = call.descriptor(first.arg);
                    let of_sockets = matches!(row.attempt, Attempt::Dontwait(_));
                    let bad_memory = errno == Errno::FAULT
                        && (first.usage != Use::Read || !sys::is_readable(fd));
                    bad_memory || (of_sockets && !sys::is_socket(fd))
                }) =>
            {
                if let Err(errno) = self.dispatch_to_helper(slot) {
                    self.finish(slot, Err(errno));
                }
            }
            errno => self.finish(slot, Err(errno)),
        }
    }

    /// Handles a step that has moved bytes, or has succeeded with a value that is no byte count.
    fn on_progress(&mut self, slot: Slot, moved: usize) {
        let operation = &mut self.operations[slot];
        let (row, call, regular) = (operation.row, operation.call, operation.regular);
        operation.done += moved;
        let done = operation.done;
        if done == 0 && may_lose_terminal(operation) && has_lost_its_master(call.descriptor(0)) {
            // The ring began to read after the master was closed. The plain call would have been waiting then.
            return self.finish(slot, Err(Errno::IO));
        }
        if moved == 0 || operation.cancelled || !continues(row, &call, regular) {
            return self.finish(slot, Ok(done));
        }
        // SAFETY: the kernel has just accepted the pointers.
        match unsafe { wanted(row, &call) } {
            Some(wanted) if done < wanted => {}
            _ => return self.finish(slot, Ok(done)),
        }
        let fd = call.descriptor(0);
        let over = match row.attempt {
            // The kernel writes a file to the end, or to a limit (of space, or of the process);
            // continuing would meet that limit again, and RLIMIT_FSIZE raises a signal.
            Attempt::NowaitWrite => regular && moved != self.inject.short_transfer,
            // MSG_WAITALL has no meaning for datagrams, and a datagram is never sent in part.
            Attempt::Dontwait(_) => {
                !matches!(row.transfer, Transfer::Messages { .. }) && !sys::is_stream_socket(fd)
            }
            _ => false,
        };
        if over {
            return self.finish(slot, Ok(done));
        }
        if row.attempt == Attempt::NowaitRead && regular {
            // This is usually the end of the file, which an attempt finds without another
            // submission.
            return self.retry(slot);
        }
        if !regular && sys::is_nonblocking(fd) {
            return self.finish(slot, Ok(done));
        }
        self.redispatch(slot, Why::WouldBlock);
    }

    pub(crate) fn redispatch(&mut self, slot: Slot, why: Why) {
        if let Err(errno) = self.dispatch(slot, why) {
            let done = self.operations[slot].done;
            self.finish(slot, if done > 0 { Ok(done) } else { Err(errno) });
        }
    }

    /// Attempts an operation again: its descriptor is ready, or the rest may be available.
    pub(crate) fn retry(&mut self, slot: Slot) {
        let operation = &self.operations[slot];
        let (row, before) = (operation.row, operation.done);
        if row.attempt == Attempt::Never {
            // The call has no non-blocking form, so a helper makes it.
            if let Err(errno) = self.dispatch_to_helper(slot) {
                self.finish(slot, Err(errno));
            }
            return;
        }
        let call = self.step(slot);
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered.
        match unsafe { self.retry_attempt(row, &call) } {
            Attempted::Done(Ok(moved)) | Attempted::OverBudget(Ok(moved)) => {
                if moved > 0 && self.inject.short_transfer > 0 {
                    return self.on_progress(slot, moved);
                }
                self.finish(slot, Ok(before + moved));
            }
            Attempted::Done(Err(errno)) | Attempted::OverBudget(Err(errno)) => {
                self.finish(slot, if before > 0 { Ok(before) } else { Err(errno) });
            }
            Attempted::Blocked(blocked) => {
                let operation = &mut self.operations[slot];
                operation.done += blocked.done;
                operation.spurious_wakeups = match blocked.done {
                    0 if operation.state == State::Readiness => operation.spurious_wakeups + 1,
                    _ => 0,
                };
                if operation.spurious_wakeups < SPURIOUS_WAKEUPS_MAX {
                    self.redispatch(slot, blocked.why);
                } else if let Err(errno) = self.dispatch_to_helper(slot) {
                    self.finish(slot, Err(errno));
                }
            }
        }
    }

    /// Handles the result of a call that a helper has made.
    pub(crate) fn helper_completed(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let done = self.operations[slot].done;
        self.finish(
            slot,
            match result {
                Ok(moved) => Ok(done + moved),
                Err(_) if done > 0 => Ok(done),
                Err(errno) => Err(errno),
            },
        );
    }

    /// Handles the result of a call that blocked in its thread while a spare thread took over the
    /// program.
    pub(crate) fn carrier_completed(&mut self, slot: Slot, result: Result<usize, Errno>) {
        let operation = &self.operations[slot];
        let (row, call) = (operation.row, operation.call);
        match result {
            Err(errno) if errno.is_interruption() && operation.cancelled => {
                self.finish(slot, Err(Errno::CANCELED));
            }
            // A signal handler of the program interrupted it: a helper, which handles no signals,
            // makes the rest.
            Err(errno) if errno.is_interruption() => self.continue_with_helper(slot, 0),
            Ok(moved)
                if moved > 0 && !operation.cancelled && interrupted_transfer(row, &call, moved) =>
            {
                self.continue_with_helper(slot, moved);
            }
            result => self.finish(slot, result),
        }
    }

    fn continue_with_helper(&mut self, slot: Slot, moved: usize) {
        self.operations[slot].done = moved;
        if let Err(errno) = self.dispatch_to_helper(slot) {
            self.finish(slot, if moved > 0 { Ok(moved) } else { Err(errno) });
        }
    }

    pub(crate) fn finish_cancelled(&mut self, slot: Slot) {
        let done = self.operations[slot].done;
        self.finish(
            slot,
            if done > 0 {
                Ok(done)
            } else {
                Err(Errno::CANCELED)
            },
        );
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
                    self.redispatch(slot, Why::Ordered);
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

/// Readiness events in a row without progress after which a helper makes the call. Another process
/// may have taken the data; and a datagram socket that is shut down for reading is always ready,
/// but a non-blocking receive returns `EAGAIN` where a blocking one returns 0.
const SPURIOUS_WAKEUPS_MAX: u8 = 3;

/// Whether the operation reads a stream, has no bytes yet, and its descriptor was no hung-up
/// terminal when it was started. If a terminal's master is closed meanwhile, a plain read that
/// waits fails with `EIO`, and a read that begins later returns 0.
fn may_lose_terminal(operation: &Operation) -> bool {
    operation.done == 0
        && !operation.regular
        && !operation.began_hung_up
        && reads_bytes(operation.row, &operation.call)
}

/// Whether the call is a `read` or `readv` of at least one byte.
fn reads_bytes(row: &Row, call: &Call) -> bool {
    row.attempt == Attempt::NowaitRead && row.transfer.length(call) != Some(0)
}
