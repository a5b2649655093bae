//! The call itself, as an attempt: if it blocks, it goes on, and so does the program, elsewhere.

use super::{Attempted, Why};
use crate::background::activations::Made;
use crate::blocking::interrupted_transfer;
use crate::context::Context;
use crate::mounts::FileKind;
use crate::table::Row;
use crate::{Call, Errno};
use std::os::fd::RawFd;

impl Context {
    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn carry(&mut self, row: &Row, call: &Call) -> Attempted {
        if self.must_be_tried {
            // SAFETY: by the caller.
            return unsafe { self.lazily(row.attempt, row, call) };
        }
        let full = self.operations.is_full();
        let Some(activations) = self.activations.as_mut().filter(|_| !full) else {
            // SAFETY: by the caller.
            return unsafe { self.without_carrier(row, call) };
        };
        // SAFETY: by the caller; the operation that `away` becomes keeps what is pointed to.
        let result = match unsafe { activations.call(call) } {
            Made::Returned(result) => result,
            Made::Away(away) => {
                self.away = Some(away);
                return Attempted::WOULD_BLOCK;
            }
            // SAFETY: by the caller.
            Made::NoCarrier(Errno::AGAIN) => return unsafe { self.without_carrier(row, call) },
            // None can be made here any more: as without them.
            // SAFETY: by the caller.
            Made::NoCarrier(_) => return unsafe { self.lazily(row.attempt, row, call) },
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
