//! The hand-off on x86-64.
//!
//! A call is made on the carrier's own small stack with all its arguments in registers, so that
//! another thread may take the application's stack as soon as the state word allows it. x86 makes
//! stores visible in order: what was stored before the state word is visible to any thread that
//! reads the word.

#[cfg(not(laio_sanitized))]
use super::Birth;
use super::{Control, Returned, SleepWord, detected};
use crate::Errno;
use std::arch::{asm, global_asm};
use std::mem::offset_of;

/// Not with musl: there the guard against changes of rights aborts programs that did not make any.
pub(crate) const AVAILABLE: bool = cfg!(target_env = "gnu");

/// Bit of `AT_HWCAP2`: programs may set the thread pointer themselves (Linux 5.9).
const FSGSBASE: u64 = 1 << 1;
const ARCH_SHSTK_STATUS: usize = 0x5005;

/// Whether the application may change its kernel thread.
///
/// # Errors
/// `ENOSYS` with another C library than glibc; `EOPNOTSUPP` where the kernel or processor does not let programs set the thread pointer, or uses a shadow
/// stack. Whether `/proc` shows the threads (it exists, and the process is dumpable) is checked when the first
/// is inspected.
pub(crate) fn check() -> Result<(), Errno> {
    if !AVAILABLE {
        return Err(Errno::NOSYS);
    }
    // SAFETY: getauxval takes no pointers.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    if capabilities & FSGSBASE == 0 || has_shadow_stack() {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(())
}

/// Whether the thread has a shadow stack, which belongs to the kernel thread.
fn has_shadow_stack() -> bool {
    let mut features = 0u64;
    // SAFETY: the kernel writes one word; a kernel that does not know the command writes none.
    let _ = unsafe {
        let place = (&raw mut features) as usize;
        crate::sys::raw(libc::SYS_arch_prctl, [ARCH_SHSTK_STATUS, place])
    };
    features & 1 != 0
}

unsafe extern "C" {
    fn laio_handoff_call(control: *mut Control, number: usize, args: *const [usize; 6])
    -> Returned;
    fn laio_handoff_park(control: *mut Control);
    fn laio_handoff_resume(saved: usize, thread_pointer: usize) -> !;
    #[cfg(not(laio_sanitized))]
    fn laio_handoff_clone(
        flags: usize,
        stack: usize,
        number: usize,
        cleared: usize,
        thread_pointer: usize,
    ) -> usize;
    static laio_handoff_begin: u8;
    static laio_handoff_end: u8;
    static laio_handoff_cancel: u8;
}

/// Makes a system call on a carrier that runs the application. It may return on another carrier,
/// while the call is in flight.
///
/// # Safety
/// `control` must be that of the running kernel thread, in state APP; and as for the system call.
/// If it returns on another carrier, every signal is blocked.
#[inline(always)]
pub(crate) unsafe fn call(control: *mut Control, number: usize, args: &[usize; 6]) -> Returned {
    // SAFETY: by the caller.
    unsafe { laio_handoff_call(control, number, args) }
}

/// Leaves the application's stack, which another carrier resumes; returns there, with every signal
/// blocked.
///
/// # Safety
/// As for [`call`], and every signal is blocked.
pub(crate) unsafe fn park(control: *mut Control) {
    // SAFETY: by the caller.
    unsafe { laio_handoff_park(control) }
}

/// Resumes the application; the calling carrier's own stack is abandoned.
///
/// # Safety
/// The caller must have won the application; these must be its stack pointer and thread pointer.
pub(crate) unsafe fn resume(saved: usize, thread_pointer: usize) -> ! {
    // SAFETY: by the caller.
    unsafe { laio_handoff_resume(saved, thread_pointer) }
}

/// Returns the bit of [`Control::detected`] for how the processor number is read.
pub(crate) fn processor_known_by() -> u32 {
    const RDPID: u32 = 1 << 22;
    #[allow(unused_unsafe, reason = "safe in later versions of the library")]
    // SAFETY: all processors of 64 bits have the instruction; leaf 7 is asked for only if there is one.
    let features = unsafe {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        match __cpuid(0).eax {
            0..7 => 0,
            _ => __cpuid_count(7, 0).ecx,
        }
    };
    if features & RDPID != 0 {
        detected::BY_RDPID
    } else {
        0
    }
}

