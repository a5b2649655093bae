//! Moving bytes from descriptor to descriptor inside the kernel.

use super::storage::done;
use super::word;
use crate::typed::Operation;
use crate::{Call, Errno};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

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
    /// The bytes sent: 0 at the end of the file; fewer than requested at its end, after an error in
    /// between, or at the kernel's limit of 2 GiB less a page.
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
    /// The bytes copied: 0 at the end of the file, and often fewer than requested. `EXDEV`,
    /// `EINVAL` or `EOPNOTSUPP` if this pair of files does not support it.
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

/// Moves bytes between a pipe and another descriptor without a copy to user space (`splice`).
#[derive(Debug)]
pub struct Splice<F, G> {
    from: F,
    from_offset: Option<i64>,
    to: G,
    to_offset: Option<i64>,
    count: usize,
    flags: u32,
}

impl<F, G> Splice<F, G> {
    /// Moves up to `count` bytes from `from` to `to`, one of which is a pipe: as many as it holds,
    /// or has space for.
    pub fn new(from: F, to: G, count: usize) -> Self {
        Splice {
            from,
            from_offset: None,
            to,
            to_offset: None,
            count,
            flags: 0,
        }
    }

    /// Reads at byte `offset` of `from`, whose position stays. Not for a pipe.
    pub fn from_offset(mut self, offset: u64) -> Self {
        self.from_offset = Some(offset as i64);
        self
    }

    /// Writes at byte `offset` of `to`, whose position stays. Not for a pipe.
    pub fn to_offset(mut self, offset: u64) -> Self {
        self.to_offset = Some(offset as i64);
        self
    }

    /// `SPLICE_F_*` flags, such as `SPLICE_F_MORE`.
    pub fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }
}

// SAFETY: the pointers are to the offsets, which are part of the operation.
unsafe impl<F: AsFd + 'static, G: AsFd + 'static> Operation for Splice<F, G> {
    /// The bytes moved: 0 at the end, and often fewer than requested. `EINVAL` if neither is a
    /// pipe, or one is open with `O_APPEND`, or does not support splice; `ESPIPE` for an offset in
    /// a pipe.
    type Output = io::Result<usize>;

    fn call(&mut self) -> Call {
        let place = |offset: &mut Option<i64>| match offset {
            Some(offset) => (&raw mut *offset) as usize,
            None => 0,
        };
        let args = [
            word(&self.from),
            place(&mut self.from_offset),
            word(&self.to),
            place(&mut self.to_offset),
            self.count,
            self.flags as usize,
        ];
        Call::new(libc::SYS_splice, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        Ok(result?)
    }
}

/// Makes a file share the blocks of another, until one of them is changed (`FICLONE`,
/// `FICLONERANGE`): a copy that takes neither time nor space, on file systems that support it
/// (Btrfs, XFS, bcachefs, OCFS2, NFS, and ZFS since 2.2).
pub struct Reflink<F, G> {
    from: F,
    to: G,
    range: Option<libc::file_clone_range>,
}

impl<F, G> Reflink<F, G> {
    /// Clones all of `from` to the start of `to`; longer contents of `to` stay after it.
    pub fn new(from: F, to: G) -> Self {
        Reflink {
            from,
            to,
            range: None,
        }
    }

    /// Shares `length` bytes at byte `from_offset` of `from` (0: all to its end), at byte `to_offset` of
    /// `to`. Both offsets, and the length unless the range ends with its file, are whole blocks.
    pub fn range(from: F, from_offset: u64, length: u64, to: G, to_offset: u64) -> Self {
        Reflink {
            from,
            to,
            range: Some(libc::file_clone_range {
                src_fd: -1,
                src_offset: from_offset,
                src_length: length,
                dest_offset: to_offset,
            }),
        }
    }
}

impl<F: fmt::Debug, G: fmt::Debug> fmt::Debug for Reflink<F, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = self.range.as_ref();
        f.debug_struct("Reflink")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("from_offset", &range.map(|range| range.src_offset))
            .field("length", &range.map(|range| range.src_length))
            .field("to_offset", &range.map(|range| range.dest_offset))
            .finish()
    }
}

// SAFETY: the pointer is to the range, which is part of the operation.
unsafe impl<F: AsFd + 'static, G: AsFd + 'static> Operation for Reflink<F, G> {
    /// `EOPNOTSUPP` (on some file systems `ENOTTY`) if the file system does not support it; `EXDEV`
    /// if the files are on different ones; `EINVAL` for other than regular files, or a range of
    /// partial blocks; `ETXTBSY` for a swap file. The call waits until blocks are allocated for
    /// recent writes to `from`.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let from = self.from.as_fd().as_raw_fd();
        let (command, argument) = match &mut self.range {
            None => (libc::FICLONE, from as usize),
            Some(range) => {
                range.src_fd = from.into();
                (libc::FICLONERANGE, (&raw const *range) as usize)
            }
        };
        Call::new(
            libc::SYS_ioctl,
            [word(&self.to), command as usize, argument],
        )
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}
