//! The status of a file, as the bytes from which JavaScript makes an object.

use laio::ops::{FileStatus, Timestamp};

/// The number of fields.
const FIELDS: usize = 18;

pub(crate) type Bytes = [u8; 8 * FIELDS];

/// Eighteen numbers of 64 bits, in the order of Node's own binding: device, mode, links, user, group,
/// represented device, block size, inode, size, blocks, and seconds and nanoseconds of the last access, the
/// last modification, the last change and the creation.
pub(crate) fn to_bytes(status: &FileStatus) -> Bytes {
    let times = [
        status.accessed(),
        status.modified(),
        status.changed(),
        // As Node shows it where the file system does not record it.
        status.created().unwrap_or_default(),
    ];
    let mut fields = [0; FIELDS];
    fields[..10].copy_from_slice(&[
        status.device(),
        status.mode().into(),
        status.links().into(),
        status.user().into(),
        status.group().into(),
        status.represented_device(),
        status.block_size().into(),
        status.inode(),
        status.size(),
        status.blocks(),
    ]);
    for (pair, time) in fields[10..].chunks_exact_mut(2).zip(times) {
        let Timestamp {
            seconds,
            nanoseconds,
        } = time;
        pair.copy_from_slice(&[seconds.cast_unsigned(), nanoseconds.into()]);
    }
    let mut bytes = [0; 8 * FIELDS];
    for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
    bytes
}
