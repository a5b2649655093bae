//! Attempts that move bytes: `preadv2` and `pwritev2` with `RWF_NOWAIT`, and `MSG_DONTWAIT`.

use super::{Attempted, Why};
use crate::knowledge::Knowledge;
use crate::knowledge::mounts::{FileKind, NowaitKind, Place};
use crate::sys::memory::can_read;
use crate::table::{self, Attempt, FastCall, Row, Transfer, Use};
use crate::transfer::{
    RW_COUNT_MAX, continues, only_plain, remaining, shortened, uses_position, wanted,
};
use crate::{Call, Errno, Limits, sys};
use std::os::fd::RawFd;

impl Knowledge {
    /// The fast path: an attempt of a single system call, for the calls that event-driven programs
    /// make most ([`FastCall`]), while no operation is in flight on the descriptor, so that there is
    /// no order to keep. Returns `None` if the call must take the slow path.
    ///
    /// # Safety
    /// As for the system call.
    #[inline(always)]
    pub(crate) unsafe fn try_fast(
        &mut self,
        fast_call: FastCall,
        call: &Call,
    ) -> Option<Attempted> {
        let args = &call.args;
        let allowed = match fast_call {
            FastCall::ReadAt | FastCall::WriteAt => self.fast_paths.files && args[3] as isize >= 0,
            _ => self.fast_paths.streams,
        };
        let kind = match fast_call {
            FastCall::Read | FastCall::ReadAt => Some(NowaitKind::Reads),
            FastCall::Write | FastCall::WriteAt => Some(NowaitKind::Writes),
            FastCall::Recv | FastCall::Send => None,
        };
        let length = args[2];
        if !allowed
            || !(1..=RW_COUNT_MAX).contains(&length)
            || !kind.is_none_or(|kind| self.nowait_is_usual(call.descriptor(0), kind))
        {
            return None;
        }
        let vector = libc::iovec {
            iov_base: args[1] as *mut _,
            iov_len: length,
        };
        let nowait = |number, offset| {
            let address = (&raw const vector) as usize;
            let flags = libc::RWF_NOWAIT as usize;
            // SAFETY: the vector lives through the call; the buffer is the caller's.
            unsafe { sys::raw(number, [args[0], address, 1, offset, 0, flags]) }
        };
        let dontwait = || {
            let flags = args[3] | libc::MSG_DONTWAIT as usize;
            let all = [args[0], args[1], length, flags, args[4], args[5]];
            // SAFETY: by the caller.
            unsafe {
                sys::syscall(&Call {
                    number: call.number,
                    args: all,
                })
            }
        };
        let result = match fast_call {
            FastCall::Read => nowait(libc::SYS_preadv2, usize::MAX),
            FastCall::ReadAt => nowait(libc::SYS_preadv2, args[3]),
            FastCall::Write => nowait(libc::SYS_pwritev2, usize::MAX),
            FastCall::WriteAt => nowait(libc::SYS_pwritev2, args[3]),
            FastCall::Recv | FastCall::Send => dontwait(),
        };
        let is_final = match fast_call {
            // A receive without MSG_WAITALL is complete with whatever was available.
            FastCall::Recv => result.is_ok() && args[3] & libc::MSG_WAITALL as usize == 0,
            _ => result == Ok(length),
        };
        Some(if is_final {
            Attempted::Done(result)
        } else {
            // SAFETY: by the caller.
            unsafe { self.attempt_from(call, result) }
        })
    }

    /// Continues an attempt from the result of the fast path's system call.
    ///
    /// # Safety
    /// As for the system call.
    #[cold]
    unsafe fn attempt_from(&mut self, call: &Call, first: Result<usize, Errno>) -> Attempted {
        let row = table::row(call.number);
        // SAFETY: by the caller.
        unsafe {
            match row.attempt {
                Attempt::NowaitRead => self.nowait_from(row, call, NowaitKind::Reads, Some(first)),
                Attempt::NowaitWrite => {
                    self.nowait_from(row, call, NowaitKind::Writes, Some(first))
                }
                Attempt::Dontwait(flags) => self.dontwait_from(row, call, flags, first),
                _ => unreachable!("a fast call has one of these attempts"),
            }
        }
    }

