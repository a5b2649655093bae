//! The status of a file, as the bytes from which JavaScript makes an object.

use laio::ops::{FileStatus, Timestamp};
use std::array;

/// The number of whole fields, and the number of floating-point ones.
const FIELDS: usize = 18;
const NUMBERS: usize = 14;
/// The number of fields that are no times.
const PLAIN: usize = 10;

pub(crate) type Bytes = [u8; 8 * (FIELDS + NUMBERS)];

/// First what most programs want, fourteen floating-point numbers: device, mode, links, user, group,
/// represented device, block size, inode, size, blocks, and the times of the last access, the last
/// modification, the last change and the creation in milliseconds. Then eighteen whole numbers of 64 bits,
/// in the order of Node's own binding: the same, with seconds and nanoseconds of each time.
pub(crate) fn to_bytes(status: &FileStatus) -> Bytes {
    let mut bytes = [0; size_of::<Bytes>()];
    write(status, &mut bytes);
    bytes
}

/// Writes the bytes of [`to_bytes`] to the start of `memory`, and returns their number.
pub(crate) fn write(status: &FileStatus, memory: &mut [u8]) -> usize {
    let plain: [u64; PLAIN] = [
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
    ];
    let times = [
        status.accessed(),
        status.modified(),
        status.changed(),
        // As Node shows it where the file system does not record it.
        status.created().unwrap_or_default(),
    ];
    let numbers = array::from_fn(|i| match i.checked_sub(PLAIN) {
        None => (plain[i] as f64).to_bits(),
        Some(time) => milliseconds(times[time]).to_bits(),
    });
    let fields = array::from_fn(|i| match i.checked_sub(PLAIN) {
        None => plain[i],
        Some(i) if i % 2 == 0 => times[i / 2].seconds.cast_unsigned(),
        Some(i) => times[i / 2].nanoseconds.into(),
    });
    let (first, second) = memory.split_at_mut(8 * NUMBERS);
    fill::<NUMBERS>(first, numbers);
    fill::<FIELDS>(second, fields);
    size_of::<Bytes>()
}

fn milliseconds(time: Timestamp) -> f64 {
    time.seconds as f64 * 1e3 + f64::from(time.nanoseconds) / 1e6
}

fn fill<const N: usize>(memory: &mut [u8], fields: [u64; N]) {
    for (place, field) in memory[..8 * N].chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
}
