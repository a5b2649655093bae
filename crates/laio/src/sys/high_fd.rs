//! The engine's own descriptors, at high numbers.
//!
//! A program expects the lowest free number from each call that makes a descriptor, and expects 0
//! to 2 to be its standard streams, even after it has closed them. So the engine moves its own
//! descriptors to high numbers.

use super::{borrow, close};
use crate::Limits;
use rustix::io::{Errno as Code, fcntl_dupfd_cloexec};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

/// The lowest numbers to try, highest first, as the process's limit of descriptors allows. `select`
/// still supports them.
const PLACES: [RawFd; 8] = [Limits::OWN_DESCRIPTORS, 256, 128, 64, 32, 16, 8, 3];

/// A descriptor of the engine's own, closed on drop. If the program has closed it by mistake, the
/// drop ignores that, and the next call that needs it fails with `EBADF`.
#[derive(Debug)]
pub(crate) struct HighFd(RawFd);

impl HighFd {
    /// Moves a descriptor to a high number, if one is free.
    pub(crate) fn from(descriptor: OwnedFd) -> HighFd {
        HighFd::copy(&descriptor).unwrap_or_else(|| HighFd(descriptor.into_raw_fd()))
    }

    /// Duplicates a descriptor to a high number; `None` if none is free.
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

/// Whether a number of at least 64 is free: lower ones are left to the program. `any` is an open
/// descriptor.
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
        // Not by `OwnedFd`, which aborts the process if the descriptor is closed already.
        let _ = close(self.0);
    }
}
