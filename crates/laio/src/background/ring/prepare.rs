//! Submission entries: from a step of an operation to its SQE.

use super::setup::Opcodes;
use super::{Ring, opened, workers};
use crate::attempt::Why;
use crate::operations::{Direction, InFlight};
use crate::sys::memory::can_read;
use crate::table::{Class, Opcode, Row, Transfer};
use crate::transfer::Scratch;
use crate::{Call, Errno, Handle, Limits};
use io_uring::{opcode, squeue, types};
use std::os::fd::RawFd;

impl Ring {
    /// Queues a step of an operation. Returns false if no operation of the ring makes this call.
    /// `in_worker`: not even tried on the submitting thread.
    pub(in crate::background) fn start(
        &mut self,
        operation: &mut InFlight,
        handle: Handle,
        call: &Call,
        why: Why,
        in_worker: bool,
    ) -> Result<bool, Errno> {
        let row = operation.row;
        let call = &if self.trust_names {
            *call
        } else {
            opened::without_waiting(row, call, &mut operation.scratch)
        };
        let stream = row.class == Class::Stream && !operation.regular;
        // A typed operation may say of any call that it is expected to block or is a zero-copy send.
        let no_address = call.args[4] == 0;
        let prepared = match row.opcode {
            Some(Opcode::Recv) if no_address && stream && why == Why::ExpectedToBlock => {
                poll_first(call, self.opcodes())
            }
            Some(Opcode::Send) if no_address && operation.zero_copy => {
                zero_copy(call, self.opcodes())
            }
            _ => entry(row, call, &mut operation.scratch, self.opcodes()),
        };
        let Some(mut entry) = prepared else {
            return Ok(false);
        };
        if in_worker {
            entry = force_async(entry);
        }
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered; scratch memory lives as long as the operation.
        unsafe { self.push(entry, handle.to_raw())? };
        if workers::occupies_one(row) {
            operation.ring_epoch = self.workers.begin();
        }
        self.on_files += u32::from(workers::may_need_one(row, operation.regular));
        if operation.rights.is_some() || counts_from_submission(row, call) {
            // Submitting now fixes the thread's credentials. An entry that the kernel does not take
            // stays queued; the next poll reports errors.
            let _ = self.submit();
        }
        Ok(true)
    }

    /// Queues a poll of a descriptor for an operation.
    pub(in crate::background) fn start_poll(
        &mut self,
        handle: Handle,
        fd: RawFd,
        direction: Direction,
    ) -> Result<(), Errno> {
        let entry = readiness(fd, direction);
        // SAFETY: the entry points to nothing.
        unsafe { self.push(entry, handle.to_raw()) }
    }
}

/// Returns the SQE for a read into one buffer; `None` for any other call. It points to the call's memory
/// only.
pub(crate) fn read_entry(row: &Row, call: &Call) -> Option<squeue::Entry> {
    if row.opcode? != Opcode::Read {
        return None;
    }
    let (pointer, length, offset) = buffer(row.transfer, call)?;
    let fd = types::Fd(call.descriptor(0));
    let read = opcode::Read::new(fd, pointer as *mut u8, length);
    Some(read.offset(offset).build())
}

