//! The storage of a file: flushing, allocating, truncating, advising, closing.

use super::outputs::done;
use super::word;
use crate::Call;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};

operation! {
    /// Waits until a file's contents have reached the device.
    pub struct Fsync<F: AsFd> {
        /// Flushes contents and metadata (`fsync`).
        new(file: F);
        number: libc::c_long = libc::SYS_fsync,
    }

    // SAFETY: the call has no pointers.
    unsafe call(self) { Call::new(self.number, [word(&self.file)]) }

    /// An error (`EIO`, `ENOSPC`, `EDQUOT`) may come from an earlier write, and is reported once.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F> Fsync<F> {
    /// Flushes contents, and only the metadata needed to read them back (`fdatasync`).
    pub fn data(file: F) -> Self {
        let number = libc::SYS_fdatasync;
        Fsync { file, number }
    }
}

operation! {
    /// Allocates space for a range of a file, or releases it (`fallocate`).
    pub struct Allocate<F: AsFd> {
        /// Allocates `length` bytes from byte `offset`; the file grows if that is beyond its end.
        new(file: F, offset: u64, length: u64);
        mode: i32 = 0,
    }

    /// Sets another mode for the range: `FALLOC_FL_*`.
    with mode(self, mode: i32) { self.mode = mode }

    // SAFETY: the call has no pointers.
    unsafe call(self) {
        let (offset, length) = (self.offset as usize, self.length as usize);
        Call::new(libc::SYS_fallocate, [word(&self.file), self.mode as usize, offset, length])
    }

    /// `ENOSPC` if there is no space, `EOPNOTSUPP` if the file system does not support the mode.
    finish(self, result) -> io::Result<()> { done(result) }
}

operation! {
    /// Sets the length of an open file (`ftruncate`): truncates it, or extends it by a hole.
    pub struct Truncate<F: AsFd> {
        /// Sets the length of the file to `length` bytes.
        new(file: F, length: u64)
    }

    // SAFETY: the call has no pointers.
    unsafe call(self) { Call::new(libc::SYS_ftruncate, [word(&self.file), self.length as usize]) }

    /// `EINVAL` if the descriptor is not open for writing, `EFBIG` if the length is too large.
    finish(self, result) -> io::Result<()> { done(result) }
}

/// How a program will use a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// Nothing special.
    Normal,
    /// Read it from beginning to end: reads ahead further.
    Sequential,
    /// Read it in random order: does not read ahead.
    Random,
    /// Read it soon: starts to read it into the cache.
    WillNeed,
    /// Not read it again soon: clean pages leave the page cache.
    DontNeed,
    /// Read it once.
    NoReuse,
}

impl Advice {
    fn word(self) -> usize {
        let advice = match self {
            Advice::Normal => libc::POSIX_FADV_NORMAL,
            Advice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
            Advice::Random => libc::POSIX_FADV_RANDOM,
            Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
            Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
            Advice::NoReuse => libc::POSIX_FADV_NOREUSE,
        };
        advice as usize
    }
}

operation! {
    /// Advises the kernel how a range of a file will be used (`posix_fadvise`).
    pub struct Advise<F: AsFd> {
        /// Advises about `length` bytes from byte `offset`; length 0 means to the end.
        new(file: F, offset: u64, length: u64, advice: Advice)
    }

    // SAFETY: the call has no pointers.
    unsafe call(self) {
        let (offset, length) = (self.offset as usize, self.length as usize);
        Call::new(libc::SYS_fadvise64, [word(&self.file), offset, length, self.advice.word()])
    }

    /// `ESPIPE` if it is a pipe. Success does not mean that the kernel follows the advice.
    finish(self, result) -> io::Result<()> { done(result) }
}

operation! {
    /// Closes a descriptor. Remote file systems report failed writes here.
    ///
    /// A submitted close is completed even if it is abandoned.
    pub struct Close {
        // Until the call is made, dropping the operation closes the descriptor. After it the number
        // may belong to another file.
        owned: Option<OwnedFd>,
        number: RawFd,
    }

    // SAFETY: the call has no pointers.
    unsafe call(self) {
        let _ = self.owned.take().map(OwnedFd::into_raw_fd);
        Call::new(libc::SYS_close, [self.number as usize])
    }

    /// The descriptor is closed in any case; an error (`EIO`, `ENOSPC`, `EDQUOT`) comes from
    /// earlier writes.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl Close {
    /// Closes `descriptor`.
    pub fn new(descriptor: OwnedFd) -> Self {
        let number = descriptor.as_raw_fd();
        let owned = Some(descriptor);
        Close { owned, number }
    }
}
