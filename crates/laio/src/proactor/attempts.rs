//! Attempts alone, on memory that the caller lends: nothing is handed over but a `close`.

use super::Proactor;
use super::local::{self, Local, Request};
use super::shared::Shared;
use crate::attempt::Attempted;
use crate::ops::{Close, OpenFile};
use crate::{Call, Rights};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

impl Proactor {
    /// Reads from the position of a file, if that does not block: `None` if it would, or cannot be
    /// attempted. It may read fewer bytes than a plain read would.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn try_read(&self, file: &OpenFile, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        let args = [word(file), buffer.as_mut_ptr() as usize, buffer.len()];
        // SAFETY: the buffer is lent for the time of the attempt.
        unsafe { attempt(&self.0, Call::new(libc::SYS_read, args), file) }
    }

    /// Reads from byte `offset` of a file, as [`Proactor::try_read`].
    ///
    /// # Errors
    /// Those of `pread`.
    pub fn try_read_at(
        &self,
        file: &OpenFile,
        buffer: &mut [u8],
        offset: u64,
    ) -> Option<io::Result<usize>> {
        let (address, length) = (buffer.as_mut_ptr() as usize, buffer.len());
        let args = [word(file), address, length, offset as usize];
        // SAFETY: the buffer is lent for the time of the attempt.
        unsafe { attempt(&self.0, Call::new(libc::SYS_pread64, args), file) }
    }

    /// Writes at the position of a file, if that does not block: `None` if it would, or cannot be
    /// attempted. It may write fewer bytes than a plain write would.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn try_write(&self, file: &OpenFile, bytes: &[u8]) -> Option<io::Result<usize>> {
        let args = [word(file), bytes.as_ptr() as usize, bytes.len()];
        // SAFETY: the bytes are lent for the time of the attempt.
        unsafe { attempt(&self.0, Call::new(libc::SYS_write, args), file) }
    }

    /// Whether calls on an open file send no request to another process or machine, as those on FUSE
    /// and network file systems do.
    pub fn is_local(&self, file: impl AsFd) -> bool {
        let fd = file.as_fd().as_raw_fd();
        local::with(&self.0, |local: &mut Local| local.is_local(fd)).unwrap_or(false)
    }

    /// Gives up an open file. If this is its last clone, and the file is on a network or FUSE file system,
    /// the background closes it: `close` waits there until written data are sent (NFS), or for an answer
    /// (FUSE). Errors of the `close` are lost, as when the file is dropped: submit a [`Close`] to see them.
    ///
    /// With [`Rights::Thread`] it is closed at once.
    pub fn close(&self, file: OpenFile) {
        if self.0.options.whose_rights() == Rights::Thread || self.is_local(&file) {
            return;
        }
        let Ok(descriptor) = file.try_into_owned() else {
            return;
        };
        let mut close = self.submit(Close::new(descriptor));
        let mut context = Context::from_waker(Waker::noop());
        if Pin::new(&mut close).poll(&mut context).is_pending() {
            close.detach();
        }
    }
}

fn word(file: &OpenFile) -> usize {
    file.as_raw_fd() as usize
}

/// # Safety
/// As for the system call.
#[inline]
unsafe fn attempt(shared: &Arc<Shared>, call: Call, file: &OpenFile) -> Option<io::Result<usize>> {
    let request = Request {
        call,
        file: file.identity(),
        skip: None,
        examined: None,
    };
    // SAFETY: by the caller.
    let attempted = local::with(shared, |local| unsafe { local.attempt(shared, &request) });
    match attempted? {
        Attempted::Done(result) | Attempted::OverBudget(result) => Some(result.map_err(Into::into)),
        Attempted::Blocked(blocked) if blocked.done > 0 => Some(Ok(blocked.done)),
        Attempted::Blocked(_) => None,
    }
}
