//! The type of the file system that a file is on.

use laio_rt::Descriptor;

/// Whether a file is on a file system of one of these types, as the mount table names them.
pub(crate) fn is_on_one_of(types: &[&str], file: &Descriptor) -> bool {
    laio_rt::with_context(|context| {
        let mount = context.mount_of(file);
        mount.is_some_and(|mount| types.contains(&&mount.fstype[..]))
    })
}
