//! A descriptor that another part of the program owns.

use crate::Errno;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

/// A descriptor of which only the number is known, for example from another language. It is not closed.
///
/// A duplicate ([`OpenFile::duplicate`](super::OpenFile::duplicate)) keeps the file open, but when it is
/// closed, the kernel drops the locks that the process has on the file (`fcntl`, `F_SETLK`). Use this where
/// locks matter more: if the owner closes the descriptor before the operation is over, the operation fails
/// with `EBADF`, or concerns the file that has the number then, as the plain call by number would.
///
/// ```
/// use laio::ops::{Fsync, Lent};
/// use std::os::fd::AsRawFd;
///
/// let file = tempfile::tempfile()?;
/// let sync = Fsync::new(Lent::new(file.as_raw_fd())?);
/// assert!(Lent::new(-1).is_err());
/// # drop(sync);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lent(BorrowedFd<'static>);

impl Lent {
    /// Returns the descriptor with this number.
    ///
    /// # Errors
    /// `EBADF` if the number is negative.
    pub fn new(number: RawFd) -> Result<Lent, Errno> {
        crate::sys::borrow(number).map(Lent).ok_or(Errno::BADF)
    }
}

impl AsFd for Lent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}