/// Returns the SQE for a call, or `None` if no io_uring operation gives the same result for this
/// call with these arguments. The SQE may point into `scratch`.
#[inline]
fn entry(
    row: &Row,
    call: &Call,
    scratch: &mut Option<Box<Scratch>>,
    opcodes: &Opcodes,
) -> Option<squeue::Entry> {
    let args = &call.args;
    let fd = types::Fd(args[0] as i32);
    let entry = match row.opcode? {
        Opcode::Read => read_entry(row, call)?,
        Opcode::Write => {
            let (pointer, length, offset) = buffer(row.transfer, call)?;
            opcode::Write::new(fd, pointer as *const u8, length)
                .offset(offset)
                .build()
        }
        Opcode::ReadV => {
            let (vector, count, offset, flags) = vector(row.transfer, call)?;
            opcode::Readv::new(fd, vector, count)
                .offset(offset)
                .rw_flags(flags)
                .build()
        }
        Opcode::WriteV => {
            let (vector, count, offset, flags) = vector(row.transfer, call)?;
            opcode::Writev::new(fd, vector, count)
                .offset(offset)
                .rw_flags(flags)
                .build()
        }
        // The ring operations have no address; such calls wait for readiness.
        Opcode::Recv if args[4] != 0 => return None,
        Opcode::Send if args[4] != 0 => return None,
        Opcode::Recv => {
            let (pointer, length, _) = buffer(row.transfer, call)?;
            opcode::Recv::new(fd, pointer as *mut u8, length)
                .flags(ring_flags(args[3]))
                .build()
        }
        Opcode::Send => {
            let (pointer, length, _) = buffer(row.transfer, call)?;
            opcode::Send::new(fd, pointer as *const u8, length)
                .flags(ring_flags(args[3]))
                .build()
        }
        Opcode::RecvMsg => opcode::RecvMsg::new(fd, args[1] as *mut _)
            .flags(ring_flags(args[2]) as u32)
            .build(),
        Opcode::SendMsg => opcode::SendMsg::new(fd, args[1] as *const _)
            .flags(ring_flags(args[2]) as u32)
            .build(),
        Opcode::Accept => {
            if !may_be_length(args) {
                return None;
            }
            opcode::Accept::new(fd, args[1] as *mut _, args[2] as *mut _)
                .flags(row.flags_of(call))
                .build()
        }
        Opcode::Connect => opcode::Connect::new(fd, args[1] as *const _, args[2] as _).build(),
        Opcode::Close => opcode::Close::new(fd).build(),
        Opcode::Fsync => {
            let flags = types::FsyncFlags::from_bits_retain(row.implied);
            opcode::Fsync::new(fd).flags(flags).build()
        }
        Opcode::Fallocate => opcode::Fallocate::new(fd, args[3] as u64)
            .mode(args[1] as i32)
            .offset(args[2] as u64)
            .build(),
        Opcode::Ftruncate => opcode::Ftruncate::new(fd, args[1] as u64).build(),
        Opcode::SyncFileRange => opcode::SyncFileRange::new(fd, u32::try_from(args[2]).ok()?)
            .offset(args[1] as u64)
            .flags(args[3] as u32)
            .build(),
        Opcode::Fadvise => opcode::Fadvise::new(fd, u32_of(args[2])?.into(), args[3] as i32)
            .offset(args[1] as u64)
            .build(),
        Opcode::Madvise => {
            let length = u32_of(args[1])?.into();
            opcode::Madvise::new(args[0] as *const _, length, args[2] as i32).build()
        }
        Opcode::Splice => splice(args)?,
        Opcode::Tee => opcode::Tee::new(fd, types::Fd(args[1] as i32), u32_of(args[2])?)
            .flags(args[3] as u32)
            .build(),
        Opcode::Timeout => timeout(row, call, scratch)?,
        Opcode::WaitId => waitid(args)?,
        Opcode::OpenAt
        | Opcode::OpenAt2
        | Opcode::Statx
        | Opcode::RenameAt
        | Opcode::UnlinkAt
        | Opcode::MkdirAt
        | Opcode::SymlinkAt
        | Opcode::LinkAt => by_name(row, call)?,
        Opcode::GetXattr => opcode::GetXattr::new(
            path(args[1]),
            args[2] as *mut _,
            path(args[0]),
            u32_of(args[3])?,
        )
        .build(),
        Opcode::SetXattr => opcode::SetXattr::new(
            path(args[1]),
            args[2] as *const _,
            path(args[0]),
            u32_of(args[3])?,
        )
        .flags(args[4] as i32)
        .build(),
        Opcode::FgetXattr => {
            let size = u32_of(args[3])?;
            opcode::FGetXattr::new(fd, path(args[1]), args[2] as *mut _, size).build()
        }
        Opcode::FsetXattr => {
            opcode::FSetXattr::new(fd, path(args[1]), args[2] as *const _, u32_of(args[3])?)
                .flags(args[4] as i32)
                .build()
        }
        // Instant calls, which every back end with a ring makes inline.
        Opcode::Bind
        | Opcode::EpollCtl
        | Opcode::Listen
        | Opcode::PollAdd
        | Opcode::Shutdown
        | Opcode::Socket => return None,
    };
    opcodes.has(entry.get_opcode() as u8).then_some(entry)
}

