//! The status of a file system.

use super::outputs::done;
use super::{Name, pointer, word};
use crate::{Call, Errno};
use rustix::fs::StatFs;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

operation! {
    /// The status of the file system that a file is on: its size, and what is free of it.
    ///
    /// ```
    /// use laio::ops::{Name, StatFileSystem};
    /// use laio::{Context, Options, Outcome};
    ///
    /// let mut context = Context::new(Options::new())?;
    /// let stat = StatFileSystem::named(Name::new(c"/"));
    /// let status = match context.submit(stat) {
    ///     Outcome::Done(status) => status?,
    ///     Outcome::Pending(ticket) => {
    ///         context.poll(&mut Vec::new(), None)?;
    ///         context.take(ticket).unwrap()?
    ///     }
    /// };
    /// let plain = rustix::fs::statvfs(c"/")?;
    /// assert_eq!(status.blocks(), plain.f_blocks);
    /// assert_eq!(status.fragment_size(), plain.f_frsize);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub struct StatFileSystem<F: AsFd = OwnedFd> {
        of: Of<F>,
        status: StatFs,
    }

    // SAFETY: the name is on the operation's heap, and the struct to fill is part of the operation.
    unsafe call(self) {
        let status = pointer(&mut self.status);
        match &self.of {
            Of::Open(file) => Call::new(libc::SYS_fstatfs, [word(file), status]),
            Of::Named(name) => Call::new(libc::SYS_statfs, [name.words().1, status]),
        }
    }

    /// The status. `ENOSYS` if the file system has none.
    finish(self, result) -> io::Result<FileSystemStatus> { status(result, self.status) }
}

/// The file whose file system is meant.
#[derive(Debug)]
enum Of<F> {
    Open(F),
    Named(Name<F>),
}

impl<F: AsFd> StatFileSystem<F> {
    /// Reads the status of the file system of an open file.
    pub fn new(file: F) -> Self {
        StatFileSystem::of(Of::Open(file))
    }

    /// Reads the status of the file system of the file `name`, following symbolic links.
    pub fn named(name: Name<F>) -> Self {
        StatFileSystem::of(Of::Named(name.without_directory()))
    }

    fn of(of: Of<F>) -> Self {
        // SAFETY: all fields are numbers, for which zero is a value.
        let status = unsafe { std::mem::zeroed() };
        StatFileSystem { of, status }
    }
}

fn status(result: Result<usize, Errno>, status: StatFs) -> io::Result<FileSystemStatus> {
    done(result)?;
    Ok(FileSystemStatus { status })
}

/// The status of a file system, as `statfs` reports it.
#[derive(Clone, Copy)]
pub struct FileSystemStatus {
    status: StatFs,
}

impl FileSystemStatus {
    /// The unit of the numbers of blocks, in bytes.
    pub fn fragment_size(&self) -> u64 {
        match self.status.f_frsize {
            // Old kernels have only the other.
            0 => self.block_size(),
            size => size as u64,
        }
    }

    /// The preferred transfer size in bytes.
    pub fn block_size(&self) -> u64 {
        self.status.f_bsize as u64
    }

    /// All blocks.
    pub fn blocks(&self) -> u64 {
        self.status.f_blocks
    }

    /// Free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.status.f_bfree
    }

    /// Blocks that are free for users without privileges.
    pub fn available_blocks(&self) -> u64 {
        self.status.f_bavail
    }

    /// All inodes.
    pub fn inodes(&self) -> u64 {
        self.status.f_files
    }

    /// Free inodes.
    pub fn free_inodes(&self) -> u64 {
        self.status.f_ffree
    }

    /// The flags of the mount: `ST_RDONLY` and the like.
    pub fn flags(&self) -> u64 {
        // The kernel marks the field as valid by a bit that is no flag.
        const VALID: u64 = 0x20;
        self.status.f_flags as u64 & !VALID
    }

    /// The maximum length of a name in bytes.
    pub fn name_max(&self) -> u64 {
        self.status.f_namelen as u64
    }

    /// The type: `EXT4_SUPER_MAGIC` and the like.
    pub fn magic(&self) -> u64 {
        self.status.f_type as u64
    }
}

impl fmt::Debug for FileSystemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSystemStatus")
            .field("magic", &self.magic())
            .field("fragment_size", &self.fragment_size())
            .field("blocks", &self.blocks())
            .field("available_blocks", &self.available_blocks())
            .finish_non_exhaustive()
    }
}
