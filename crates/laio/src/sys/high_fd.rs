//! The engine's own descriptors, out of the way of the program's.
//!
//! A program expects the lowest free number from each call that makes a descriptor, and the numbers 0 to 2 to be
//! its standard streams, also where they were closed. So the engine keeps its own further up.

use super::{borrow, close};
use rustix::io::{Errno as Code, fcntl_dupfd_cloexec};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

/// Where they begin: as far up as the process's limit of descriptors allows. `select` still takes them.
const PLACES: [RawFd; 8] = [512, 256, 128, 64, 32, 16, 8, 3];

/// A descriptor of the engine's own. It is closed with this; that a program has closed it by mistake is no error
/// then, but one of the next call that needs it (`EBADF`).
#[derive(Debug)]
pub(crate) struct HighFd(RawFd);

impl HighFd {
    /// Moves it, if there is room for it further up.
    pub(crate) fn from(descriptor: OwnedFd) -> HighFd {
        HighFd::copy(&descriptor).unwrap_or_else(|| HighFd(descriptor.into_raw_fd()))
    }

    /// A copy of it further up; none where no place is free.
    pub(crate) fn copy(descriptor: &impl AsFd) -> Option<HighFd> {
        PLACES
            .into_iter()
            .find_map(|lowest| copy_from(descriptor, lowest).ok())
            .map(|copy| HighFd(copy.into_raw_fd()))
    }

    /// Whether the program has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        rustix::io::fcntl_getfd(self) == Err(Code::BADF)
    }
}

/// Whether there is room for more of them without taking the last numbers, which are the program's; `any` is a
/// descriptor that is open.
pub(crate) fn has_spare_numbers(any: &impl AsFd) -> bool {
    const LAST: RawFd = 64;
    copy_from(any, LAST).is_ok()
}

fn copy_from(descriptor: &impl AsFd, lowest: RawFd) -> Result<OwnedFd, Code> {
    fcntl_dupfd_cloexec(descriptor, lowest)
}

impl AsFd for HighFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        borrow(self.0).expect("a descriptor has no negative number")
    }
}

impl AsRawFd for HighFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl IntoRawFd for HighFd {
    fn into_raw_fd(self) -> RawFd {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for HighFd {
    fn drop(&mut self) {
        // Not by `OwnedFd`, which ends the process where somebody else has closed it.
        let _ = close(self.0);
    }
}
