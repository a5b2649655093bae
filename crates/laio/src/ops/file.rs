//! Operations on open files.

use super::{Sink, Source};
use crate::typed::Operation;
use crate::{Call, Errno};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Reads from a position of a file into the room of a buffer.
#[derive(Debug)]
pub struct ReadAt<F, B> {
    file: F,
    buffer: B,
    offset: u64,
}

impl<F, B> ReadAt<F, B> {
    /// Reads at byte `offset`.
    pub fn new(file: F, buffer: B, offset: u64) -> Self {
        ReadAt {
            file,
            buffer,
            offset,
        }
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Sink> Operation for ReadAt<F, B> {
    /// Bytes read (0 at the end of the file), and the buffer with them appended.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let (room, length) = self.buffer.room();
        let fd = self.file.as_fd().as_raw_fd() as usize;
        Call::new(
            libc::SYS_pread64,
            [fd, room as usize, length, self.offset as usize],
        )
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        if let Ok(count) = result {
            // SAFETY: the kernel has written that many bytes.
            unsafe { self.buffer.append(count) };
        }
        (result.map_err(io::Error::from), self.buffer)
    }
}

/// Writes all of a buffer at a position of a file.
#[derive(Debug)]
pub struct WriteAt<F, B> {
    file: F,
    buffer: B,
    offset: u64,
}

impl<F, B> WriteAt<F, B> {
    /// Writes at byte `offset`.
    pub fn new(file: F, buffer: B, offset: u64) -> Self {
        WriteAt {
            file,
            buffer,
            offset,
        }
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Source> Operation for WriteAt<F, B> {
    /// Bytes written (fewer than all only on an error in between), and the buffer.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let bytes = self.buffer.bytes();
        let fd = self.file.as_fd().as_raw_fd() as usize;
        let args = [
            fd,
            bytes.as_ptr() as usize,
            bytes.len(),
            self.offset as usize,
        ];
        Call::new(libc::SYS_pwrite64, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        (result.map_err(io::Error::from), self.buffer)
    }
}
