//! How the result of a call becomes an output.

use super::Sink;
use crate::Errno;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Converts the result of a call that returns only success or an error.
pub(super) fn done(result: Result<usize, Errno>) -> io::Result<()> {
    result?;
    Ok(())
}

/// Converts the result of a call that returns a number of bytes.
pub(super) fn count(result: Result<usize, Errno>) -> io::Result<usize> {
    Ok(result?)
}

/// Returns the descriptor that a call has produced.
pub(super) fn descriptor(result: Result<usize, Errno>) -> io::Result<OwnedFd> {
    let fd = result? as RawFd;
    // SAFETY: the kernel has just made it for this operation; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns a copy of the bytes that a call has read.
///
/// # Safety
/// As for [`append`].
pub(super) unsafe fn copied<B: Sink>(
    buffer: &mut B,
    result: Result<usize, Errno>,
) -> io::Result<Vec<u8>> {
    let count = result?;
    let (address, _) = buffer.spare_capacity();
    // SAFETY: by the caller, the call has written so many bytes there.
    let bytes = unsafe { std::slice::from_raw_parts(address, count) };
    Ok(bytes.to_vec())
}

/// Returns the number of bytes that a call has read, and the buffer with them appended.
///
/// # Safety
/// `result` must be that of a call that was given the memory of this very sink and counts the bytes
/// that it has written there.
pub(super) unsafe fn append<B: Sink>(
    mut buffer: B,
    result: Result<usize, Errno>,
) -> (io::Result<usize>, B) {
    if let Ok(count) = result {
        // SAFETY: by the caller.
        unsafe { buffer.append(count) };
    }
    (count(result), buffer)
}
