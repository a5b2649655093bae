//! Attempts on descriptors: metadata, locks, waiting calls, `close`.

use super::{Attempted, Why};
use crate::knowledge::Knowledge;
use crate::table::{Row, Timeout, WouldWait};
use crate::{Call, Errno, sys};
use std::os::fd::RawFd;

impl Knowledge {
    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn if_local(&mut self, row: &Row, call: &Call) -> Attempted {
        let descriptor = row.descriptors[0].expect("the table gives it a descriptor");
        if !self.is_local(call.descriptor(descriptor.arg)) {
            return Attempted::blocked(0, Why::NotTried);
        }
        // SAFETY: by the caller.
        Attempted::Done(unsafe { sys::syscall(call) })
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn fcntl(&mut self, row: &Row, call: &Call) -> Attempted {
        let command = match call.args[1] as i32 {
            libc::F_SETLKW => libc::F_SETLK,
            libc::F_OFD_SETLKW => libc::F_OFD_SETLK,
            libc::F_SETLK | libc::F_GETLK | libc::F_OFD_SETLK | libc::F_OFD_GETLK => {
                // SAFETY: by the caller.
                return unsafe { self.if_local(row, call) };
            }
            command => {
                if command == libc::F_SETFL {
                    // The flags may include O_DIRECT.
                    self.hints.set_not_direct_io(call.descriptor(0), false);
                }
                // SAFETY: by the caller.
                return Attempted::Done(unsafe { sys::syscall(call) });
            }
        };
        if !self.is_local(call.descriptor(0)) {
            return Attempted::blocked(0, Why::NotTried);
        }
        let mut attempt = *call;
        attempt.args[1] = command as usize;
        // SAFETY: by the caller.
        match unsafe { sys::syscall(&attempt) } {
            Err(Errno::AGAIN | Errno::ACCES) => Attempted::WOULD_BLOCK,
            result => Attempted::Done(result),
        }
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn with_flag(
        &mut self,
        row: &Row,
        call: &Call,
        arg: u8,
        bits: u32,
    ) -> Attempted {
        let arg = arg as usize;
        if let Some(descriptor) = row.descriptors[0]
            && !self.is_local(call.descriptor(descriptor.arg))
        {
            return Attempted::blocked(0, Why::NotTried);
        }
        let mut attempt = *call;
        attempt.args[arg] |= bits as usize;
        let unwilling = attempt.args[arg] == call.args[arg];
        // SAFETY: plain data, for which all zeros is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        if row.would_wait == WouldWait::NoChildInfo && call.args[2] == 0 {
            // Only the struct distinguishes "no child yet" from "a child": pass one.
            attempt.args[2] = (&raw mut info) as usize;
        }
        // SAFETY: by the caller.
        let result = unsafe { sys::syscall(&attempt) };
        let would_block = match (result, row.would_wait) {
            _ if unwilling => false,
            (Err(Errno::AGAIN), _) => true,
            (Err(errno), WouldWait::NoMessage) => errno.raw() == libc::ENOMSG,
            (Ok(0), WouldWait::NoChild) => true,
            (Ok(0), WouldWait::NoChildInfo) => {
                // SAFETY: the kernel has just filled the struct; si_pid is valid for a child's record.
                let pid = unsafe {
                    let info = attempt.args[2] as *const libc::siginfo_t;
                    info.read_unaligned().si_pid()
                };
                pid == 0
            }
            _ => false,
        };
        if would_block {
            Attempted::WOULD_BLOCK
        } else {
            Attempted::Done(result)
        }
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn with_zero_timeout(
        &mut self,
        call: &Call,
        arg: u8,
        form: Timeout,
    ) -> Attempted {
        let arg = arg as usize;
        if form != Timeout::Milliseconds && !may_be_time(call.args[arg], form) {
            // The kernel checks the time-out first.
            return Attempted::blocked(0, Why::NotTried);
        }
        let zero = [0u64; 2];
        let mut attempt = *call;
        attempt.args[arg] = match form {
            Timeout::Milliseconds => 0,
            // Two zero words are an empty timespec and an empty timeval.
            Timeout::Timespec | Timeout::Timeval => zero.as_ptr() as usize,
        };
        // SAFETY: `zero` lives through the call; the rest is the caller's.
        let result = unsafe { sys::syscall(&attempt) };
        let expects_to_wait = form != Timeout::Milliseconds || call.args[arg] as i32 != 0;
        match result {
            Ok(0) | Err(Errno::AGAIN) if expects_to_wait => Attempted::WOULD_BLOCK,
            Err(Errno::INTR) => Attempted::WOULD_BLOCK,
            result => Attempted::Done(result),
        }
    }

    /// Closes a descriptor on which nothing is in flight.
    ///
    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn close(&mut self, call: &Call) -> Attempted {
        if self.close_asks_remote(call.descriptor(0)) {
            return Attempted::blocked(0, Why::NotTried);
        }
        // SAFETY: by the caller.
        Attempted::Done(unsafe { self.close_now(call) })
    }

    /// Closes a descriptor, even if that waits.
    ///
    /// # Safety
    /// The call is a `close`, which the caller may make.
    pub(crate) unsafe fn close_now(&mut self, call: &Call) -> Result<usize, Errno> {
        self.hints.forget(call.descriptor(0));
        // SAFETY: by the caller.
        match unsafe { sys::syscall(call) } {
            // It is closed all the same, and the call must not be repeated.
            Err(Errno::INTR) => Ok(0),
            result => result,
        }
    }

    /// Whether closing a descriptor here would wait for a remote or FUSE file system: each close
    /// sends it a request and waits.
    fn close_asks_remote(&mut self, fd: RawFd) -> bool {
        !self.blocks_inline && !self.is_local(fd)
    }

    /// Whether an `lseek` may wait for a remote or FUSE file system, which alone knows the end of
    /// the file and its holes.
    pub(super) fn seek_asks_remote(&mut self, call: &Call) -> bool {
        !matches!(call.args[2] as i32, libc::SEEK_SET | libc::SEEK_CUR)
            && !self.is_local(call.descriptor(0))
    }

    /// Makes a `dup2` or `dup3` onto a descriptor on which nothing is in flight.
    ///
    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn duplicate(&mut self, call: &Call, arg: u8) -> Attempted {
        let fd = call.descriptor(arg);
        let onto_itself = call.descriptor(0) == fd;
        if !onto_itself && self.close_asks_remote(fd) {
            return Attempted::blocked(0, Why::NotTried);
        }
        // SAFETY: by the caller.
        let result = unsafe { sys::syscall(call) };
        if result.is_ok() && !onto_itself {
            self.hints.forget(fd);
        }
        Attempted::Done(result)
    }

    /// Closes descriptors on which nothing is in flight.
    ///
    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn close_range(&mut self, call: &Call) -> Attempted {
        // SAFETY: by the caller.
        let result = unsafe { sys::syscall(call) };
        if result.is_ok() {
            let (first, last) = range(call);
            self.hints.forget_range(first, last);
        }
        Attempted::Done(result)
    }
}

/// Whether a time-out can be read and is valid; null waits for ever.
fn may_be_time(address: usize, form: Timeout) -> bool {
    if address == 0 {
        return true;
    }
    if !sys::memory::can_read(address, 16) {
        return false;
    }
    // SAFETY: two words that can be read, aligned or not.
    let [seconds, part] = unsafe { (address as *const [i64; 2]).read_unaligned() };
    match form {
        // Surplus microseconds are seconds for `select`.
        Timeout::Timeval => seconds.saturating_add(part / 1_000_000) >= 0 && part % 1_000_000 >= 0,
        _ => seconds >= 0 && (0..1_000_000_000).contains(&part),
    }
}

/// The descriptors that a `close_range` names.
pub(crate) fn range(call: &Call) -> (RawFd, RawFd) {
    let clamp = |word: usize| (word as u32).min(i32::MAX as u32) as RawFd;
    (clamp(call.args[0]), clamp(call.args[1]))
}
