//! The storage class of a file system: how long calls on it may block.

use super::handles::Handle;

/// How long calls on a file system may block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StorageClass {
    /// Memory: calls do not block, except for swapped pages.
    Memory,
    /// A local device: calls block for the device only.
    Device,
    /// Possibly a remote file system, which may never answer.
    #[default]
    Unknown,
}

const TMPFS: u64 = libc::TMPFS_MAGIC as u64;
const EXT4: u64 = libc::EXT4_SUPER_MAGIC as u64;
const XFS: u64 = libc::XFS_SUPER_MAGIC as u64;
const BTRFS: u64 = libc::BTRFS_SUPER_MAGIC as u64;
const RAMFS: u64 = 0x8584_58f6;
const F2FS: u64 = 0xf2f5_2010;

impl StorageClass {
    /// The storage class of the file system that a directory is on.
    pub(crate) fn for_directory(directory: &Handle) -> StorageClass {
        let Ok(status) = rustix::fs::fstatfs(directory) else {
            return StorageClass::Unknown;
        };
        // The kernel's numbers have 32 bits; `f_type` differs between architectures.
        match u64::from(status.f_type as u32) {
            TMPFS | RAMFS => StorageClass::Memory,
            EXT4 | XFS | BTRFS | F2FS => StorageClass::Device,
            _ => StorageClass::Unknown,
        }
    }
}
