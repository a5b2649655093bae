//! An `open` by the ring. It is made in non-blocking mode, in which a FIFO waits for no peer: a worker of
//! io_uring that waits for one is missing to all other calls of the thread, and there are few. Afterwards
//! the file goes into the caller's mode, or a helper makes the plain call.

use crate::attempt::{has_peer, is_file, provisional, set_mode};
use crate::operations::InFlight;
use crate::table::{Attempt, Opcode, Row, known_how};
use crate::transfer::Scratch;
use crate::{Call, Errno};
use std::os::fd::RawFd;

/// What has become of an `open` in non-blocking mode.
pub(super) enum Opened {
    /// It is the call's result.
    Result,
    /// The plain call may wait: a helper makes it.
    MayWait,
}

/// Returns the call that the ring makes for an `open` of the caller: in non-blocking mode, if it could wait
/// otherwise.
pub(super) fn without_waiting(row: &Row, call: &Call, scratch: &mut Option<Box<Scratch>>) -> Call {
    let mut call = *call;
    if guarded_flags(row, &call).is_none() {
        return call;
    }
    match (row.opcode, row.flags) {
        (Some(Opcode::OpenAt2), _) => {
            if let Some(mut how) = known_how(&call, false) {
                how.flags |= libc::O_NONBLOCK as u64;
                let scratch = scratch.get_or_insert_default();
                scratch.how = how;
                call.args[2] = (&raw const scratch.how) as usize;
            }
        }
        (_, Some(flags)) => call.args[flags as usize] |= libc::O_NONBLOCK as usize,
        _ => {}
    }
    call
}

/// Finds out whether the ring has opened something without waiting, or failed to, where the plain call may
/// wait. A file goes into the caller's mode. A FIFO stays open with the operation until a helper has made
/// the plain call.
pub(super) fn settle(operation: &mut InFlight, result: Result<usize, Errno>) -> Opened {
    let Some(flags) = guarded_flags(operation.row, &operation.call) else {
        return Opened::Result;
    };
    match result {
        // A FIFO without a reader, opened for writing.
        Err(Errno::NXIO) => Opened::MayWait,
        Ok(fd) => {
            let fd = fd as RawFd;
            if (is_file(fd) || has_peer(fd, flags)) && set_mode(fd, flags) {
                return Opened::Result;
            }
            operation.scratch.get_or_insert_default().provisional = Some(provisional(fd));
            Opened::MayWait
        }
        Err(_) => Opened::Result,
    }
}

/// The caller's flags, if the call opens a file that exists already, perhaps, and may wait.
fn guarded_flags(row: &Row, call: &Call) -> Option<i32> {
    if row.attempt != Attempt::CachedOpen {
        return None;
    }
    let flags = match row.opcode {
        Some(Opcode::OpenAt2) => known_how(call, false)?.flags as i32,
        _ => row.flags_of(call),
    };
    let never = libc::O_PATH | libc::O_DIRECTORY | libc::O_NONBLOCK;
    let makes_anew = libc::O_CREAT | libc::O_EXCL;
    (flags & never == 0 && flags & makes_anew != makes_anew).then_some(flags)
}
