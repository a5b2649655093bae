//! Reading and writing open files, and their position.

use super::buffer::{bytes, spare};
use super::open_file::identity;
use super::outputs::{append, copied, count};
use super::{Sink, Source, word};
use crate::operation::ReadsStream;
use crate::{Call, Errno};
use std::io;
use std::os::fd::AsFd;

operation! {
    /// Reads from a position of a file into the free capacity of a buffer.
    pub struct ReadAt<F: AsFd, B: Sink> {
        /// Reads at byte `offset`.
        new(file: F, buffer: B, offset: u64);
        expects_to_block: bool = false,
    }

    /// Hint: the data is probably not cached. With a ring this skips the `RWF_NOWAIT` attempt,
    /// which would start read-ahead on the device at once (seen on Linux 6.18), and submits the
    /// read to io_uring. The block layer can merge adjacent reads of one submission (up to
    /// [`Limits::BATCH`](crate::Limits::BATCH)), even of different files.
    with expect_block(self) { self.expects_to_block = true }

    // SAFETY: the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = spare(&mut self.buffer);
        let args = [word(&self.file), address, length, self.offset as usize];
        Call::new(libc::SYS_pread64, args)
    }

    /// The bytes read (0 at the end of the file), and the buffer with them appended.
    finish(self, result) -> (io::Result<usize>, B) {
        // SAFETY: the result is that of the call on the buffer.
        unsafe { append(self.buffer, result) }
    }

    fn expects_to_block(&self) -> bool { self.expects_to_block }

    fn file_identity(&self) -> u64 { identity(&self.file) }
}

operation! {
    /// Writes all of a buffer at a position of a file.
    ///
    /// A file opened with `O_APPEND` is written at its end, regardless of `offset`.
    pub struct WriteAt<F: AsFd, B: Source> {
        /// Writes at byte `offset`.
        new(file: F, buffer: B, offset: u64)
    }

    // SAFETY: the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = bytes(&self.buffer);
        let args = [word(&self.file), address, length, self.offset as usize];
        Call::new(libc::SYS_pwrite64, args)
    }

    /// Bytes written (fewer than all only on an error in between), and the buffer.
    finish(self, result) -> (io::Result<usize>, B) { (count(result), self.buffer) }

    fn file_identity(&self) -> u64 { identity(&self.file) }
}

operation! {
    /// Reads from a stream (pipe, terminal, socket), or from the position of a file, which moves.
    ///
    /// From a stream it reads the available bytes and waits only if there are none.
    pub struct Read<F: AsFd, B: Sink> {
        /// Reads into the free capacity of `buffer`.
        new(file: F, buffer: B)
    }

    // SAFETY: the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = spare(&mut self.buffer);
        Call::new(libc::SYS_read, [word(&self.file), address, length])
    }

    /// Bytes read (0 at the end), and the buffer with them appended.
    finish(self, result) -> (io::Result<usize>, B) {
        // SAFETY: the result is that of the call on the buffer.
        unsafe { append(self.buffer, result) }
    }
    fn file_identity(&self) -> u64 { identity(&self.file) }
}

impl<F: AsFd + 'static, B: Sink> ReadsStream for Read<F, B> {
    unsafe fn into_bytes(mut self, result: Result<usize, Errno>) -> io::Result<Vec<u8>> {
        // SAFETY: the call was given the memory of this buffer.
        unsafe { copied(&mut self.buffer, result) }
    }
}

operation! {
    /// Writes all of a buffer to a stream, or at the position of a file, which moves.
    ///
    /// A write to a pipe or socket without a reader fails with `EPIPE`, and raises `SIGPIPE`, which
    /// Rust programs ignore by default; on sockets [`Send`](super::Send) does not raise it.
    pub struct Write<F: AsFd, B: Source> {
        /// Writes the bytes of `buffer`.
        new(file: F, buffer: B)
    }

    // SAFETY: the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = bytes(&self.buffer);
        let args = [word(&self.file), address, length];
        Call::new(libc::SYS_write, args)
    }

    /// Bytes written (fewer than all only on an error in between), and the buffer.
    finish(self, result) -> (io::Result<usize>, B) { (count(result), self.buffer) }

    fn file_identity(&self) -> u64 { identity(&self.file) }
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

operation! {
    /// Moves or queries the position of a file (`lseek`).
    ///
    /// [`Whence::Data`] and [`Whence::Hole`] may wait for the device, which stores the list of
    /// blocks: on local file systems they block the caller.
    pub struct Seek<F: AsFd> {
        /// Moves the position there.
        new(file: F, whence: Whence)
    }

    // SAFETY: the call has no pointers.
    unsafe call(self) {
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

    /// The new position, from the start of the file. `ENXIO` if no data (or, beyond the end, no
    /// hole) is there; `EINVAL` before the start of the file; `ESPIPE` if the descriptor has no
    /// position.
    finish(self, result) -> io::Result<u64> { Ok(result? as u64) }
}
