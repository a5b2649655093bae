//! The storage of a file: flushing, allocating, truncating, advising, closing.

use super::word;
use crate::typed::Operation;
use crate::{Call, Errno};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd, RawFd};

/// Waits until a file's contents have reached the device.
#[derive(Debug)]
pub struct Fsync<F> {
    file: F,
    data_only: bool,
}

impl<F> Fsync<F> {
    /// Flushes contents and metadata (`fsync`).
    pub fn new(file: F) -> Self {
        Fsync {
            file,
            data_only: false,
        }
    }

    /// Flushes contents, and only the metadata needed to read them back (`fdatasync`).
    pub fn data(file: F) -> Self {
        Fsync {
            file,
            data_only: true,
        }
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Fsync<F> {
    /// An error (`EIO`, `ENOSPC`, `EDQUOT`) may come from an earlier write, and is reported once.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let number = if self.data_only {
            libc::SYS_fdatasync
        } else {
            libc::SYS_fsync
        };
        Call::new(number, [word(&self.file)])
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Allocates space for a range of a file, or releases it (`fallocate`).
#[derive(Debug)]
pub struct Allocate<F> {
    file: F,
    mode: i32,
    offset: u64,
    length: u64,
}

impl<F> Allocate<F> {
    /// Allocates `length` bytes from byte `offset`; the file grows if that is beyond its end.
    pub fn new(file: F, offset: u64, length: u64) -> Self {
        Allocate {
            file,
            mode: 0,
            offset,
            length,
        }
    }

    /// Sets another mode for the range: `FALLOC_FL_*`.
    pub fn mode(mut self, mode: i32) -> Self {
        self.mode = mode;
        self
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Allocate<F> {
    /// `ENOSPC` if there is no space, `EOPNOTSUPP` if the file system does not support the mode.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let args = [
            word(&self.file),
            self.mode as usize,
            self.offset as usize,
            self.length as usize,
        ];
        Call::new(libc::SYS_fallocate, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Sets the length of an open file (`ftruncate`): truncates it, or extends it by a hole.
#[derive(Debug)]
pub struct Truncate<F> {
    file: F,
    length: u64,
}

impl<F> Truncate<F> {
    /// Sets the length of the file to `length` bytes.
    pub fn new(file: F, length: u64) -> Self {
        Truncate { file, length }
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Truncate<F> {
    /// `EINVAL` if the descriptor is not open for writing, `EFBIG` if the length is too large.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        Call::new(
            libc::SYS_ftruncate,
            [word(&self.file), self.length as usize],
        )
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
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

/// Advises the kernel how a range of a file will be used (`posix_fadvise`).
#[derive(Debug)]
pub struct Advise<F> {
    file: F,
    offset: u64,
    length: u64,
    advice: Advice,
}

impl<F> Advise<F> {
    /// Advises about `length` bytes from byte `offset`; length 0 means to the end.
    pub fn new(file: F, offset: u64, length: u64, advice: Advice) -> Self {
        Advise {
            file,
            offset,
            length,
            advice,
        }
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Advise<F> {
    /// `ESPIPE` if it is a pipe. Success does not mean that the kernel follows the advice.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let args = [
            word(&self.file),
            self.offset as usize,
            self.length as usize,
            self.advice.word(),
        ];
        Call::new(libc::SYS_fadvise64, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Closes a descriptor. Remote file systems report failed writes here.
///
/// A submitted close is completed even if it is abandoned.
#[derive(Debug)]
pub struct Close {
    descriptor: Descriptor,
}

#[derive(Debug)]
enum Descriptor {
    /// Not submitted yet: dropping the operation closes it.
    Owned(OwnedFd),
    /// The call closes the descriptor; its number may belong to another file by now.
    Given(RawFd),
}

impl Close {
    /// Closes `descriptor`.
    pub fn new(descriptor: OwnedFd) -> Self {
        Close {
            descriptor: Descriptor::Owned(descriptor),
        }
    }
}

// SAFETY: the call has no pointers.
unsafe impl Operation for Close {
    /// The descriptor is closed in any case; an error (`EIO`, `ENOSPC`, `EDQUOT`) comes from
    /// earlier writes.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let number = match &self.descriptor {
            Descriptor::Owned(descriptor) => descriptor.as_raw_fd(),
            Descriptor::Given(number) => *number,
        };
        let before = std::mem::replace(&mut self.descriptor, Descriptor::Given(number));
        if let Descriptor::Owned(descriptor) = before {
            let _ = descriptor.into_raw_fd();
        }
        Call::new(libc::SYS_close, [number as usize])
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Converts the result of a call that returns only success or an error.
pub(super) fn done(result: Result<usize, Errno>) -> io::Result<()> {
    result?;
    Ok(())
}
