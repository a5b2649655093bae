//! Operations on the ring: from a step to its SQE, and from a CQE to what comes next.

use super::ring::{CqeKind, Reaped, Ring};
use super::threads::Threads;
use super::{Steps, opened, prepare};
use crate::attempt::Why;
use crate::background::reactor::Direction;
use crate::operations::{Operation, Operations, State};
use crate::placement::Part;
use crate::step::{self, Step, total};
use crate::table::{Attempt, Class, Opcode};
use crate::{Call, Errno, Handle};
use std::os::fd::RawFd;

impl Ring {
    /// Queues a step of an operation. Returns false if no operation of the ring makes this call.
    /// `in_worker`: not even tried on the submitting thread.
    pub(super) fn start(
        &mut self,
        operation: &mut Operation,
        handle: Handle,
        call: &Call,
        why: Why,
        in_worker: bool,
    ) -> Result<bool, Errno> {
        let row = operation.row;
        let stream = row.class == Class::Stream && !operation.regular;
        // A typed operation may say of any call that it is expected to block or is a zero-copy send.
        let no_address = call.args[4] == 0;
        let entry = match row.opcode {
            Some(Opcode::Recv) if no_address && stream && why == Why::ExpectedToBlock => {
                prepare::poll_first(call, self.opcodes())
            }
            Some(Opcode::Send) if no_address && operation.zero_copy => {
                prepare::zero_copy(call, self.opcodes())
            }
            _ => prepare::entry(row, call, &mut operation.scratch, self.opcodes()),
        };
        let Some(mut entry) = entry else {
            return Ok(false);
        };
        if in_worker {
            entry = prepare::force_async(entry);
        }
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered; scratch memory lives as long as the operation.
        unsafe { self.push(entry, handle.to_raw())? };
        if operation.rights.is_some() || prepare::counts_from_submission(row, call) {
            // Submitting now fixes the thread's credentials. An entry that the kernel does not take
            // stays queued; the next poll reports errors.
            let _ = self.submit();
        }
        Ok(true)
    }

    /// Queues a poll of a descriptor for an operation.
    pub(super) fn start_poll(
        &mut self,
        handle: Handle,
        fd: RawFd,
        direction: Direction,
    ) -> Result<(), Errno> {
        let entry = prepare::readiness(fd, direction == Direction::Write);
        // SAFETY: the entry points to nothing.
        unsafe { self.push(entry, handle.to_raw()) }
    }

    /// Collects the steps that have finished. `short`: the injected bound of one step.
    pub(super) fn collect(
        &mut self,
        operations: &mut Operations,
        threads: &mut Threads,
        trust_names: bool,
        short: usize,
        steps: &mut Steps,
    ) -> Result<(), Errno> {
        let mut reaped = std::mem::take(&mut self.reaped);
        let result = self.reap(&mut reaped);
        for one in reaped.drain(..) {
            let handle = Handle::from_raw(one.handle).expect("the ring's entries carry handles");
            let slot = operations.live_slot(handle);
            let operation = &mut operations[slot];
            if one.kind != CqeKind::Only && self.is_notification(operation, &one) {
                if operation.state == State::AwaitingNotif && operation.awaiting_notif == 0 {
                    steps.push((slot, Step::Finished(operation.result)));
                }
                continue;
            }
            let step = match self.unfinished(operation, &one, trust_names) {
                Ok(step) => step,
                Err(result) => {
                    let rights_changed = threads.refused_by_other_rights(operation, result);
                    step::after_result(operation, result, short, rights_changed)
                }
            };
            steps.push((slot, step));
        }
        self.reaped = reaped;
        result
    }

    /// Returns the next step of an operation whose CQE carries no result of its call; else the
    /// call's result.
    fn unfinished(
        &mut self,
        operation: &mut Operation,
        reaped: &Reaped,
        trust_names: bool,
    ) -> Result<Step, Result<usize, Errno>> {
        let cancelled = Step::Finished(total(operation.done, Err(Errno::CANCELED)));
        if operation.state == State::With(Part::Readiness) {
            return Ok(match operation.cancelled {
                true => cancelled,
                false => Step::Attempt,
            });
        }
        let result = prepare::result(operation, reaped.result);
        if operation.zero_copy && !operation.cancelled && has_no_zero_copy(result) {
            operation.zero_copy = false;
            self.zero_copy.ordinary += 1;
            return Ok(Step::Again(Why::WouldBlock));
        }
        // The ring opens in non-blocking mode first, so it has not waited where the plain call may
        // wait. A helper makes the plain call.
        if operation.state == State::With(Part::Ring)
            && operation.row.attempt == Attempt::CachedOpen
            && !trust_names
            && opened::may_have_to_wait(operation, result)
        {
            return Ok(match operation.cancelled {
                true => cancelled,
                false => Step::Helper,
            });
        }
        Err(result)
    }

    /// Counts the two CQEs of a zero-copy send. Returns whether this one is the notification: the
    /// kernel no longer uses the memory.
    fn is_notification(&mut self, operation: &mut Operation, reaped: &Reaped) -> bool {
        if reaped.kind == CqeKind::Result {
            operation.awaiting_notif += 1;
            return false;
        }
        operation.awaiting_notif -= 1;
        // After a refusal the operation is an ordinary send, and the notification says nothing
        // about copying.
        if operation.zero_copy {
            self.zero_copy.sends += 1;
            self.zero_copy.copied += u64::from(prepare::has_copied(reaped.result));
        }
        true
    }
}

/// Whether a zero-copy send was refused, so that the rest must be an ordinary send: the socket type
/// has none, RLIMIT_MEMLOCK is reached, or a filter forbids this operation.
fn has_no_zero_copy(result: Result<usize, Errno>) -> bool {
    matches!(
        result,
        Err(Errno::OPNOTSUPP
            | Errno::INVAL
            | Errno::NOMEM
            | Errno::NOBUFS
            | Errno::PERM
            | Errno::ACCES)
    )
}
