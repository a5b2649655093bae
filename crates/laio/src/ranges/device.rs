//! What the kernel says about reading a file from the device: its block, a second descriptor with
//! `O_DIRECT`, and which pages are in the page cache.

use super::choice::{Direct, DirectReason, Pages, is_wanted};
use super::memory::ALIGNMENT;
use super::memory_size;
use super::plan::PIECE;
use crate::ops::{FileStatus, FileSystemStatus, Name, Open};
use crate::sys::raw;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// A descriptor for direct reads, and the block to which they are aligned.
#[derive(Clone, Debug)]
pub struct DeviceFile<F> {
    pub(super) file: F,
    pub(super) block: u64,
    /// It is the program's own descriptor, which does not read through the page cache either.
    pub(super) is_own: bool,
}

impl<F: AsFd> DeviceFile<F> {
    /// Whether both are the same descriptor.
    pub fn is_same(&self, other: &DeviceFile<F>) -> bool {
        self.file.as_fd().as_raw_fd() == other.file.as_fd().as_raw_fd()
    }
}

/// What is left to do for direct reads of a file.
#[derive(Debug)]
pub enum DeviceAccess<F> {
    /// Nothing: the program has opened the file with `O_DIRECT`.
    Own(DeviceFile<F>),
    /// To open it once more.
    Open(DeviceOpen),
    /// To ask for the status of its file system first ([`DeviceOpen::allowed`]): the file does not say
    /// whether it has direct reads.
    Ask(DeviceOpen),
}

/// How to open a file once more, for direct reads.
#[derive(Debug)]
pub struct DeviceOpen {
    flags: i32,
    number: RawFd,
    block: u64,
}

impl<F: AsFd + Clone> DeviceAccess<F> {
    /// Looks at an open file, of which this is the status.
    ///
    /// # Errors
    /// The reason not to read directly.
    pub fn new(file: &F, status: &FileStatus, direct: Direct) -> Result<Self, DirectReason> {
        is_wanted(direct, status.size(), memory_size::bytes())?;
        let fd = file.as_fd().as_raw_fd();
        let flags = rustix::fs::fcntl_getfl(file).map_err(|_| DirectReason::NoFile)?;
        let flags = flags.bits() as i32;
        let is_readable = flags & libc::O_ACCMODE != libc::O_WRONLY && flags & libc::O_PATH == 0;
        if !status.is_file() || !is_readable {
            return Err(DirectReason::NoFile);
        }
        let alignment = direct_alignment(fd);
        let block = match alignment {
            Alignment::None => return Err(DirectReason::FileSystem),
            Alignment::Block(block) => block,
            Alignment::Unknown => u64::from(status.block_size()),
        };
        // Memory begins on a page, and pieces are whole blocks.
        let block = block.max(ALIGNMENT as u64);
        if !PIECE.is_multiple_of(block) {
            return Err(DirectReason::FileSystem);
        }
        if flags & libc::O_DIRECT != 0 {
            let (file, is_own) = (file.clone(), true);
            return Ok(DeviceAccess::Own(DeviceFile {
                file,
                block,
                is_own,
            }));
        }
        let kept = flags & libc::O_NOATIME;
        let open = DeviceOpen {
            flags: libc::O_RDONLY | libc::O_DIRECT | libc::O_CLOEXEC | libc::O_NOCTTY | kept,
            number: fd,
            block,
        };
        Ok(match alignment {
            Alignment::Unknown => DeviceAccess::Ask(open),
            _ => DeviceAccess::Open(open),
        })
    }
}

impl DeviceOpen {
    /// Whether to open a file on this file system: not in memory; with [`Direct::Auto`] not on another
    /// machine, whose page cache saves the network.
    ///
    /// # Errors
    /// The reason not to read directly.
    pub fn allowed(&self, on: &FileSystemStatus, direct: Direct) -> Result<(), DirectReason> {
        if is_allowed(on.magic(), direct) {
            Ok(())
        } else {
            Err(DirectReason::FileSystem)
        }
    }

