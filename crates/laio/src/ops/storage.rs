//! The storage behind a file: reaching the device, reserving room, cutting off, advising, closing.

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
    /// Contents and metadata (`fsync`).
    pub fn new(file: F) -> Self {
        Fsync {
            file,
            data_only: false,
        }
    }

    /// Contents, and only the metadata without which they could not be read back (`fdatasync`).
    pub fn data(file: F) -> Self {
        Fsync {
            file,
            data_only: true,
        }
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Fsync<F> {
    /// An error (`EIO`, `ENOSPC`, `EDQUOT`) may be about an earlier write, and is reported once.
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

/// Reserves room for a range of a file, or releases it (`fallocate`).
#[derive(Debug)]
pub struct Allocate<F> {
    file: F,
    mode: i32,
    offset: u64,
    length: u64,
}

impl<F> Allocate<F> {
    /// Reserves `length` bytes from byte `offset` on; the file grows if that is beyond its end.
    pub fn new(file: F, offset: u64, length: u64) -> Self {
        Allocate {
            file,
            mode: 0,
            offset,
            length,
        }
    }

    /// Does something else with the range: `FALLOC_FL_*`.
    pub fn mode(mut self, mode: i32) -> Self {
        self.mode = mode;
        self
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Allocate<F> {
    /// `ENOSPC` if there is no room, `EOPNOTSUPP` if the file system cannot reserve.
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

/// Sets the length of an open file (`ftruncate`): cuts it off, or extends it by a hole.
#[derive(Debug)]
pub struct Truncate<F> {
    file: F,
    length: u64,
}

impl<F> Truncate<F> {
    /// Makes the file `length` bytes long.
    pub fn new(file: F, length: u64) -> Self {
        Truncate { file, length }
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Truncate<F> {
    /// `EINVAL` if the descriptor is not open for writing, `EFBIG` if the length is not possible.
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

/// What a program is going to do with a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// Nothing special.
    Normal,
    /// Read it from beginning to end: reads ahead further.
    Sequential,
    /// Read it here and there: does not read ahead.
    Random,
    /// Read it soon: begins to bring it in.
    WillNeed,
    /// Not read it again soon: what need not be written back leaves the page cache.
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

/// Tells the kernel how a range of a file will be used (`posix_fadvise`).
#[derive(Debug)]
pub struct Advise<F> {
    file: F,
    offset: u64,
    length: u64,
    advice: Advice,
}

impl<F> Advise<F> {
    /// Says so of `length` bytes from byte `offset` on; length 0 is all to the end.
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
    /// `ESPIPE` if it is a pipe. Success says only that the advice was heard.
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

/// Closes a descriptor. Files on a server, and those whose last writes fail, report it here.
///
/// Once submitted it is carried through, even if it is abandoned.
#[derive(Debug)]
pub struct Close {
    descriptor: Descriptor,
}

#[derive(Debug)]
enum Descriptor {
    /// Not submitted: dropping the operation closes it.
    Owned(OwnedFd),
    /// The call closes it; by now the number may mean another file.
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
    /// The descriptor is closed in any case; an error (`EIO`, `ENOSPC`, `EDQUOT`) is about earlier
    /// writes.
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

/// The result of a call that returns nothing but whether it succeeded.
pub(super) fn done(result: Result<usize, Errno>) -> io::Result<()> {
    result?;
    Ok(())
}
