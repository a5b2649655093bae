//! Checks for terminals that were hung up.

use super::{borrow, raw};
use crate::Errno;
use std::os::fd::RawFd;

/// Whether the descriptor is a terminal that was hung up: reads return 0 then, and other calls
/// fail.
pub(crate) fn is_hung_up(fd: RawFd) -> bool {
    // The kernel's `struct termios` is smaller.
    let mut settings = [0u64; 16];
    let address = settings.as_mut_ptr() as usize;
    // SAFETY: the kernel writes to the buffer, if it is a terminal at all.
    let settings = unsafe {
        raw(
            libc::SYS_ioctl,
            [fd as usize, libc::TCGETS as usize, address],
        )
    };
    settings == Err(Errno::IO)
}

/// Whether the descriptor is the slave of a pseudo-terminal that was hung up because its master was
/// closed, which removes its name first.
pub(crate) fn has_lost_its_master(fd: RawFd) -> bool {
    is_hung_up(fd)
        && borrow(fd)
            .is_some_and(|fd| rustix::fs::fstat(fd).is_ok_and(|status| status.st_nlink == 0))
}
