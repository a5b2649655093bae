//! Reading and writing open files, and their position.

use super::{Sink, Source, word};
use crate::typed::Operation;
use crate::{Call, Errno};
use std::io;
use std::os::fd::AsFd;

/// Reads from a position of a file into the free capacity of a buffer.
#[derive(Debug)]
pub struct ReadAt<F, B> {
    file: F,
    buffer: B,
    offset: u64,
    expects_to_block: bool,
}

impl<F, B> ReadAt<F, B> {
    /// Reads at byte `offset`.
    pub fn new(file: F, buffer: B, offset: u64) -> Self {
        ReadAt {
            file,
            buffer,
            offset,
            expects_to_block: false,
        }
    }

    /// Hint: the data is probably not cached. With a ring this skips the `RWF_NOWAIT` attempt,
    /// which would start read-ahead on the device at once (seen on Linux 6.18), and submits the
    /// read to io_uring. The block layer can merge adjacent reads of one submission (up to
    /// [`Limits::BATCH`](crate::Limits::BATCH)), even of different files.
    pub fn expect_block(mut self) -> Self {
        self.expects_to_block = true;
        self
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Sink> Operation for ReadAt<F, B> {
    /// The bytes read (0 at the end of the file), and the buffer with them appended.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let (address, length) = self.buffer.spare_capacity();
        let args = [
            word(&self.file),
            address as usize,
            length,
            self.offset as usize,
        ];
        Call::new(libc::SYS_pread64, args)
    }

    fn expects_to_block(&self) -> bool {
        self.expects_to_block
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        // SAFETY: the result is that of the call on the buffer.
        let result = unsafe { append(&mut self.buffer, result) };
        (result, self.buffer)
    }
}

/// Writes all of a buffer at a position of a file.
///
/// A file opened with `O_APPEND` is written at its end, regardless of `offset`.
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
/// From a stream it reads the available bytes and waits only if there are none.
#[derive(Debug)]
pub struct Read<F, B> {
    file: F,
    buffer: B,
}

impl<F, B> Read<F, B> {
    /// Reads into the free capacity of `buffer`.
    pub fn new(file: F, buffer: B) -> Self {
        Read { file, buffer }
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Sink> Operation for Read<F, B> {
    /// Bytes read (0 at the end), and the buffer with them appended.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let (address, length) = self.buffer.spare_capacity();
        Call::new(libc::SYS_read, [word(&self.file), address as usize, length])
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        // SAFETY: the result is that of the call on the buffer.
        let result = unsafe { append(&mut self.buffer, result) };
        (result, self.buffer)
    }
}

/// Writes all of a buffer to a stream, or at the position of a file, which moves.
///
/// A write to a pipe or socket without a reader fails with `EPIPE`, and raises `SIGPIPE`, which
/// Rust programs ignore by default; on sockets [`Send`](super::Send) does not raise it.
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

/// The origin of a file position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whence {
    /// This byte of the file.
    Start(u64),
    /// This many bytes from the current position.
    Current(i64),
    /// This many bytes after the end of the file.
    End(i64),
    /// The first byte from this one on that is not in a hole.
    Data(u64),
    /// The first byte from this one on that is in a hole; the end of the file counts as one.
    Hole(u64),
}

/// Moves or queries the position of a file (`lseek`).
///
/// [`Whence::Data`] and [`Whence::Hole`] may wait for the device, which stores the list of blocks:
/// on local file systems they block the caller.
#[derive(Debug)]
pub struct Seek<F> {
    file: F,
    whence: Whence,
}

impl<F> Seek<F> {
    /// Moves the position there.
    pub fn new(file: F, whence: Whence) -> Self {
        Seek { file, whence }
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Seek<F> {
    /// The new position, from the start of the file. `ENXIO` if no data (or, beyond the end, no
    /// hole) is there; `EINVAL` before the start of the file; `ESPIPE` if the descriptor has no
    /// position.
    type Output = io::Result<u64>;

    fn call(&mut self) -> Call {
        let (offset, whence) = match self.whence {
            Whence::Start(offset) => (offset as usize, libc::SEEK_SET),
            Whence::Current(offset) => (offset as usize, libc::SEEK_CUR),
            Whence::End(offset) => (offset as usize, libc::SEEK_END),
            Whence::Data(offset) => (offset as usize, libc::SEEK_DATA),
            Whence::Hole(offset) => (offset as usize, libc::SEEK_HOLE),
        };
        let args = [word(&self.file), offset, whence as usize];
        Call::new(libc::SYS_lseek, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        Ok(result? as u64)
    }
}

/// Appends the bytes that a call has read.
///
/// # Safety
/// `result` must be that of a call that was given the memory of this very sink and counts the bytes
/// that it has written there.
pub(super) unsafe fn append(
    sink: &mut impl Sink,
    result: Result<usize, Errno>,
) -> io::Result<usize> {
    let count = result?;
    // SAFETY: by the caller.
    unsafe { sink.append(count) };
    Ok(count)
}
