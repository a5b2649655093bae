//! Reads into borrowed memory: for programs whose buffers belong to another language's heap.

use crate::attempt::{Attempted, Try};
use crate::context::Context;
use crate::{Call, Errno};
use std::os::fd::{AsFd, AsRawFd};

/// The outcome of [`Context::try_read_at`] and [`Context::try_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRead {
    /// The read is over: the number of bytes that it has read, or its error.
    Done(Result<usize, Errno>),
    /// The read would block, or the file has no read that is known not to block.
    WouldBlock {
        /// The number of bytes that it has read before.
        done: usize,
    },
}

impl Context {
    /// Reads at a position of a file, in bytes, into `buffer`, if that does not block: as
    /// [`ReadAt`](crate::ops::ReadAt), but nothing is left in flight. With the back end `sync`, which
    /// attempts nothing, it is the read itself.
    ///
    /// ```
    /// use laio::{Context, Options, TryRead};
    ///
    /// let mut context = Context::new(Options::new())?;
    /// let mut file = tempfile::tempfile()?;
    /// std::io::Write::write_all(&mut file, b"cached")?;
    /// let mut buffer = [0; 16];
    /// if let TryRead::Done(count) = context.try_read_at(&file, &mut buffer, 0) {
    ///     assert_eq!(buffer[..count?], *b"cached");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_read_at(&mut self, file: impl AsFd, buffer: &mut [u8], position: u64) -> TryRead {
        let fd = file.as_fd().as_raw_fd() as usize;
        let arguments = [
            fd,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            position as usize,
        ];
        self.try_borrowed(&Call::new(libc::SYS_pread64, arguments))
    }

    /// Reads from a stream, or at a file's own position, into `buffer`, if that does not block: as
    /// [`Read`](crate::ops::Read), but nothing is left in flight.
    pub fn try_read(&mut self, file: impl AsFd, buffer: &mut [u8]) -> TryRead {
        let fd = file.as_fd().as_raw_fd() as usize;
        let arguments = [fd, buffer.as_mut_ptr() as usize, buffer.len()];
        self.try_borrowed(&Call::new(libc::SYS_read, arguments))
    }

    /// Attempts a read whose buffer is borrowed for the time of this function.
    fn try_borrowed(&mut self, call: &Call) -> TryRead {
        self.notice_fork();
        // A carrier would keep the buffer beyond this function.
        if self.background.carriers().is_some() {
            return TryRead::WouldBlock { done: 0 };
        }
        let this = Try {
            memory_is_good: true,
            ..Try::new(call)
        };
        // SAFETY: the only pointer of the call is to borrowed memory that may be written, and without
        // carriers no attempt lasts beyond this call.
        match unsafe { self.attempt_any(&this) } {
            Attempted::Done(result) | Attempted::OverBudget(result) => TryRead::Done(result),
            Attempted::Blocked(blocked) => TryRead::WouldBlock { done: blocked.done },
        }
    }
}