/// Sets the thread pointer.
///
/// # Safety
/// The caller must not use thread-local variables afterwards, unless the block is a real one.
#[inline(always)]
pub(crate) unsafe fn set_thread_pointer(thread_pointer: usize) {
    // SAFETY: by the caller; the instruction was found to be allowed.
    unsafe { asm!("wrfsbase {}", in(reg) thread_pointer, options(nostack, preserves_flags)) }
}

/// Returns the thread pointer of the running application.
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the first word of the block points to itself, by the ABI.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// Starts a kernel thread that the C library does not know. It inherits the caller's signal mask.
/// Returns its own thread pointer.
///
/// # Safety
/// The birth's memory lives until the thread has ended; `entry` uses neither the C library nor thread-local
/// variables.
#[cfg(not(laio_sanitized))]
pub(crate) unsafe fn spawn(birth: &Birth) -> Result<usize, Errno> {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    // SAFETY: the carrier's stack is not in use yet; the child takes these two words from it.
    let result = unsafe {
        let stack = ((*birth.control).stack - 16) as *mut usize;
        stack.write(birth.entry as usize);
        stack.add(1).write(birth.control as usize);
        let number = birth.number as usize;
        laio_handoff_clone(
            flags as usize,
            stack as usize,
            number,
            number,
            birth.thread_pointer,
        )
    };
    Errno::from_register(result).map(|_| birth.thread_pointer)
}

/// The program counter of a thread that is blocked in a call made through [`call`].
pub(crate) fn blocked_at() -> usize {
    (&raw const laio_handoff_end) as usize
}

/// The stack pointer of an interrupted thread.
pub(crate) fn stack_pointer(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
}

/// Makes a thread give its call up, if it was interrupted before the call or before a restart of
/// it.
pub(crate) fn interrupt(context: &mut libc::ucontext_t) {
    let counter = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    let (begin, end) = (
        (&raw const laio_handoff_begin) as usize,
        (&raw const laio_handoff_end) as usize,
    );
    if (begin..end).contains(&(*counter as usize)) {
        *counter = (&raw const laio_handoff_cancel) as usize as i64;
    }
}

const _: () = assert!(size_of::<SleepWord>() == 64);

