//! System calls on aarch64.

use std::arch::{asm, global_asm};
use std::sync::atomic::AtomicU32;

/// # Safety
/// As for the system call.
#[inline(always)]
pub(super) unsafe fn syscall(number: usize, args: &[usize; 6]) -> usize {
    let result;
    // SAFETY: the kernel clobbers x0 only and uses no user stack; what it reads and writes through the
    // arguments is the caller's responsibility.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") args[0] => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
            options(nostack),
        );
    }
    result
}

unsafe extern "C" {
    /// As on x86-64: see there.
    pub(super) fn laio_interruptible_syscall(
        flag: *const AtomicU32,
        number: usize,
        args: *const [usize; 6],
    ) -> usize;
    pub(super) static laio_interruptible_begin: u8;
    pub(super) static laio_interruptible_end: u8;
    pub(super) static laio_interruptible_cancel: u8;
}

global_asm!(
    ".text",
    ".p2align 4",
    ".hidden laio_interruptible_syscall",
    ".globl laio_interruptible_syscall",
    ".type laio_interruptible_syscall,%function",
    "laio_interruptible_syscall:",
    ".cfi_startproc",
    "mov x8, x1",
    "mov x9, x0",
    "mov x10, x2",
    "ldp x0, x1, [x10]",
    "ldp x2, x3, [x10, #16]",
    "ldp x4, x5, [x10, #32]",
    ".hidden laio_interruptible_begin",
    ".globl laio_interruptible_begin",
    "laio_interruptible_begin:",
    "ldr w11, [x9]",
    "cbnz w11, laio_interruptible_cancel",
    "svc #0",
    ".hidden laio_interruptible_end",
    ".globl laio_interruptible_end",
    "laio_interruptible_end:",
    "ret",
    ".hidden laio_interruptible_cancel",
    ".globl laio_interruptible_cancel",
    "laio_interruptible_cancel:",
    "mov x0, #-4",
    "ret",
    ".cfi_endproc",
    ".size laio_interruptible_syscall, . - laio_interruptible_syscall",
);

/// The program counter of an interrupted thread.
pub(super) fn program_counter(context: &mut libc::ucontext_t) -> &mut u64 {
    &mut context.uc_mcontext.pc
}