    /// The operation that opens it. The file must stay open until then.
    pub fn operation(&self) -> Open {
        let name = CString::new(format!("/proc/self/fd/{}", self.number));
        Open::new(Name::new(name.expect("no NUL")), self.flags)
    }

    /// The descriptor that the operation has returned.
    pub fn opened<F>(&self, file: F) -> DeviceFile<F> {
        DeviceFile {
            file,
            block: self.block,
            is_own: false,
        }
    }
}

fn is_allowed(magic: u64, direct: Direct) -> bool {
    const XFS: u64 = 0x5846_5342;
    const F2FS: u64 = 0xf2f5_2010;
    const RAMFS: u64 = 0x8584_58f6;
    const TMPFS: u64 = libc::TMPFS_MAGIC as u64;
    const EXT4: u64 = libc::EXT4_SUPER_MAGIC as u64;
    const BTRFS: u64 = libc::BTRFS_SUPER_MAGIC as u64;
    const HUGETLBFS: u64 = libc::HUGETLBFS_MAGIC as u64;
    match direct {
        Direct::Never => false,
        Direct::Auto => matches!(magic, EXT4 | XFS | BTRFS | F2FS),
        Direct::Always => !matches!(magic, TMPFS | RAMFS | HUGETLBFS),
    }
}

/// What `statx` says about direct reads of a file.
#[derive(Clone, Copy)]
enum Alignment {
    /// They are not possible.
    None,
    /// Offsets and lengths are multiples of this.
    Block(u64),
    /// Nothing: before Linux 6.1, and on some file systems.
    Unknown,
}

fn direct_alignment(fd: RawFd) -> Alignment {
    let mask = libc::STATX_DIOALIGN as usize;
    // What the kernel knows: this must not wait for a server.
    let how = (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC) as usize;
    let mut status = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the name is a static string, and the kernel writes the status, for which zero is a value.
    let status = unsafe {
        let (name, to) = (c"".as_ptr() as usize, status.as_mut_ptr() as usize);
        match raw(libc::SYS_statx, [fd as usize, name, how, mask, to]) {
            Ok(_) => status.assume_init(),
            Err(_) => return Alignment::Unknown,
        }
    };
    let (memory, offset) = (status.stx_dio_mem_align, status.stx_dio_offset_align);
    match status.stx_mask & libc::STATX_DIOALIGN != 0 {
        false => Alignment::Unknown,
        true if offset == 0 || memory as usize > ALIGNMENT => Alignment::None,
        true => Alignment::Block(offset.into()),
    }
}

/// Which pages of these bytes are in the page cache. Nothing before Linux 6.5, and where a filter forbids
/// to ask.
pub(super) fn pages(file: &impl AsFd, bytes: &Range<u64>) -> Pages {
    /// The same on all processors.
    const CACHESTAT: libc::c_long = 451;
    let page = rustix::param::page_size() as u64;
    let first = bytes.start / page;
    let count = bytes.end.div_ceil(page) - first;
    let range = [first * page, count * page];
    let mut found = [0u64; 5];
    let (fd, from, to) = (file.as_fd().as_raw_fd(), &raw const range, &raw mut found);
    // SAFETY: the kernel reads two numbers and writes five.
    let result = unsafe { raw(CACHESTAT, [fd as usize, from as usize, to as usize, 0]) };
    let [cached, dirty, written, ..] = found;
    match result {
        Ok(_) => Pages {
            all: cached >= count,
            dirty: dirty + written > 0,
        },
        Err(_) => Pages::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_in_memory_and_on_other_machines() {
        const NFS: u64 = libc::NFS_SUPER_MAGIC as u64;
        const TMPFS: u64 = libc::TMPFS_MAGIC as u64;
        const BTRFS: u64 = libc::BTRFS_SUPER_MAGIC as u64;
        assert!(is_allowed(BTRFS, Direct::Auto) && is_allowed(BTRFS, Direct::Always));
        assert!(!is_allowed(NFS, Direct::Auto) && is_allowed(NFS, Direct::Always));
        assert!(!is_allowed(TMPFS, Direct::Auto) && !is_allowed(TMPFS, Direct::Always));
        assert!(!is_allowed(BTRFS, Direct::Never));
    }
}