global_asm!(
    ".text",
    ".macro laio_handoff_save",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    ".cfi_offset rbx, -24",
    "push r12",
    ".cfi_offset r12, -32",
    "push r13",
    ".cfi_offset r13, -40",
    "push r14",
    ".cfi_offset r14, -48",
    "push r15",
    ".cfi_offset r15, -56",
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    "mov rbx, rdi",
    "mov [rbx + {saved}], rsp",
    ".endm",
    ".macro laio_handoff_restore",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".endm",
    ".macro laio_handoff_function name",
    ".p2align 4",
    ".hidden \\name",
    ".globl \\name",
    ".type \\name,@function",
    "\\name:",
    ".cfi_startproc",
    ".endm",
    ".macro laio_handoff_label name",
    ".hidden \\name",
    ".globl \\name",
    "\\name:",
    ".endm",
    //
    // Make the call. rbx: the carrier; r13: the state word of this call; r14: its ring.
    "laio_handoff_function laio_handoff_call",
    "laio_handoff_save",
    "mov r14, [rbx + {ring}]",
    "mov r13, [rbx + {state}]",
    "mov rax, rsi",
    "mov r12, rdx",
    "mov rdi, [r12]",
    "mov rsi, [r12 + 8]",
    "mov rdx, [r12 + 16]",
    "mov r10, [r12 + 24]",
    "mov r8, [r12 + 32]",
    "mov r9, [r12 + 40]",
    "mov rsp, [rbx + {stack}]",
    // Open the gate: the ring is empty, and the next record wakes.
    "mov r15, [r14]",
    "mov [r14 + 8], r15",
    // The next generation, in a call.
    "add r13, 5",
    "cmp dword ptr [rbx + {detected}], 0",
    "jne 3f",
    // From here on another carrier may use the application's stack.
    "mov [rbx + {state}], r13",
    "laio_handoff_label laio_handoff_begin",
    "cmp dword ptr [rbx + {interrupted}], 0",
    "jne laio_handoff_cancel",
    "syscall",
    "laio_handoff_label laio_handoff_end",
    "mov r12, rax",
    "mov rax, r13",
    "lea r15, [r13 - 1]",
    "lock cmpxchg [rbx + {state}], r15",
    "jne 4f",
    // Close the gate: the ring is full, and records are dropped without a wakeup.
    "mov r15, [r14]",
    "inc r15",
    "mov [r14 + 8], r15",
    "mov rax, r12",
    "xor edx, edx",
    "mov rsp, [rbx + {saved}]",
    ".cfi_remember_state",
    "laio_handoff_restore",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_restore_state",
    "laio_handoff_label laio_handoff_cancel",
    "mov rax, -4",
    "jmp laio_handoff_end",
    // Detectors need the processor number and a wakeup. Store, then load: the detector's membarrier
    // orders the two, or the fence does.
    "3:",
    "test dword ptr [rbx + {detected}], {by_rdpid}",
    "jz 7f",
    "rdpid rcx",
    "jmp 8f",
    "7:",
    "mov ecx, 0x7b",
    // The limit of this segment also contains the processor number; reading it takes longer.
    "lsl ecx, ecx",
    "8:",
    "and ecx, 0xfff",
    "mov [rbx + {processor}], ecx",
    "mov [rbx + {state}], r13",
    "test dword ptr [rbx + {detected}], {by_fence}",
    "jnz 9f",
    "12:",
    "mov r15, [rbx + {sleep_word}]",
    "mov r11d, [r15]",
    "inc ecx",
    "cmp ecx, [rbx + {sleep_words}]",
    "jae 5f",
    "shl rcx, 6",
    "or r11d, [r15 + rcx]",
    "5:",
    "test r11d, r11d",
    "jz laio_handoff_begin",
    "push rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "sub rsp, 8",
    "mov rdi, rbx",
    "call [rbx + {wake}]",
    "add rsp, 8",
    "pop r9",
    "pop r8",
    "pop r10",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    "jmp laio_handoff_begin",
    "9:",
    "mfence",
    "jmp 12b",
    // Taken over meanwhile: this thread has only its own stack left.
    "4:",
    "mov rdi, rbx",
    "mov rsi, r12",
    "mov rsp, [rbx + {stack}]",
    "call [rbx + {on_return}]",
    "ud2",
    ".cfi_endproc",
    ".size laio_handoff_call, . - laio_handoff_call",
    //
    "laio_handoff_function laio_handoff_park",
    "laio_handoff_save",
    "mov rsp, [rbx + {stack}]",
    "call [rbx + {on_park}]",
    "ud2",
    ".cfi_endproc",
    ".size laio_handoff_park, . - laio_handoff_park",
    //
    "laio_handoff_function laio_handoff_resume",
    "wrfsbase rsi",
    "mov rsp, rdi",
    "ldmxcsr [rsp]",
    "fldcw [rsp + 4]",
    "laio_handoff_restore",
    "xor eax, eax",
    "mov edx, 1",
    "ret",
    ".cfi_endproc",
    ".size laio_handoff_resume, . - laio_handoff_resume",
    //
    "laio_handoff_function laio_handoff_clone",
    "mov r10, rcx",
    "mov eax, {clone}",
    "syscall",
    "test rax, rax",
    "jz 6f",
    "ret",
    "6:",
    ".cfi_undefined rip",
    "xor ebp, ebp",
    "pop rax",
    "pop rdi",
    "call rax",
    "ud2",
    ".cfi_endproc",
    ".size laio_handoff_clone, . - laio_handoff_clone",
    ".purgem laio_handoff_save",
    ".purgem laio_handoff_restore",
    ".purgem laio_handoff_function",
    ".purgem laio_handoff_label",
    state = const offset_of!(Control, state),
    saved = const offset_of!(Control, saved),
    stack = const offset_of!(Control, stack),
    ring = const offset_of!(Control, ring),
    interrupted = const offset_of!(Control, interrupted),
    detected = const offset_of!(Control, detected),
    processor = const offset_of!(Control, processor),
    sleep_words = const offset_of!(Control, sleep_words),
    sleep_word = const offset_of!(Control, sleep_word),
    wake = const offset_of!(Control, wake),
    on_return = const offset_of!(Control, on_return),
    on_park = const offset_of!(Control, on_park),
    clone = const libc::SYS_clone,
    by_rdpid = const detected::BY_RDPID,
    by_fence = const detected::BY_FENCE,
);
