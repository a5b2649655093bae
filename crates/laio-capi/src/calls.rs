//! The three calls.

use crate::completion::laio_completion;
use crate::operations::poll;
use crate::ret::{IntoC, conclude};
use crate::thread::{LOCAL, Local, guarded};
use laio::{Call, Errno, Outcome};
use libc::{c_int, c_long, c_void, timespec};
use std::ptr::null_mut;
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// Makes a system call: see `laio.h`.
///
/// In C this function is variadic. On x86-64 (System V ABI 3.5.7) and on aarch64 (AAPCS64 6.8.2) a variadic
/// function gets its integer arguments where any other does; those that the caller left out are
/// whatever is there, as they are in `syscall(2)`, and mean nothing to the call.
///
/// # Safety
/// As for the system call; what the arguments point to belongs to the operation, if it becomes one,
/// until its completion has been delivered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // Not all in the closure: otherwise the arguments would be stored in memory for it, and copied
    // from there.
    let local = LOCAL.with(std::ptr::from_ref);
    // SAFETY: it lives as long as the thread.
    let local = unsafe { &*local };
    let call = Call {
        number: number as usize,
        args: [a, b, c, d, e, f],
    };
    let context = local.current.get();
    if context.is_null() || local.busy.replace(true) {
        // SAFETY: by the caller.
        return unsafe { first_call(local, call) };
    }
    compiler_fence(SeqCst);
    // SAFETY: a current context is live, and no other call uses it: the busy flag is set. The rest is by the
    // caller.
    let outcome = unsafe { (*context).engine.call(call) };
    compiler_fence(SeqCst);
    local.busy.set(false);
    conclude(local, outcome)
}

/// The slow path: the first call of a thread, or a call from a signal handler that has interrupted
/// another.
///
/// # Safety
/// As for [`laio_syscall`].
#[cold]
unsafe fn first_call(local: &Local, call: Call) -> c_long {
    if !local.current.get().is_null() {
        // The interrupted call uses the context.
        return Err(Errno::DEADLK).into_c();
    }
    match crate::thread::current() {
        Ok(context) => {
            // SAFETY: just made; the rest is by the caller.
            let outcome = guarded(local, || Ok(unsafe { (*context).engine.call(call) }));
            match outcome {
                Ok(outcome) => conclude(local, outcome),
                Err(errno) => Err(errno).into_c(),
            }
        }
        Err(Errno::DEADLK) => Err(Errno::DEADLK).into_c(),
        Err(errno) => conclude(local, Outcome::Done(Err(errno))),
    }
}

/// The handle of the last call: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_gethandle() -> *mut c_void {
    LOCAL.with(|local| std::ptr::without_provenance_mut(local.last.get() as usize))
}

/// Delivers completions: see `laio.h`.
///
/// # Safety
/// `completions` is null or points to `ncompletions` structs that may be written; `timeout` is null or
/// points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_poll(
    completions: *mut laio_completion,
    ncompletions: c_int,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { poll(null_mut(), completions, ncompletions, timeout) }.into_c()
}
