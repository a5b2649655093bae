//! The type of the file system that a file is on.

use laio_rt::Descriptor;

/// Whether a file is on a file system of one of these types, as the mount table names them.
pub(crate) fn is_on_one_of(types: &[&str], file: &Descriptor) -> bool {
    laio_rt::with_context(|context| {
        let mount = context.mount_of(file);
        mount.is_some_and(|mount| types.contains(&&mount.fstype[..]))
    })
}

/// Whether a file is on one of the file system types that other machines do not share: all changes and locks pass
/// through this kernel. On network and FUSE file systems, other clients can change a file without an inotify event.
pub(crate) fn is_local(file: &Descriptor) -> bool {
    const TYPES: [&str; 12] = [
        "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "tmpfs", "overlay", "squashfs",
        "erofs", "iso9660",
    ];
    is_on_one_of(&TYPES, file)
}
