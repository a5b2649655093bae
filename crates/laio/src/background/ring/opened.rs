//! An `open` by the ring, compared with the plain call: the ring opens in non-blocking mode first,
//! in which a FIFO waits for no peer.

use crate::Errno;
use crate::attempt::{has_peer, is_file, known_how, provisional};
use crate::operations::InFlight;
use crate::table::Opcode;
use std::os::fd::RawFd;

/// Whether the ring has opened something without waiting, or failed to, where the plain call may
/// wait. A FIFO stays open with the operation until a helper has made the plain call.
pub(super) fn may_have_to_wait(operation: &mut InFlight, result: Result<usize, Errno>) -> bool {
    let (row, call) = (operation.row, &operation.call);
    let flags = match row.opcode {
        Some(Opcode::OpenAt2) => match known_how(call, false) {
            Some(how) => how.flags as i32,
            None => return false,
        },
        _ => row.flags_of(call),
    };
    if flags & (libc::O_PATH | libc::O_DIRECTORY | libc::O_NONBLOCK) != 0 {
        return false;
    }
    match result {
        // A FIFO without a reader, opened for writing.
        Err(Errno::NXIO) => true,
        Ok(fd) if !is_file(fd as RawFd) && !has_peer(fd as RawFd, flags) => {
            operation.scratch.get_or_insert_default().provisional = Some(provisional(fd as RawFd));
            true
        }
        _ => false,
    }
}