/// Returns the flags of a transfer on a socket without `MSG_WAITALL`. With it the ring assembles
/// the pieces itself, and before Linux 6.1 loses the received bytes when the operation is cancelled
/// or the socket is in non-blocking mode. Instead the engine continues until all bytes are there;
/// see [`crate::transfer::continues`].
fn ring_flags(flags: usize) -> i32 {
    flags as i32 & !libc::MSG_WAITALL
}

/// Returns the SQE for a receive that is expected to block: with `IORING_RECVSEND_POLL_FIRST` the
/// ring makes no attempt either (Linux 5.19, detected by an opcode of the same version).
fn poll_first(call: &Call, opcodes: &Opcodes) -> Option<squeue::Entry> {
    const POLL_FIRST: u16 = 1;
    let args = &call.args;
    let length = args[2].min(0x7fff_f000) as u32;
    let wait = if opcodes.has(opcode::Socket::CODE) {
        POLL_FIRST
    } else {
        0
    };
    let entry = opcode::Recv::new(types::Fd(args[0] as i32), args[1] as *mut u8, length)
        .flags(ring_flags(args[3]))
        .ioprio(wait)
        .build();
    opcodes.has(opcode::Recv::CODE).then_some(entry)
}

/// Returns the SQE for a zero-copy send (Linux 6.0).
///
/// It asks the kernel to report copies (6.2) only if an opcode of Linux 6.7 exists: no earlier
/// opcode indicates that support.
fn zero_copy(call: &Call, opcodes: &Opcodes) -> Option<squeue::Entry> {
    const REPORT_USAGE: u16 = 1 << 3;
    let args = &call.args;
    let length = args[2].min(0x7fff_f000) as u32;
    let report = if opcodes.has(opcode::FutexWait::CODE) {
        REPORT_USAGE
    } else {
        0
    };
    let entry = opcode::SendZc::new(types::Fd(args[0] as i32), args[1] as *const u8, length)
        .flags(ring_flags(args[3]))
        .zc_flags(report)
        .build();
    opcodes.has(opcode::SendZc::CODE).then_some(entry)
}

/// Returns a poll SQE that completes when a descriptor is ready.
fn readiness(fd: RawFd, direction: Direction) -> squeue::Entry {
    let events = match direction {
        Direction::Read => libc::POLLIN | libc::POLLRDHUP,
        Direction::Write => libc::POLLOUT,
    };
    opcode::PollAdd::new(types::Fd(fd), events as u32).build()
}

/// Sets `IOSQE_ASYNC`: an io_uring worker makes the operation, without an attempt on the submitting
/// thread.
fn force_async(entry: squeue::Entry) -> squeue::Entry {
    entry.flags(squeue::Flags::ASYNC)
}

/// The largest user address space of any architecture (x86-64 with five levels of page tables).
const USER_SPACE_MAX: usize = 1 << 56;

/// The memory that an argument points to, or `None` if it cannot be read, which the plain call then
/// reports.
fn readable<'a, T>(address: usize, count: usize) -> Option<&'a [T]> {
    let usable = address.is_multiple_of(align_of::<T>())
        && (1..=Limits::IOV_MAX).contains(&count)
        && can_read(address, count * size_of::<T>());
    // SAFETY: aligned plain data that can be read, and belongs to the operation.
    usable.then(|| unsafe { std::slice::from_raw_parts(address as *const T, count) })
}

