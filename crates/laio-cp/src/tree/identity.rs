//! The identity of a file: its device and inode numbers.

use laio_rt::fs::Metadata;

/// Device and inode number.
pub(crate) type Identity = (u64, u64);

/// Returns the identity of a file. All hard links of a file have the same.
pub(crate) fn identity(status: &Metadata) -> Identity {
    (status.device(), status.inode())
}
