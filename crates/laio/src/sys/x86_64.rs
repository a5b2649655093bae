//! System calls on x86-64.

use std::arch::{asm, global_asm};
use std::sync::atomic::AtomicU32;

/// # Safety
/// As for the system call.
#[inline(always)]
pub(super) unsafe fn syscall(number: usize, args: &[usize; 6]) -> usize {
    let result;
    // SAFETY: the kernel clobbers rax, rcx and r11 only and uses no user stack; what it reads and
    // writes through the arguments is the caller's responsibility.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

unsafe extern "C" {
    /// Makes the call unless `*flag` is set; returns `-EINTR` if it is. A signal handler that finds
    /// the program counter between the two labels moves it to the third: the call has then not been
    /// made, or the kernel has rolled it back for a restart. This closes the race between testing
    /// the flag and entering the kernel. (The technique is that of musl's cancellation points.)
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
    ".type laio_interruptible_syscall,@function",
    "laio_interruptible_syscall:",
    ".cfi_startproc",
    "mov rax, rsi",
    "mov rcx, rdi",
    "mov r11, rdx",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    ".hidden laio_interruptible_begin",
    ".globl laio_interruptible_begin",
    "laio_interruptible_begin:",
    "cmp dword ptr [rcx], 0",
    "jne laio_interruptible_cancel",
    "syscall",
    ".hidden laio_interruptible_end",
    ".globl laio_interruptible_end",
    "laio_interruptible_end:",
    "ret",
    ".hidden laio_interruptible_cancel",
    ".globl laio_interruptible_cancel",
    "laio_interruptible_cancel:",
    "mov rax, -4",
    "ret",
    ".cfi_endproc",
    ".size laio_interruptible_syscall, . - laio_interruptible_syscall",
);

/// The program counter of an interrupted thread.
pub(super) fn program_counter(context: &mut libc::ucontext_t) -> &mut i64 {
    &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
}
