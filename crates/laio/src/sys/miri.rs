//! Instead of system calls, for Miri: it runs no assembly. Descriptors below 1,000 count as open; there
//! is nothing else to ask the kernel for in the tests that run under it.

#![allow(
    non_upper_case_globals,
    reason = "the names are those of the assembly's labels"
)]

use std::sync::atomic::AtomicU32;

/// # Safety
/// None needed: memory is not touched.
pub(super) unsafe fn syscall(number: usize, args: &[usize; 6]) -> usize {
    let open = args[0] < 1000;
    let known = number as libc::c_long == libc::SYS_fcntl && args[1] as i32 == libc::F_GETFD;
    let errno = match (known, open) {
        (true, true) => 0,
        (true, false) => libc::EBADF,
        (false, _) => libc::ENOSYS,
    };
    (errno as usize).wrapping_neg()
}

/// # Safety
/// As for [`syscall`].
pub(super) unsafe fn laio_interruptible_syscall(
    _flag: *const AtomicU32,
    number: usize,
    args: *const [usize; 6],
) -> usize {
    // SAFETY: the caller's arguments live through the call.
    unsafe { syscall(number, &*args) }
}

pub(super) static laio_interruptible_begin: u8 = 0;
pub(super) static laio_interruptible_end: u8 = 0;
pub(super) static laio_interruptible_cancel: u8 = 0;

/// Never called: no signal arrives.
pub(super) fn program_counter(_: &mut libc::ucontext_t) -> &mut i64 {
    unreachable!("Miri delivers no signals")
}
