//! The type of the file system that a file is on.

use laio::Mount;
use laio::ops::FileStatus;
use laio_rt::Descriptor;

/// Whether a file system is of one of these types, as the mount table names them.
fn is_one_of(types: &[&str], mount: Option<&Mount>) -> bool {
    mount.is_some_and(|mount| types.contains(&&mount.fstype[..]))
}

/// Whether a file is on one of the file system types that other machines do not share: all changes and locks pass
/// through this kernel. On network and FUSE file systems, other clients can change a file without an inotify event.
pub(crate) fn is_local(file: &Descriptor) -> bool {
    const TYPES: [&str; 12] = [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "tmpfs", "overlay", "squashfs",
        "erofs", "iso9660",
    ];
    laio_rt::with_context(|context| is_one_of(&TYPES, context.mount_of(file)))
}

/// The file system types whose page cache keeps what was read, and whose `sendfile` takes no lock of the
/// file. (XFS takes one, which a writer may hold while it waits; the files below an overlay may be on any
/// type; tmpfs has no non-blocking read.)
const KEEPING: [&str; 9] = [
    "ext2", "ext3", "ext4", "btrfs", "f2fs", "bcachefs", "squashfs", "erofs", "iso9660",
];

/// Whether the file is on a file system of such a type.
pub(crate) fn keeps_what_was_read(file: &Descriptor) -> bool {
    laio_rt::with_context(|context| is_one_of(&KEEPING, context.mount_of(file)))
}

/// Whether the file with this status is.
pub(crate) fn keeps_what_was_read_by(status: &FileStatus) -> bool {
    laio_rt::with_context(|context| is_one_of(&KEEPING, context.mount_of_status(status)))
}