/// Whether `accept` can write the address. Otherwise it fails after it has taken the connection,
/// and the ring's error could not be distinguished from "not supported", after which the call would
/// be repeated.
fn may_be_length(args: &[usize; 6]) -> bool {
    args[1] == 0 || readable::<libc::c_int>(args[2], 1).is_some_and(|length| length[0] >= 0)
}

fn path(address: usize) -> *const libc::c_char {
    address as *const _
}

fn u32_of(word: usize) -> Option<u32> {
    u32::try_from(word).ok()
}

/// Address, length and offset (-1 for the descriptor's own position).
fn buffer(transfer: Transfer, call: &Call) -> Option<(usize, u32, u64)> {
    let Transfer::Buffer {
        pointer,
        length,
        offset,
    } = transfer
    else {
        return None;
    };
    let length = call.args[length as usize].min(0x7fff_f000) as u32;
    Some((
        call.args[pointer as usize],
        length,
        position(call, offset, false)?,
    ))
}

fn vector(transfer: Transfer, call: &Call) -> Option<(*const libc::iovec, u32, u64, i32)> {
    let Transfer::Vector {
        vector,
        count,
        offset,
        flags,
    } = transfer
    else {
        return None;
    };
    // The plain call moves nothing for an empty array, while the ring would send an empty datagram.
    let count = call.args[count as usize] as u32 as usize;
    let elements = readable::<libc::iovec>(call.args[vector as usize], count)?;
    // The ring checks addresses beyond user space in another order.
    let reaches = |element: &libc::iovec| element.iov_base.addr().saturating_add(element.iov_len);
    if elements.iter().all(|element| element.iov_len == 0)
        || elements
            .iter()
            .any(|element| reaches(element) > USER_SPACE_MAX)
    {
        return None;
    }
    let count = elements.len() as u32;
    let position = position(call, offset, flags.is_some())?;
    let flags = flags.map_or(0, |flags| call.args[flags as usize] as i32);
    Some((
        call.args[vector as usize] as *const _,
        count,
        position,
        flags,
    ))
}

/// For `pread64` a negative offset is an error, for `preadv2` -1 is the descriptor's own position, and
/// for the ring it always is the latter.
fn position(call: &Call, offset: Option<u8>, own_position: bool) -> Option<u64> {
    let Some(offset) = offset else {
        return Some(u64::MAX);
    };
    let offset = call.args[offset as usize] as i64;
    (offset >= 0 || (own_position && offset == -1)).then_some(offset as u64)
}

fn splice(args: &[usize; 6]) -> Option<squeue::Entry> {
    // The ring takes offsets by value and does not write them back.
    if args[1] != 0 || args[3] != 0 {
        return None;
    }
    let (from, to) = (types::Fd(args[0] as i32), types::Fd(args[2] as i32));
    let entry = opcode::Splice::new(from, -1, to, -1, u32_of(args[4])?).flags(args[5] as u32);
    Some(entry.build())
}

fn timeout(row: &Row, call: &Call, scratch: &mut Option<Box<Scratch>>) -> Option<squeue::Entry> {
    use types::TimeoutFlags as Flags;
    let args = &call.args;
    let absolute = row.flags_of(call) & libc::TIMER_ABSTIME != 0;
    let (clock, request) = match row.flags {
        Some(_) => (args[0] as i32, args[2]),
        // nanosleep
        None => (libc::CLOCK_MONOTONIC, args[0]),
    };
    let mut flags = match clock {
        libc::CLOCK_MONOTONIC => Flags::empty(),
        libc::CLOCK_BOOTTIME => Flags::BOOTTIME,
        // A relative sleep is not affected by setting the clock.
        libc::CLOCK_REALTIME if !absolute => Flags::empty(),
        libc::CLOCK_REALTIME => Flags::REALTIME,
        _ => return None,
    };
    // The ring adds surplus nanoseconds to the seconds, where the plain call refuses them; a
    // negative time is refused too.
    let [time] = readable::<libc::timespec>(request, 1)? else {
        return None;
    };
    if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
        return None;
    }
    let mut place = request as *const types::Timespec;
    if absolute && clock == libc::CLOCK_REALTIME {
        // CLOCK_REALTIME has no namespaces, and can be set.
        flags |= Flags::ABS;
    } else if absolute {
        let scratch = scratch.get_or_insert_default();
        scratch.time = left_until(clock, time);
        place = &raw const scratch.time;
    }
    Some(opcode::Timeout::new(place).flags(flags).build())
}

