//! An open file that several operations and threads share, with an identity.

use crate::Errno;
use std::any::Any;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

/// A descriptor that operations on any thread share. It is closed with its last clone.
///
/// Its number may belong to another file later, its identity does not. A [`Proactor`](crate::Proactor)
/// remembers by the identity what it has found out about the file, so that a read costs one system call.
/// Of an `Arc<OwnedFd>`, which has none, it remembers nothing, and asks for the flags each time.
#[derive(Clone, Debug)]
pub struct OpenFile(Arc<Identified>);

/// The lowest number of a duplicate: 0 to 2 are the standard streams.
const LOWEST: RawFd = 3;

#[derive(Debug)]
struct Identified {
    file: File,
    identity: u64,
}

impl OpenFile {
    /// Returns a duplicate of a descriptor of which only the number is known, for example from another
    /// language.
    ///
    /// ```
    /// use laio::ops::OpenFile;
    /// use std::os::fd::AsRawFd;
    ///
    /// let file = std::fs::File::open("/dev/null")?;
    /// let duplicate = OpenFile::duplicate(file.as_raw_fd())?;
    /// assert_ne!(duplicate.as_raw_fd(), file.as_raw_fd());
    /// assert!(OpenFile::duplicate(-1).is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `EBADF` if it is not open; `EMFILE` if no descriptor is left.
    pub fn duplicate(number: RawFd) -> Result<OpenFile, Errno> {
        let descriptor = crate::sys::borrow(number).ok_or(Errno::BADF)?;
        let duplicate = rustix::io::fcntl_dupfd_cloexec(descriptor, LOWEST)?;
        Ok(OpenFile::from(duplicate))
    }

    /// Returns the descriptor if this is the only clone.
    ///
    /// # Errors
    /// Returns the file if there are others: operations in flight have one.
    pub fn try_into_owned(self) -> Result<OwnedFd, OpenFile> {
        let own = Arc::try_unwrap(self.0);
        own.map(|identified| identified.file.into())
            .map_err(OpenFile)
    }

    /// The file, for calls of the standard library, which may block.
    pub fn as_std(&self) -> &File {
        &self.0.file
    }

    /// A number that no other file of this process has, and that its clones share.
    pub fn identity(&self) -> u64 {
        self.0.identity
    }
}

impl From<OwnedFd> for OpenFile {
    fn from(descriptor: OwnedFd) -> OpenFile {
        OpenFile::from(File::from(descriptor))
    }
}

impl From<File> for OpenFile {
    fn from(file: File) -> OpenFile {
        OpenFile(Arc::new(Identified {
            file,
            identity: crate::proactor::new_identity(),
        }))
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

impl AsRawFd for OpenFile {
    fn as_raw_fd(&self) -> RawFd {
        self.0.file.as_raw_fd()
    }
}

/// The identity of a descriptor that has one, else 0.
pub(super) fn identity(file: &impl Any) -> u64 {
    let file: &dyn Any = file;
    file.downcast_ref::<OpenFile>()
        .map_or(0, OpenFile::identity)
}