    /// Whether the file system is not known to refuse the attempt, and the descriptor is known not to
    /// use direct I/O.
    #[inline]
    fn nowait_is_usual(&self, fd: i32, kind: NowaitKind) -> bool {
        let refuses = |mount| self.mounts.get(mount).refuses(kind);
        self.hints.not_direct_io(fd) && !self.hints.mount(fd).is_some_and(refuses)
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn nowait(&mut self, row: &Row, call: &Call, kind: NowaitKind) -> Attempted {
        let fd = call.descriptor(0);
        if !self.facts.nowait {
            return Attempted::blocked(0, Why::Unsupported);
        }
        // A FIFO or directory has the mount of its name, but no data there.
        if let Some(mount) = self.hints.mount(fd)
            && self.mounts.get(mount).refuses(kind)
            && self.hints.kind(fd) == Some(FileKind::Regular)
        {
            // SAFETY: by the caller.
            return unsafe { self.known_unsupported(row, call, kind) };
        }
        if self.is_direct(fd) {
            return Attempted::blocked(0, Why::NotTried);
        }
        // SAFETY: by the caller.
        unsafe { self.nowait_from(row, call, kind, None) }
    }

    /// Whether a file bypasses the page cache (`O_DIRECT`). `RWF_NOWAIT` then keeps the kernel from
    /// waiting for locks and blocks, but not for the device (Linux 6.18).
    fn is_direct(&mut self, fd: RawFd) -> bool {
        if self.hints.not_direct_io(fd) {
            return false;
        }
        // A pipe uses this flag for packet mode.
        let is_direct = sys::has_status_flag(fd, libc::O_DIRECT) && !self.kind(fd).is_stream();
        if !is_direct {
            self.hints.set_not_direct_io(fd, true);
        }
        is_direct
    }

    /// Continues from the result of the first step, if one was made.
    ///
    /// # Safety
    /// As for the system call.
    unsafe fn nowait_from(
        &mut self,
        row: &Row,
        call: &Call,
        kind: NowaitKind,
        mut first: Option<Result<usize, Errno>>,
    ) -> Attempted {
        let fd = call.descriptor(0);
        if only_plain(row, call) {
            // A transfer of zero bytes on a file does not block.
            let instant = row.transfer.length(call) == Some(0)
                && matches!(
                    self.look_at(fd),
                    Ok(FileKind::Regular | FileKind::Directory)
                );
            return if instant {
                // SAFETY: by the caller.
                Attempted::Done(unsafe { sys::syscall(call) })
            } else {
                Attempted::blocked(0, Why::NotTried)
            };
        }
        if !can_be_tried(row, call) {
            // Only the plain call may judge these arguments: it rejects them without blocking, or
            // has flags not to block.
            // SAFETY: by the caller.
            return Attempted::Done(unsafe { sys::syscall(call) });
        }
        let mut done = 0;
        let mut scratch = None;
        loop {
            let result = match first.take() {
                Some(result) => result,
                // SAFETY: by the caller; `done` is not 0 only after the kernel has accepted the
                // pointers.
                None => unsafe {
                    let mut step = remaining(row, call, done, &mut scratch);
                    if self.inject.short_transfer > 0 {
                        step = shortened(row, &step, self.inject.short_transfer, &mut scratch);
                    }
                    nowait_step(row, &step, kind)
                },
            };
            let moved = match result {
                Ok(moved) => moved,
                Err(errno) => return self.nowait_failed(errno, row, call, done, kind),
            };
            if moved == 0 {
                // The end of the file, except on kernels that return 0 for data that is not cached.
                let untrue = self.facts.false_eof && kind == NowaitKind::Reads;
                return if untrue {
                    Attempted::blocked(done, Why::WouldBlock)
                } else {
                    Attempted::Done(Ok(done))
                };
            }
            done += moved;
            // SAFETY: the kernel has just accepted the pointers.
            if unsafe { wanted(row, call) }.is_none_or(|wanted| done >= wanted) {
                return Attempted::Done(Ok(done));
            }
            // A short transfer. On a stream a read is complete and a write has filled the buffer;
            // on a file one more attempt distinguishes the end of the file from the end of the
            // cached data.
            let regular = !uses_position(row, call) || self.is_regular_file(fd);
            if !regular {
                if !continues(row, call, false) {
                    return Attempted::Done(Ok(done));
                }
                if self.inject.short_transfer == 0 {
                    return self.blocked_stream(fd, done);
                }
            }
        }
    }

    fn nowait_failed(
        &mut self,
        errno: Errno,
        row: &Row,
        call: &Call,
        done: usize,
        kind: NowaitKind,
    ) -> Attempted {
        let fd = call.descriptor(0);
        match errno {
            Errno::AGAIN
                if self.inject.false_eof
                    && kind == NowaitKind::Reads
                    && self.kind(fd) == FileKind::Regular =>
            {
                // As on Linux 5.9: pretend that the end of the file was reached, and confirm it in
                // the background.
                Attempted::blocked(done, Why::WouldBlock)
            }
            // The data is not cached, or not yet available, or a lock is held.
            Errno::AGAIN => self.blocked_stream(fd, done),
            // The file does not support RWF_NOWAIT (tmpfs, FUSE, terminals; ext4 for writes). Some
            // file systems return this errno where others return EAGAIN; filters return EPERM,
            // EACCES or ENOSYS.
            Errno::OPNOTSUPP | Errno::PERM | Errno::ACCES | Errno::NOSYS => {
                if done > 0 {
                    return Attempted::blocked(done, Why::Unsupported);
                }
                let known = self.look_at(fd).is_ok();
                // The file may refuse the caller's own flags instead.
                let own_flags = matches!(row.transfer, Transfer::Vector { flags: Some(flags), .. }
                    if call.args[flags as usize] != 0);
                if errno == Errno::OPNOTSUPP
                    && !own_flags
                    && known
                    && let Some(mount) = self.hints.mount(fd)
                    && self.hints.kind(fd) == Some(FileKind::Regular)
                {
                    self.mounts.get_mut(mount).set_refuses(kind);
                    // SAFETY: the kernel has refused the attempt before it read any pointer; the
                    // plain call is what the caller asked for.
                    return match unsafe { self.known_unsupported(row, call, kind) } {
                        Attempted::Blocked(_) => {
                            // This attempt was made, so it does not count as latched.
                            let counts = &mut self.mounts.get_mut(mount).counts;
                            counts.latched = counts.latched.saturating_sub(1);
                            Attempted::blocked(0, Why::Unsupported)
                        }
                        done => done,
                    };
                }
                Attempted::blocked(0, Why::Unsupported)
            }
            _ if done > 0 => Attempted::Done(Ok(done)),
            // On Linux 6.1 the vectored call checks the memory before the descriptor.
            Errno::FAULT => {
                Attempted::Done(Err(descriptor_error(row, call, kind).unwrap_or(errno)))
            }
            errno => Attempted::Done(Err(errno)),
        }
    }

    /// Handles a stream without data or buffer space. In non-blocking mode the plain call fails; in
    /// blocking mode it would wait.
    fn blocked_stream(&mut self, fd: RawFd, done: usize) -> Attempted {
        // Checked each time: the mode may have changed, and the ring ignores it (Linux 6.18,
        // pipes).
        if sys::is_nonblocking(fd) && !self.is_regular_file(fd) {
            return Attempted::Done(if done > 0 {
                Ok(done)
            } else {
                Err(Errno::AGAIN)
            });
        }
        Attempted::blocked(done, Why::WouldBlock)
    }

    /// Handles a file system that is known not to support the attempt: if it is in memory, the
    /// plain call does not wait.
    ///
    /// # Safety
    /// As for the system call.
    unsafe fn known_unsupported(&mut self, row: &Row, call: &Call, kind: NowaitKind) -> Attempted {
        let fd = call.descriptor(0);
        let hinted = self.hints.mount(fd);
        let in_memory = |this: &Knowledge, mount| this.mounts.get(mount).place == Place::Memory;
        if hinted.is_some_and(|mount| in_memory(self, mount)) {
            // The hint may be stale: the number may now belong to a pipe.
            if self.look_at(fd) == Ok(FileKind::Regular)
                && let Some(mount) = self.hints.mount(fd)
                && in_memory(self, mount)
            {
                self.mounts.get_mut(mount).counts.inline += 1;
                // SAFETY: by the caller.
                return Attempted::Done(unsafe { sys::syscall(call) });
            }
        }
        if kind == NowaitKind::Writes && self.trusts_write(row, call) {
            if let Some(mount) = self.hints.mount(fd) {
                self.mounts.get_mut(mount).counts.inline += 1;
            }
            // SAFETY: by the caller.
            return Attempted::Done(unsafe { sys::syscall(call) });
        }
        if let Some(mount) = self.hints.mount(fd) {
            self.mounts.get_mut(mount).counts.latched += 1;
            self.mounts.get_mut(mount).counts.fallback += 1;
        }
        Attempted::blocked(0, Why::KnownUnsupported)
    }

    /// Whether a write is made inline although it may wait (see [`crate::Options::trust_writes`]).
    fn trusts_write(&mut self, row: &Row, call: &Call) -> bool {
        let fd = call.descriptor(0);
        let Some(room) = &mut self.dirty_room else {
            return false;
        };
        let length = match row.transfer {
            Transfer::Buffer { length, .. } => call.args[length as usize],
            Transfer::Vector {
                flags: Some(flags), ..
            } if call.args[flags as usize] != 0 => return false,
            _ if !has_readable_vectors(row, call) => return false,
            // SAFETY: the vectors can be read.
            _ => unsafe { wanted(row, call) }.unwrap_or(usize::MAX),
        };
        if !room.take(length) {
            return false;
        }
        // The hint may be stale: the number may now belong to a pipe, or to a remote file.
        let positioned = !uses_position(row, call);
        let is_file =
            (positioned && !self.mounts.any_remote()) || self.look_at(fd) == Ok(FileKind::Regular);
        let in_cache = |mount| self.mounts.get(mount).writes_into_the_cache();
        is_file && self.hints.mount(fd).is_some_and(in_cache) && self.writes_to_cache(fd)
    }

    /// Whether writes end in the page cache: the file bypasses it neither by `O_DIRECT` nor by
    /// `O_SYNC` or `O_DSYNC`.
    fn writes_to_cache(&mut self, fd: RawFd) -> bool {
        if self.hints.writes_to_cache(fd) {
            return true;
        }
        let waits = sys::has_status_flag(fd, libc::O_DIRECT | libc::O_SYNC);
        if !waits {
            self.hints.set_writes_to_cache(fd);
        }
        !waits
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn dontwait(&mut self, row: &Row, call: &Call, flags: u8) -> Attempted {
        if only_plain(row, call) {
            return Attempted::blocked(0, Why::NotTried);
        }
        let mut attempt = *call;
        attempt.args[flags as usize] |= libc::MSG_DONTWAIT as usize;
        // SAFETY: by the caller.
        unsafe {
            let result = sys::syscall(&attempt);
            self.dontwait_from(row, call, flags, result)
        }
    }

    /// Continues from the result of the call with `MSG_DONTWAIT`.
    ///
    /// # Safety
    /// As for the system call.
    unsafe fn dontwait_from(
        &mut self,
        row: &Row,
        call: &Call,
        flags: u8,
        result: Result<usize, Errno>,
    ) -> Attempted {
        let fd = call.descriptor(0);
        // With the caller's own MSG_DONTWAIT every result is final.
        if call.args[flags as usize] & libc::MSG_DONTWAIT as usize != 0 {
            return Attempted::Done(result);
        }
        let moved = match result {
            Ok(moved) => moved,
            Err(Errno::AGAIN) if sys::is_nonblocking(fd) => return Attempted::Done(result),
            Err(Errno::AGAIN) => return Attempted::WOULD_BLOCK,
            Err(_) => return Attempted::Done(result),
        };
        let reads = row.descriptors[0].is_some_and(|descriptor| descriptor.usage == Use::Read);
        if (reads && moved == 0) || !continues(row, call, false) {
            return Attempted::Done(Ok(moved));
        }
        // SAFETY: the kernel has just accepted the pointers.
        match unsafe { wanted(row, call) } {
            Some(wanted) if moved < wanted => {}
            _ => return Attempted::Done(Ok(moved)),
        }
        // MSG_WAITALL has no meaning for datagrams, and a datagram is never sent in part.
        let messages = matches!(row.transfer, Transfer::Messages { .. });
        if sys::is_nonblocking(fd) || (!messages && !sys::is_stream_socket(fd)) {
            return Attempted::Done(Ok(moved));
        }
        Attempted::blocked(moved, Why::WouldBlock)
    }
}

impl NowaitKind {
    #[inline]
    fn number(self) -> libc::c_long {
        match self {
            NowaitKind::Reads => libc::SYS_preadv2,
            NowaitKind::Writes => libc::SYS_pwritev2,
        }
    }
}

/// Makes one step of the transfer as a vectored call with RWF_NOWAIT.
///
/// # Safety
/// As for the system call.
unsafe fn nowait_step(row: &Row, step: &Call, kind: NowaitKind) -> Result<usize, Errno> {
    let args = &step.args;
    let mut vector = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let (address, count, offset, flags) = match row.transfer {
        Transfer::Buffer {
            pointer,
            length,
            offset,
        } => {
            vector.iov_base = args[pointer as usize] as *mut _;
            vector.iov_len = args[length as usize];
            ((&raw const vector) as usize, 1, offset, None)
        }
        Transfer::Vector {
            vector: address,
            count,
            offset,
            flags,
        } => (args[address as usize], args[count as usize], offset, flags),
        _ => unreachable!("the table gives these attempts to buffers and vectors only"),
    };
    let offset = offset.map_or(usize::MAX, |offset| args[offset as usize]);
    let flags = flags.map_or(0, |flags| args[flags as usize]) | libc::RWF_NOWAIT as usize;
    // SAFETY: the vector lives through the call; the rest is the caller's.
    unsafe { sys::raw(kind.number(), [args[0], address, count, offset, 0, flags]) }
}

/// Whether the engine may read the array of vectors.
fn has_readable_vectors(row: &Row, call: &Call) -> bool {
    let Transfer::Vector { vector, count, .. } = row.transfer else {
        return false;
    };
    let count = call.args[count as usize];
    count <= Limits::IOV_MAX
        && can_read(call.args[vector as usize], count * size_of::<libc::iovec>())
}

/// Returns the errno that the descriptor causes in a call that transfers one buffer, found by
/// transferring no bytes. The plain call checks the descriptor before the memory.
fn descriptor_error(row: &Row, call: &Call, kind: NowaitKind) -> Option<Errno> {
    let Transfer::Buffer { offset, .. } = row.transfer else {
        return None;
    };
    let nothing = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let offset = offset.map_or(usize::MAX, |offset| call.args[offset as usize]);
    let (vector, flags) = ((&raw const nothing) as usize, libc::RWF_NOWAIT as usize);
    // SAFETY: the vector lives through the call, and has no bytes.
    let result = unsafe { sys::raw(kind.number(), [call.args[0], vector, 1, offset, 0, flags]) };
    let errno = result.err()?;
    matches!(errno, Errno::BADF | Errno::INVAL | Errno::SPIPE).then_some(errno)
}

/// False where only the plain call can answer: a negative offset, which means the file's own position
/// to `preadv2` but an error to `pread64`; or the caller's own `RWF_NOWAIT`.
fn can_be_tried(row: &Row, call: &Call) -> bool {
    let (offset, flags) = match row.transfer {
        Transfer::Buffer { offset, .. } => (offset, None),
        Transfer::Vector { offset, flags, .. } => (offset, flags),
        _ => (None, None),
    };
    let unwilling =
        flags.is_some_and(|flags| call.args[flags as usize] & libc::RWF_NOWAIT as usize != 0);
    let own_position = flags.is_some();
    let positioned = offset.is_none_or(|offset| {
        let offset = call.args[offset as usize] as i64;
        offset >= 0 || (own_position && offset == -1)
    });
    !unwilling && positioned
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::knowledge::dirty::DirtyRoom;
    use crate::knowledge::mounts::Place;
    use crate::{BackendKind, Call, Context, Options, Outcome};
    use rustix::fs::OFlags;
    use std::os::fd::{AsRawFd, OwnedFd};

    /// A context that takes the file system of the file for an ext4 with enough room.
    fn trusting(file: &OwnedFd) -> Context {
        let options = Options::new().backend(BackendKind::Lazy).trust_writes(true);
        let mut context = Context::new(options).unwrap();
        context.knowledge.dirty_room = Some(DirtyRoom::ENDLESS);
        let (_, mount) = context.knowledge.mounts.of(file.as_raw_fd()).unwrap();
        let mount = context.knowledge.mounts.get_mut(mount.expect("a mount"));
        (mount.fstype, mount.place) = ("ext4".to_owned(), Place::Local);
        mount.writes_latched = true;
        context
    }

    fn file(flags: OFlags) -> (OwnedFd, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let flags = flags | OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        let name = directory.path().join("file");
        let file = rustix::fs::open(name, flags, rustix::fs::Mode::RWXU).unwrap();
        (file, directory)
    }

    /// Whether a call is made inline. It writes all that it was given.
    fn is_inline(
        context: &mut Context,
        number: libc::c_long,
        args: [usize; 4],
        bytes: usize,
    ) -> bool {
        // SAFETY: the buffer outlives the operation, which ends here.
        let (result, inline) = match unsafe { context.call(Call::new(number, args)) } {
            Outcome::Done(result) => (result, true),
            Outcome::Pending(_) => {
                let mut found = Vec::new();
                context.poll(&mut found, None).unwrap();
                (found[0].result, false)
            }
        };
        assert_eq!(result, Ok(bytes));
        inline
    }

    #[test]
    fn trusted_writes_are_inline_while_there_is_room() {
        if laio_testing::lacks("nowait") {
            return;
        }
        let buffer = vec![1u8; DirtyRoom::WRITE_MAX + 1];
        let vector = libc::iovec {
            iov_base: buffer.as_ptr() as *mut _,
            iov_len: 3,
        };
        let (address, vectors) = (buffer.as_ptr() as usize, (&raw const vector) as usize);
        let (file, _directory) = file(OFlags::empty());
        let mut context = trusting(&file);
        let fd = file.as_raw_fd() as usize;
        let write = |length| [fd, address, length, 0];
        for (number, args, bytes, expected) in [
            (libc::SYS_pwrite64, write(100), 100, true),
            (libc::SYS_write, write(100), 100, true),
            (libc::SYS_writev, [fd, vectors, 1, 0], 3, true),
            (libc::SYS_pwrite64, write(buffer.len()), buffer.len(), false),
        ] {
            let inline = is_inline(&mut context, number, args, bytes);
            assert_eq!(inline, expected, "{number} {bytes}");
        }
        context.knowledge.dirty_room = Some(DirtyRoom::FULL);
        assert!(!is_inline(
            &mut context,
            libc::SYS_pwrite64,
            write(100),
            100
        ));
    }

    #[test]
    fn writes_that_wait_for_the_disk_are_not_trusted() {
        let byte = [1u8];
        for flags in [OFlags::SYNC, OFlags::DSYNC] {
            let (file, _directory) = file(flags);
            let mut context = trusting(&file);
            let args = [file.as_raw_fd() as usize, byte.as_ptr() as usize, 1, 0];
            assert!(!is_inline(&mut context, libc::SYS_pwrite64, args, 1));
        }
    }
}
