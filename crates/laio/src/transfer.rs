//! Completing partial transfers: the rest of a transfer that stopped short, and when it is
//! complete.

use crate::background::after_open::AfterOpen;
use crate::knowledge::mounts::peek;
use crate::sys::abi;
use crate::sys::high_fd::HighFd;
use crate::table::{Attempt, Row, Transfer, Use};
use crate::{Call, Limits};

/// Memory of an operation that the kernel reads or writes while it runs. Boxed, so it never moves.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) vectors: Vec<libc::iovec>,
    pub(crate) message: abi::msghdr,
    pub(crate) time: io_uring::types::Timespec,
    pub(crate) how: libc::open_how,
    /// The FIFO or device that an attempt to open has opened. The plain open may block, so a helper
    /// makes it.
    pub(crate) provisional: Option<Provisional>,
    /// What the thread that opens a file finds out about it.
    pub(crate) after_open: Option<AfterOpen>,
}

/// A file whose open may block, so that a helper opens it again.
#[derive(Debug)]
pub(crate) enum Provisional {
    /// The open FIFO. It is closed when the operation's slot is freed: closing it before the helper
    /// has opened it again would let the peer see the reader disappear.
    Fifo(#[expect(dead_code, reason = "it is only kept open")] HighFd),
    /// A device. The attempt has closed it, because many devices can be opened only once.
    Device,
}

impl Default for Scratch {
    fn default() -> Self {
        // SAFETY: plain data, for which all zeros is a valid value.
        let message = unsafe { std::mem::zeroed() };
        Scratch {
            vectors: Vec::new(),
            message,
            time: io_uring::types::Timespec::new(),
            // SAFETY: as above.
            how: unsafe { std::mem::zeroed() },
            provisional: None,
            after_open: None,
        }
    }
}

/// The number of bytes (for arrays of messages: elements) that the call asks to move; `None` if a
/// transfer cannot be continued.
///
/// # Safety
/// The kernel has just accepted the call's pointers, so that they can be read.
pub(crate) unsafe fn wanted(row: &Row, call: &Call) -> Option<usize> {
    match row.transfer {
        Transfer::Whole => None,
        Transfer::Buffer { length, .. } => Some(call.args[length as usize].min(RW_COUNT_MAX)),
        Transfer::Vector { vector, count, .. } => {
            // SAFETY: by the caller.
            let vectors = unsafe { vectors(call.args[vector as usize], call.args[count as usize]) };
            Some(total(vectors))
        }
        Transfer::Message { header } => {
            // SAFETY: by the caller.
            let vectors = unsafe {
                let header = call.args[header as usize] as *const abi::msghdr;
                let header = header.read_unaligned();
                vectors(header.msg_iov as usize, header.msg_iovlen)
            };
            Some(total(vectors))
        }
        Transfer::Messages { count, .. } => Some(vector_count(call.args[count as usize])),
    }
}

/// The kernel's `MAX_RW_COUNT`: no transfer moves more at once, and the plain call stops there too.
pub(crate) const RW_COUNT_MAX: usize = 0x7fff_f000;

/// Whether only the plain call, which may block, has the semantics that the call asks for.
///
/// `read` and `write` of zero bytes do more than their vectored forms: they report errors and send
/// empty datagrams; and they check a length before it is limited to what can be moved at once. A
/// peek of all the requested bytes cannot be assembled from pieces, and neither can control
/// messages (descriptors may arrive with any piece). The time-out of `recvmmsg` counts from the
/// call. The ring accepts `MSG_CMSG_COMPAT`, the flag of
/// 32-bit programs, and then reads another struct.
pub(crate) fn only_plain(row: &Row, call: &Call) -> bool {
    match row.attempt {
        Attempt::NowaitRead | Attempt::NowaitWrite => row
            .transfer
            .length(call)
            .is_some_and(|length| !(1..=RW_COUNT_MAX).contains(&length)),
        Attempt::Dontwait(_) if matches!(row.transfer, Transfer::Messages { .. }) => {
            has_time(row, call)
        }
        Attempt::Dontwait(flags) => {
            let flags = call.args[flags as usize] as i32;
            let all_at_a_look = libc::MSG_PEEK | libc::MSG_WAITALL;
            let all = reads(row) && flags & libc::MSG_WAITALL != 0;
            flags & MSG_CMSG_COMPAT != 0
                || (all && (flags & all_at_a_look == all_at_a_look || receives_control(row, call)))
        }
        _ => false,
    }
}

/// Whether the call is a `read` or `readv` of at least one byte.
pub(crate) fn reads_bytes(row: &Row, call: &Call) -> bool {
    row.attempt == Attempt::NowaitRead && row.transfer.length(call) != Some(0)
}

/// Whether a receive has a buffer for control messages, or a header that cannot be read. The kernel
/// ends such a receive with the piece that the control messages arrive with, and overwrites the
/// buffer's length.
pub(crate) fn receives_control(row: &Row, call: &Call) -> bool {
    let Transfer::Message { header } = row.transfer else {
        return false;
    };
    if !reads(row) {
        return false;
    }
    let address = call.args[header as usize];
    if !crate::sys::memory::can_read(address, size_of::<abi::msghdr>()) {
        return true;
    }
    // SAFETY: plain data that can be read, aligned or not.
    let message = unsafe { (address as *const abi::msghdr).read_unaligned() };
    !message.msg_control.is_null()
}

/// The caller is a 32-bit program; a 64-bit one is refused with `EINVAL`.
const MSG_CMSG_COMPAT: i32 = i32::MIN;

/// Whether the call is a `recvmmsg` with a time-out.
fn has_time(row: &Row, call: &Call) -> bool {
    reads(row) && call.args[4] != 0
}

fn reads(row: &Row) -> bool {
    // Positioned reads are unordered on their descriptor.
    row.attempt == Attempt::NowaitRead
        || row.descriptors[0].is_some_and(|descriptor| descriptor.usage == Use::Read)
}

/// Whether the plain, blocking call would continue after a transfer that moved fewer bytes than
/// requested.
///
/// `regular`: the descriptor is a file, where a short read means the end of the file or of its
/// cached part; on a stream it means that no more data is available now.
pub(crate) fn continues(row: &Row, call: &Call, regular: bool) -> bool {
    match row.attempt {
        Attempt::NowaitRead => regular,
        Attempt::NowaitWrite => true,
        Attempt::Dontwait(flags) => {
            let flags = call.args[flags as usize] as i32;
            let messages = matches!(row.transfer, Transfer::Messages { .. });
            if flags & libc::MSG_DONTWAIT != 0 {
                return false;
            }
            match (reads(row), messages) {
                (true, true) => flags & libc::MSG_WAITFORONE == 0 && !has_time(row, call),
                (true, false) => flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0,
                (false, _) => true,
            }
        }
        _ => false,
    }
}

/// Whether a call that moves bytes of a file moves the file's position: those without an offset, and `preadv2` and
/// `pwritev2` with the offset -1.
pub(crate) fn uses_position(row: &Row, call: &Call) -> bool {
    let own_offset = match row.transfer {
        Transfer::Vector {
            offset: Some(offset),
            flags: Some(_),
            ..
        } => call.args[offset as usize] == usize::MAX,
        _ => false,
    };
    own_offset || row.class == crate::table::Class::Stream
}

/// Returns the call for the bytes after the first `done`.
///
/// # Safety
/// As for [`wanted`], if `done` is not 0. The result points into `scratch`.
pub(crate) unsafe fn remaining(
    row: &Row,
    call: &Call,
    done: usize,
    scratch: &mut Option<Box<Scratch>>,
) -> Call {
    let mut rest = *call;
    if done == 0 {
        return rest;
    }
    match row.transfer {
        Transfer::Whole => {}
        Transfer::Buffer {
            pointer,
            length,
            offset,
        } => {
            rest.args[pointer as usize] += done;
            rest.args[length as usize] = rest.args[length as usize].min(RW_COUNT_MAX) - done;
            advance_offset(&mut rest, offset, done);
        }
        Transfer::Vector {
            vector,
            count,
            offset,
            ..
        } => {
            let scratch = scratch.get_or_insert_default();
            // SAFETY: by the caller.
            let all = unsafe { vectors(call.args[vector as usize], call.args[count as usize]) };
            skip(all, done, &mut scratch.vectors);
            rest.args[vector as usize] = scratch.vectors.as_ptr() as usize;
            rest.args[count as usize] = scratch.vectors.len();
            advance_offset(&mut rest, offset, done);
        }
        Transfer::Message { header } => {
            let scratch = scratch.get_or_insert_default();
            // SAFETY: by the caller.
            unsafe {
                let header = call.args[header as usize] as *const abi::msghdr;
                scratch.message = header.read_unaligned();
                let all = vectors(scratch.message.msg_iov as usize, scratch.message.msg_iovlen);
                skip(all, done, &mut scratch.vectors);
            }
            scratch.message.msg_iov = scratch.vectors.as_mut_ptr();
            scratch.message.msg_iovlen = scratch.vectors.len() as _;
            // Control messages were sent with the first bytes; sending them again would duplicate
            // descriptors.
            scratch.message.msg_control = std::ptr::null_mut();
            scratch.message.msg_controllen = 0;
            rest.args[header as usize] = (&raw const scratch.message) as usize;
        }
        Transfer::Messages { array, count } => {
            rest.args[array as usize] += done * size_of::<libc::mmsghdr>();
            rest.args[count as usize] -= done;
        }
    }
    rest
}

fn advance_offset(call: &mut Call, offset: Option<u8>, done: usize) {
    // preadv2 takes -1 for the descriptor's own position, which has already moved.
    if let Some(offset) = offset.map(usize::from)
        && call.args[offset] as isize >= 0
    {
        call.args[offset] += done;
    }
}

/// The number of elements of an array of vectors: an unsigned int for the kernel.
fn vector_count(word: usize) -> usize {
    (word as u32 as usize).min(Limits::IOV_MAX)
}

/// The elements of an array, which need not be aligned.
///
/// # Safety
/// The array can be read.
unsafe fn vectors(address: usize, count: usize) -> impl Iterator<Item = libc::iovec> {
    let first = address as *const libc::iovec;
    // SAFETY: by the caller.
    (0..vector_count(count)).map(move |index| unsafe { first.add(index).read_unaligned() })
}

fn can_read_vectors(address: usize, count: usize) -> bool {
    let length = vector_count(count) * size_of::<libc::iovec>();
    crate::sys::memory::can_read(address, length)
}

/// A copy of an array of vectors; none if it cannot be read.
pub(crate) fn copied_vectors(address: usize, count: usize) -> Option<Vec<libc::iovec>> {
    // SAFETY: the array was found to be readable.
    can_read_vectors(address, count).then(|| unsafe { vectors(address, count) }.collect())
}

fn total(vectors: impl IntoIterator<Item = libc::iovec>) -> usize {
    vectors
        .into_iter()
        .fold(0, |sum: usize, vector| sum.saturating_add(vector.iov_len))
        .min(RW_COUNT_MAX)
}

/// Appends the vectors without their first `done` bytes to `rest`.
fn skip(all: impl IntoIterator<Item = libc::iovec>, mut done: usize, rest: &mut Vec<libc::iovec>) {
    rest.clear();
    for vector in all {
        let skipped = done.min(vector.iov_len);
        done -= skipped;
        if skipped < vector.iov_len {
            rest.push(libc::iovec {
                iov_base: vector.iov_base.wrapping_byte_add(skipped),
                iov_len: vector.iov_len - skipped,
            });
        }
    }
}

/// Limits a call to its first `bound` bytes, for fault injection. Only transfers that are continued
/// afterwards are limited: not datagrams and records, nor receives that return what is available.
///
/// # Safety
/// As for the system call.
pub(crate) unsafe fn shortened(
    row: &Row,
    call: &Call,
    bound: usize,
    scratch: &mut Option<Box<Scratch>>,
) -> Call {
    let mut short = *call;
    if !can_be_cut(row, call) {
        return short;
    }
    match row.transfer {
        Transfer::Buffer { length, .. } if !matches!(row.attempt, Attempt::Dontwait(_)) => {
            let length = &mut short.args[length as usize];
            *length = (*length).min(bound);
        }
        Transfer::Vector { vector, count, .. }
            if can_read_vectors(call.args[vector as usize], call.args[count as usize]) =>
        {
            let scratch = scratch.get_or_insert_default();
            // SAFETY: the array was found to be readable.
            let all = unsafe { vectors(call.args[vector as usize], call.args[count as usize]) };
            let mut kept = Vec::new();
            let mut left = bound;
            for vector in all {
                let length = vector.iov_len.min(left);
                kept.push(libc::iovec {
                    iov_base: vector.iov_base,
                    iov_len: length,
                });
                left -= length;
                if left == 0 {
                    break;
                }
            }
            scratch.vectors = kept;
            short.args[vector as usize] = scratch.vectors.as_ptr() as usize;
            short.args[count as usize] = scratch.vectors.len();
        }
        _ => {}
    }
    short
}

fn can_be_cut(row: &Row, call: &Call) -> bool {
    let fd = call.descriptor(0);
    let kind = peek(fd).map_or(0, |status| u32::from(status.stx_mode) & libc::S_IFMT);
    match kind {
        libc::S_IFREG | libc::S_IFBLK => true,
        libc::S_IFIFO => !reads(row),
        libc::S_IFSOCK => !reads(row) && crate::sys::is_stream_socket(fd),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn a_buffer_goes_on_behind_what_was_moved() {
        let call = Call::new(libc::SYS_pread64, [3, 1000, 100, 5000]);
        let row = table::row(call.number);
        // SAFETY: a plain buffer is not read.
        let rest = unsafe { remaining(row, &call, 40, &mut None) };
        assert_eq!(rest.args[..4], [3, 1040, 60, 5040]);
        assert!(continues(row, &call, true));
    }

    #[test]
    fn vectors_skip_whole_and_partial_elements() {
        let parts = [(0x1000, 10), (0x2000, 0), (0x3000, 20), (0x4000, 30)];
        let all = parts.map(|(base, iov_len)| libc::iovec {
            iov_base: base as *mut _,
            iov_len,
        });
        let mut rest = Vec::new();
        skip(all, 15, &mut rest);
        let rest: Vec<_> = rest
            .iter()
            .map(|v| (v.iov_base as usize, v.iov_len))
            .collect();
        assert_eq!(rest, [(0x3005, 15), (0x4000, 30)]);
        assert_eq!(total(all), 60);
    }
}
