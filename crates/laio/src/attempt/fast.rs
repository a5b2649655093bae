//! The fast path: an attempt of a single system call for the most frequent calls.
//!
//! `read`, `write`, `pread64`, `pwrite64`, `recvfrom` and `sendto` are the most frequent calls of
//! event-driven programs. While no operation is in flight on the descriptor, there is no order to
//! keep, and the attempt is one system call. If that call moves all bytes, the call is done.
//! Otherwise the attempt continues from its result.

use crate::knowledge::Knowledge;
use crate::knowledge::mounts::NowaitKind;
use crate::table::FastCall;
use crate::transfer::RW_COUNT_MAX;
use crate::{Call, Errno, sys};

impl Knowledge {
    /// Attempts a call while nothing is in flight on its descriptor. Returns the result of the first
    /// system call and whether it is final, that is, the call's own result. Returns `None` if the call
    /// must take the slow path.
    ///
    /// # Safety
    /// As for the system call.
    #[inline(always)]
    pub(crate) unsafe fn try_fast(
        &mut self,
        fast_call: FastCall,
        call: &Call,
    ) -> Option<(Result<usize, Errno>, bool)> {
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
        Some((result, is_final))
    }

    /// Whether the file system is not known to refuse the attempt, and the descriptor is known not to
    /// use direct I/O.
    #[inline]
    fn nowait_is_usual(&self, fd: i32, kind: NowaitKind) -> bool {
        let refuses = |mount| self.mounts.get(mount).refuses(kind);
        self.hints.not_direct_io(fd) && !self.hints.mount(fd).is_some_and(refuses)
    }
}