/// Returns the time from now to a point in time, in the caller's time namespace. The ring would use
/// the host's clock instead (Linux 6.18).
fn left_until(clock: i32, point: &libc::timespec) -> types::Timespec {
    use rustix::time::{ClockId, clock_gettime};
    let now = match clock {
        libc::CLOCK_BOOTTIME => clock_gettime(ClockId::Boottime),
        _ => clock_gettime(ClockId::Monotonic),
    };
    let nanoseconds =
        |seconds: i64, part: i64| i128::from(seconds) * 1_000_000_000 + i128::from(part);
    let left = nanoseconds(point.tv_sec, point.tv_nsec) - nanoseconds(now.tv_sec, now.tv_nsec);
    let left = left.max(0);
    types::Timespec::new()
        .sec(u64::try_from(left / 1_000_000_000).unwrap_or(u64::MAX))
        .nsec((left % 1_000_000_000) as u32)
}

/// Whether the time of the entry counts from its submission.
fn counts_from_submission(row: &Row, call: &Call) -> bool {
    row.opcode == Some(Opcode::Timeout) && row.flags_of(call) & libc::TIMER_ABSTIME != 0
}

fn waitid(args: &[usize; 6]) -> Option<squeue::Entry> {
    // The ring operation reports no resource usage.
    if args[4] != 0 {
        return None;
    }
    let entry = opcode::WaitId::new(args[0] as _, args[1] as _, args[3] as _);
    Some(entry.infop(args[2] as *mut _).build())
}

/// The entry of a call that names a file. The ring has the `at` forms only.
fn by_name(row: &Row, call: &Call) -> Option<squeue::Entry> {
    let args = &call.args;
    let here = types::Fd(libc::AT_FDCWD);
    let at = |arg: u8| types::Fd(args[arg as usize] as i32);
    let text = |arg: u8| path(args[arg as usize]);
    let name = row.file?;
    let (directory, file, after) = (
        name.directory.map_or(here, at),
        text(name.path),
        name.path as usize + 1,
    );
    let flags = row.flags_of(call);
    let second = || {
        let name = row.second_name()?;
        Some((name.directory.map_or(here, at), text(name.path)))
    };
    Some(match row.opcode? {
        Opcode::OpenAt => opcode::OpenAt::new(directory, file)
            .flags(flags)
            .mode(args[after + 1] as libc::mode_t)
            .build(),
        Opcode::OpenAt2 => {
            // Another size is another version of the struct.
            if args[3] != size_of::<libc::open_how>() {
                return None;
            }
            opcode::OpenAt2::new(directory, file, args[2] as *const _).build()
        }
        Opcode::Statx => opcode::Statx::new(directory, file, args[4] as *mut _)
            .flags(flags)
            .mask(args[3] as u32)
            .build(),
        Opcode::RenameAt => {
            let (to, new) = second()?;
            opcode::RenameAt::new(directory, file, to, new)
                .flags(flags as u32)
                .build()
        }
        Opcode::LinkAt => {
            let (to, new) = second()?;
            opcode::LinkAt::new(directory, file, to, new)
                .flags(flags)
                .build()
        }
        Opcode::UnlinkAt => opcode::UnlinkAt::new(directory, file).flags(flags).build(),
        Opcode::MkdirAt => opcode::MkDirAt::new(directory, file)
            .mode(args[after] as libc::mode_t)
            .build(),
        // The target is the first argument.
        Opcode::SymlinkAt => opcode::SymlinkAt::new(directory, text(0), file).build(),
        _ => return None,
    })
}
