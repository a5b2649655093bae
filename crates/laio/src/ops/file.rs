//! Reading and writing open files.

use super::{Sink, Source, word};
use crate::typed::Operation;
use crate::{Call, Errno};
use std::io;
use std::os::fd::AsFd;

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
        let args = [
            word(&self.file),
            room as usize,
            length,
            self.offset as usize,
        ];
        Call::new(libc::SYS_pread64, args)
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        // SAFETY: the result is that of the call on the buffer.
        let result = unsafe { append(&mut self.buffer, result) };
        (result, self.buffer)
    }
}

/// Writes all of a buffer at a position of a file.
///
/// Of a file opened with `O_APPEND` it writes the end, wherever `offset` is.
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
        let args = [
            word(&self.file),
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

/// Reads from a stream (pipe, terminal, socket), or from the position of a file, which moves.
///
/// From a stream it takes what is there and waits only if there is nothing.
#[derive(Debug)]
pub struct Read<F, B> {
    file: F,
    buffer: B,
}

impl<F, B> Read<F, B> {
    /// Reads into the room of `buffer`.
    pub fn new(file: F, buffer: B) -> Self {
        Read { file, buffer }
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Sink> Operation for Read<F, B> {
    /// Bytes read (0 at the end), and the buffer with them appended.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let (room, length) = self.buffer.room();
        Call::new(libc::SYS_read, [word(&self.file), room as usize, length])
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        // SAFETY: the result is that of the call on the buffer.
        let result = unsafe { append(&mut self.buffer, result) };
        (result, self.buffer)
    }
}

/// Writes all of a buffer to a stream, or at the position of a file, which moves.
///
/// A write to a pipe or socket that nobody reads fails with `EPIPE`, and raises `SIGPIPE`, which Rust
/// programs ignore unless told otherwise; on sockets [`Send`](super::Send) raises none.
#[derive(Debug)]
pub struct Write<F, B> {
    file: F,
    buffer: B,
}

impl<F, B> Write<F, B> {
    /// Writes the bytes of `buffer`.
    pub fn new(file: F, buffer: B) -> Self {
        Write { file, buffer }
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Source> Operation for Write<F, B> {
    /// Bytes written (fewer than all only on an error in between), and the buffer.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let bytes = self.buffer.bytes();
        let args = [word(&self.file), bytes.as_ptr() as usize, bytes.len()];
        Call::new(libc::SYS_write, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        (result.map_err(io::Error::from), self.buffer)
    }
}

/// Appends what a call has read.
///
/// # Safety
/// `result` is that of a call that was given the room of this very sink and counts the bytes that it
/// has written there.
pub(super) unsafe fn append(
    sink: &mut impl Sink,
    result: Result<usize, Errno>,
) -> io::Result<usize> {
    let count = result?;
    // SAFETY: by the caller.
    unsafe { sink.append(count) };
    Ok(count)
}
