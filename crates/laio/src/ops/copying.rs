//! Moving bytes from descriptor to descriptor inside the kernel.

use super::outputs::{count, done};
use super::{pointer, word};
use crate::Call;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

operation! {
    /// Sends bytes of a file to a socket, pipe or file without a copy to user space (`sendfile`).
    pub struct SendFile<G: AsFd, F: AsFd> {
        /// Sends `count` bytes of `from`, beginning at byte `offset`; without one, at the position
        /// of `from`, which moves.
        new(to: G, from: F, offset: Option<u64>, count: usize)
    }

    // SAFETY: the pointer is to the offset, which is part of the operation.
    unsafe call(self) {
        let offset = self.offset.as_mut().map_or(0, pointer);
        let args = [word(&self.to), word(&self.from), offset, self.count];
        Call::new(libc::SYS_sendfile, args)
    }

    /// The bytes sent: 0 at the end of the file; fewer than requested at its end, after an error in
    /// between, or at the kernel's limit of 2 GiB less a page.
    finish(self, result) -> io::Result<usize> { count(result) }
}

operation! {
    /// Copies bytes from file to file inside the kernel, or shares them, if the file system can
    /// (`copy_file_range`).
    pub struct CopyRange<F: AsFd, G: AsFd> {
        /// Copies `count` bytes at byte `from_offset` of `from` to byte `to_offset` of `to`.
        new(from: F, from_offset: u64, to: G, to_offset: u64, count: usize)
    }

    // SAFETY: the pointers are to the offsets, which are part of the operation.
    unsafe call(self) {
        let (from, to) = (pointer(&mut self.from_offset), pointer(&mut self.to_offset));
        let args = [word(&self.from), from, word(&self.to), to, self.count];
        Call::new(libc::SYS_copy_file_range, args)
    }

    /// The bytes copied: 0 at the end of the file, and often fewer than requested. `EXDEV`,
    /// `EINVAL` or `EOPNOTSUPP` if this pair of files does not support it.
    finish(self, result) -> io::Result<usize> { count(result) }
}

operation! {
    /// Moves bytes between a pipe and another descriptor without a copy to user space (`splice`).
    pub struct Splice<F: AsFd, G: AsFd> {
        /// Moves up to `count` bytes from `from` to `to`, one of which is a pipe: as many as it
        /// holds, or has space for.
        new(from: F, to: G, count: usize);
        from_offset: Option<u64> = None,
        to_offset: Option<u64> = None,
        flags: u32 = 0,
    }

    /// Reads at byte `offset` of `from`, whose position stays. Not for a pipe.
    with from_offset(self, offset: u64) { self.from_offset = Some(offset) }

    /// Writes at byte `offset` of `to`, whose position stays. Not for a pipe.
    with to_offset(self, offset: u64) { self.to_offset = Some(offset) }

    /// `SPLICE_F_*` flags, such as `SPLICE_F_MORE`.
    with flags(self, flags: u32) { self.flags = flags }

    // SAFETY: the pointers are to the offsets, which are part of the operation.
    unsafe call(self) {
        let from = self.from_offset.as_mut().map_or(0, pointer);
        let to = self.to_offset.as_mut().map_or(0, pointer);
        let (count, flags) = (self.count, self.flags as usize);
        let args = [word(&self.from), from, word(&self.to), to, count, flags];
        Call::new(libc::SYS_splice, args)
    }

    /// The bytes moved: 0 at the end, and often fewer than requested. `EINVAL` if neither is a
    /// pipe, or one is open with `O_APPEND`, or does not support splice; `ESPIPE` for an offset in
    /// a pipe.
    finish(self, result) -> io::Result<usize> { count(result) }
}

operation! {
    /// Makes a file share the blocks of another, until one of them is changed (`FICLONE`,
    /// `FICLONERANGE`): a copy that takes neither time nor space, on file systems that support it
    /// (Btrfs, XFS, bcachefs, OCFS2, NFS, and ZFS since 2.2).
    pub struct Reflink<F: AsFd, G: AsFd> {
        /// Clones all of `from` to the start of `to`; longer contents of `to` stay after it.
        new(from: F, to: G);
        range: Option<libc::file_clone_range> = None,
    }

    // SAFETY: the pointer is to the range, which is part of the operation.
    unsafe call(self) {
        let from = self.from.as_fd().as_raw_fd();
        let (command, argument) = match &mut self.range {
            None => (libc::FICLONE, from as usize),
            Some(range) => {
                range.src_fd = from.into();
                (libc::FICLONERANGE, pointer(range))
            }
        };
        Call::new(libc::SYS_ioctl, [word(&self.to), command as usize, argument])
    }

    /// `EOPNOTSUPP` (on some file systems `ENOTTY`) if the file system does not support it; `EXDEV`
    /// if the files are on different ones; `EINVAL` for other than regular files, or a range of
    /// partial blocks; `ETXTBSY` for a swap file. The call waits until blocks are allocated for
    /// recent writes to `from`.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F, G> Reflink<F, G> {
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
