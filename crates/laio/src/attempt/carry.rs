//! The call itself, as an attempt: if it blocks, it goes on, and so does the program, elsewhere.

use super::{Attempted, Why};
use crate::background::activations::{Activations, CarryOutcome};
use crate::blocking::interrupted_transfer;
use crate::context::Context;
use crate::mounts::FileKind;
use crate::strategy::Strategy;
use crate::table::{Attempt, Row, Transfer};
use crate::{Call, Detector, Errno};
use std::os::fd::RawFd;

impl Context {
    /// The result of a call that nothing else need be known of: nothing is in flight, so there is no order to keep,
    /// no budget and no limit. `None` if it is to be made with care, and has not been made.
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
            Attempt::Close | Attempt::Replace(_) | Attempt::CloseRange | Attempt::LockCommand
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
            return unsafe { self.lazily(row.attempt, row, call) };
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

    /// What comes of a call that was made, or could not be.
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
            // SAFETY: by the caller.
            CarryOutcome::NoCarrier(Errno::AGAIN) => {
                return unsafe { self.without_carrier(row, call) };
            }
            // None can be made here any more: as without them.
            // SAFETY: by the caller.
            CarryOutcome::NoCarrier(_) => return unsafe { self.lazily(row.attempt, row, call) },
        };
        match result {
            Ok(fd) if row.yields_descriptor => {
                // Whatever the number meant before, and was closed behind our back.
                self.descriptors.forget(fd as RawFd);
            }
            Ok(moved) if moved > 0 && interrupted_transfer(row, call, moved) => {
                return Attempted::blocked(moved, Why::WouldBlock);
            }
            // A signal handler of the program came before the call was seen to block.
            Err(errno) if errno.is_interruption() => {
                return Attempted::blocked(0, Why::NotTried);
            }
            _ => {}
        }
        Attempted::Done(result)
    }

    /// At a limit: what can be had without blocking is had all the same.
    ///
    /// # Safety
    /// As for the system call.
    #[cold]
    unsafe fn without_carrier(&mut self, row: &Row, call: &Call) -> Attempted {
        // SAFETY: by the caller.
        match unsafe { self.lazily(row.attempt, row, call) } {
            Attempted::Blocked(mut blocked) => {
                blocked.why = Why::NoCarrier;
                Attempted::Blocked(blocked)
            }
            attempted => attempted,
        }
    }

    /// Whether a call that moves bytes does so on a file, as far as is known. If that is wrong, it still does not
    /// block the program.
    pub(crate) fn is_known_file(&self, call: &Call) -> bool {
        self.descriptors.kind(call.descriptor(0)) == Some(FileKind::Regular)
    }
}

impl Context {
    /// Kernel threads of `activations`, beside the thread's own; its contexts share them.
    pub fn carriers(&self) -> usize {
        self.activations.as_ref().map_or(0, Activations::carriers)
    }

    /// How `activations` notices that a call blocks.
    pub fn detector(&self) -> Option<Detector> {
        self.activations.as_ref().map(Activations::detector)
    }

    /// Whether the kernel threads of `activations` have the same credentials, filters and namespaces. They have not
    /// if the program changed its own other than through laio, which it must not do while the context
    /// lives.
    pub fn carriers_agree(&self) -> bool {
        self.activations
            .as_ref()
            .is_none_or(Activations::carriers_agree)
    }
}

/// Whether a result is that of the call, and nothing is to be learnt from it.
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
