//! The storage behind a file: reaching the device, reserving room, cutting off, copying, closing.

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

/// Sends bytes of a file to a socket, pipe or file without a copy to user space (`sendfile`).
#[derive(Debug)]
pub struct SendFile<G, F> {
    to: G,
    from: F,
    offset: Option<i64>,
    count: usize,
}

impl<G, F> SendFile<G, F> {
    /// Sends `count` bytes of `from`, beginning at byte `offset`; without one, at the position of
    /// `from`, which moves.
    pub fn new(to: G, from: F, offset: Option<u64>, count: usize) -> Self {
        SendFile {
            to,
            from,
            offset: offset.map(|offset| offset as i64),
            count,
        }
    }
}

// SAFETY: the pointer is to the offset, which is part of the operation.
unsafe impl<G: AsFd + 'static, F: AsFd + 'static> Operation for SendFile<G, F> {
    /// Bytes sent: 0 at the end of the file, and fewer than asked for before it, on an error after
    /// some, or where the kernel's bound of 2 GiB less a page is reached.
    type Output = io::Result<usize>;

    fn call(&mut self) -> Call {
        let offset = match &mut self.offset {
            Some(offset) => (&raw mut *offset) as usize,
            None => 0,
        };
        let args = [word(&self.to), word(&self.from), offset, self.count];
        Call::new(libc::SYS_sendfile, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        Ok(result?)
    }
}

/// Copies bytes from file to file inside the kernel, or shares them, if the file system can
/// (`copy_file_range`).
#[derive(Debug)]
pub struct CopyRange<F, G> {
    from: F,
    from_offset: i64,
    to: G,
    to_offset: i64,
    count: usize,
}

impl<F, G> CopyRange<F, G> {
    /// Copies `count` bytes at byte `from_offset` of `from` to byte `to_offset` of `to`.
    pub fn new(from: F, from_offset: u64, to: G, to_offset: u64, count: usize) -> Self {
        CopyRange {
            from,
            from_offset: from_offset as i64,
            to,
            to_offset: to_offset as i64,
            count,
        }
    }
}

// SAFETY: the pointers are to the offsets, which are part of the operation.
unsafe impl<F: AsFd + 'static, G: AsFd + 'static> Operation for CopyRange<F, G> {
    /// Bytes copied: 0 at the end of the file, and often fewer than asked for before it. `EXDEV`,
    /// `EINVAL` or `EOPNOTSUPP` if this pair of files cannot be copied so.
    type Output = io::Result<usize>;

    fn call(&mut self) -> Call {
        let args = [
            word(&self.from),
            (&raw mut self.from_offset) as usize,
            word(&self.to),
            (&raw mut self.to_offset) as usize,
            self.count,
        ];
        Call::new(libc::SYS_copy_file_range, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        Ok(result?)
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
