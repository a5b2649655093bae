//! Attempts of `activations`: the call itself is made; if it blocks, a spare carrier continues the
//! program.

use super::{Attempted, Why};
use crate::background::activations::CarryOutcome;
use crate::blocking::interrupted_transfer;
use crate::context::Context;
use crate::knowledge::mounts::FileKind;
use crate::strategy::Strategy;
use crate::table::{Attempt, Row, Transfer};
use crate::{Call, Errno};
use std::os::fd::RawFd;

impl Context {
    /// Makes a call while nothing is in flight, so that there is no order, budget or limit to
    /// check. Returns `None`, without having made the call, if it must take the slow path.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    pub(crate) unsafe fn carry_fast(
        &mut self,
        index: usize,
        row: &'static Row,
        call: &Call,
    ) -> Option<Attempted> {
        let plain = !matches!(
            row.attempt,
            Attempt::Close | Attempt::Duplicate(_) | Attempt::CloseRange | Attempt::Fcntl
        );
        if self.strategies[row.class as usize] != Strategy::Carry
            || self.operations.live() > 0
            || !plain
        {
            return None;
        }
        // SAFETY: by the caller.
        let outcome = unsafe { self.activations.as_mut()?.call(call) };
        match outcome {
            CarryOutcome::Returned(result) if is_whole(row, call, result) => {
                self.stats.calls[index].inline += 1;
                Some(Attempted::Done(result))
            }
            outcome => {
                // SAFETY: by the caller.
                let attempted = unsafe { self.carried(row, call, outcome) };
                Some(self.count(index, Strategy::Carry, attempted))
            }
        }
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn carry(&mut self, row: &Row, call: &Call) -> Attempted {
        if self.no_carrier {
            // SAFETY: by the caller.
            return unsafe { self.attempt_nonblocking(row.attempt, row, call) };
        }
        let full = self.operations.is_full();
        let Some(activations) = self.activations.as_mut().filter(|_| !full) else {
            // SAFETY: by the caller.
            return unsafe { self.without_carrier(row, call) };
        };
        // SAFETY: by the caller; the operation that `in_flight_call` becomes keeps what is pointed to.
        unsafe {
            let outcome = activations.call(call);
            self.carried(row, call, outcome)
        }
    }

    /// Converts the outcome of a call on a carrier into that of the attempt.
    ///
    /// # Safety
    /// As for the system call.
    #[cold]
    unsafe fn carried(&mut self, row: &Row, call: &Call, outcome: CarryOutcome) -> Attempted {
        let result = match outcome {
            CarryOutcome::Returned(result) => result,
            CarryOutcome::InFlight(flight) => {
                self.in_flight_call = Some(flight);
                return Attempted::WOULD_BLOCK;
            }
            CarryOutcome::NoCarrier(Errno::AGAIN) => {
                // SAFETY: by the caller.
                return unsafe { self.without_carrier(row, call) };
            }
            // No carrier can be started any more, so the call is attempted as in `lazy`.
            CarryOutcome::NoCarrier(_) => {
                // SAFETY: by the caller.
                return unsafe { self.attempt_nonblocking(row.attempt, row, call) };
            }
        };
        match result {
            Ok(fd) if row.yields_descriptor => {
                // The number may have belonged to a descriptor that was closed behind the context's
                // back.
                self.knowledge.hints.forget(fd as RawFd);
            }
            Ok(moved) if moved > 0 && interrupted_transfer(row, call, moved) => {
                return Attempted::blocked(moved, Why::WouldBlock);
            }
            // A signal handler of the program ran before the call was seen to block.
            Err(errno) if errno.is_interruption() => {
                return Attempted::blocked(0, Why::NotTried);
            }
            _ => {}
        }
        Attempted::Done(result)
    }

    /// Attempts the call without a carrier, at the limit of carriers: calls that do not block still
    /// succeed.
    ///
    /// # Safety
    /// As for the system call.
    #[cold]
    unsafe fn without_carrier(&mut self, row: &Row, call: &Call) -> Attempted {
        // SAFETY: by the caller.
        match unsafe { self.attempt_nonblocking(row.attempt, row, call) } {
            Attempted::Blocked(mut blocked) => {
                blocked.why = Why::NoCarrier;
                Attempted::Blocked(blocked)
            }
            attempted => attempted,
        }
    }

    /// Whether the cached hint says that the call transfers data of a file. If it is wrong, the
    /// program still does not block.
    pub(crate) fn is_known_file(&self, call: &Call) -> bool {
        self.knowledge.hints.kind(call.descriptor(0)) == Some(FileKind::Regular)
    }
}

/// Whether the result is complete and needs no further handling.
#[inline]
fn is_whole(row: &Row, call: &Call, result: Result<usize, Errno>) -> bool {
    match result {
        Err(errno) => !errno.is_interruption(),
        Ok(_) if row.yields_descriptor => false,
        Ok(moved) => match row.transfer {
            Transfer::Whole => true,
            Transfer::Buffer { length, .. } => moved == call.args[length as usize],
            _ => moved == 0,
        },
    }
}
