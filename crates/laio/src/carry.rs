//! Attempts of `activations`: the call itself is made; if it blocks, a spare carrier continues the
//! program.

use crate::attempt::{Attempted, Blocked, Try, Why};
use crate::background::activations::{Activations, CarryOutcome};
use crate::blocking::interrupted_transfer;
use crate::knowledge::Knowledge;
use crate::table::{Row, Transfer};
use crate::{Call, Errno};
use std::os::fd::RawFd;

/// Makes the call itself. `activations`: none if the limit of operations leaves no room for one.
///
/// # Safety
/// As for the system call. What is pointed to stays until the result of a call that is still in
/// flight has been delivered.
pub(crate) unsafe fn carry(
    knowledge: &mut Knowledge,
    activations: Option<&mut Activations>,
    this: &Try<'_>,
) -> Attempted {
    if this.has_status {
        // SAFETY: by the caller.
        return unsafe { knowledge.attempt(this) };
    }
    // SAFETY: by the caller.
    unsafe {
        match activations {
            Some(activations) => carried(knowledge, this, activations.call(this.call)),
            None => without_carrier(knowledge, this),
        }
    }
}

/// Converts the outcome of a call on a carrier into that of the attempt.
///
/// # Safety
/// As for the system call.
#[cold]
pub(crate) unsafe fn carried(
    knowledge: &mut Knowledge,
    this: &Try<'_>,
    outcome: CarryOutcome,
) -> Attempted {
    let Try { row, call, .. } = *this;
    let result = match outcome {
        CarryOutcome::Returned(result) => result,
        CarryOutcome::InFlight(flight) => {
            knowledge.note_tried(row, call, true);
            return Attempted::Blocked(Blocked {
                in_flight: Some(flight),
                ..Blocked::because(Why::WouldBlock)
            });
        }
        CarryOutcome::NoCarrier(Errno::AGAIN) => {
            // SAFETY: by the caller.
            return unsafe { without_carrier(knowledge, this) };
        }
        // No carrier can be started any more, so the call is attempted as in `lazy`.
        CarryOutcome::NoCarrier(_) => {
            // SAFETY: by the caller.
            return unsafe { knowledge.attempt(this) };
        }
    };
    match result {
        Ok(fd) if row.yields_descriptor => {
            // The number may have belonged to a descriptor that was closed behind the context's
            // back.
            knowledge.hints.forget(fd as RawFd);
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
unsafe fn without_carrier(knowledge: &mut Knowledge, this: &Try<'_>) -> Attempted {
    // SAFETY: by the caller.
    match unsafe { knowledge.attempt(this) } {
        Attempted::Blocked(blocked) => Attempted::Blocked(Blocked {
            why: Why::NoCarrier,
            ..blocked
        }),
        attempted => attempted,
    }
}

/// Whether the result is complete and needs no further handling.
#[inline]
pub(crate) fn is_whole(row: &Row, call: &Call, result: Result<usize, Errno>) -> bool {
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
