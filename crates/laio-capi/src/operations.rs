//! Operations: submitting, delivering, cancelling, time-outs.

use crate::completion::{from_pointer, laio_completion};
use crate::requests::is_request;
use crate::ret::{IntoC, conclude, failed};
use crate::sized::{self, Sized32};
use crate::thread::{LOCAL, laio_context, with};
use laio::{Call, Errno, Outcome, PollOptions, StatusWord};
use libc::{c_int, c_long, c_void, timespec};
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

/// A system call with all its options.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct laio_call {
    /// The size of the struct.
    pub size: u32,
    /// 0.
    pub flags: u32,
    /// The number of the system call.
    pub number: c_long,
    /// Its arguments.
    pub args: [usize; 6],
    /// Handed back with the completion.
    pub user: *mut c_void,
    /// Null, or the time after which it is cancelled.
    pub timeout: *const timespec,
    /// Null, or a status word.
    pub status: *mut StatusWord,
}

const _: () = assert!(size_of::<laio_call>() == 88 && align_of::<laio_call>() == 8);
const _: () = assert!(size_of::<StatusWord>() == 16 && align_of::<StatusWord>() == 8);

// SAFETY: begins with its size; numbers and pointers that are checked before use.
unsafe impl Sized32 for laio_call {
    const FIRST: usize = 88;
}

/// Makes a system call: see `laio.h`.
///
/// # Safety
/// `call` is null or as `laio.h` says, `handle` is null or may be written; the rest is as for
/// [`laio_syscall`](crate::laio_syscall), also for the status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_submit(
    context: *mut laio_context,
    call: *const laio_call,
    handle: *mut *mut c_void,
) -> c_long {
    if !handle.is_null() {
        // SAFETY: by the caller.
        unsafe { handle.write(null_mut()) };
    }
    let outcome = with(context, |context| {
        // SAFETY: by the caller.
        unsafe { submit(context, call) }
    });
    match outcome {
        Ok(outcome) => {
            if let Outcome::Pending(pending) = outcome
                && !handle.is_null()
            {
                // SAFETY: by the caller.
                unsafe { handle.write(crate::completion::to_pointer(pending)) };
            }
            LOCAL.with(|local| conclude(local, outcome))
        }
        // Called from within another call, which owns the last handle.
        Err(Errno::DEADLK) => Err(Errno::DEADLK).into_c(),
        Err(errno) => LOCAL.with(|local| conclude(local, Outcome::Done(Err(errno)))),
    }
}

/// # Safety
/// As for [`laio_submit`].
unsafe fn submit(context: &mut laio_context, call: *const laio_call) -> Result<Outcome, Errno> {
    // SAFETY: by the caller.
    let given = unsafe { sized::read(call)? };
    // SAFETY: by the caller.
    let timeout = unsafe { duration(given.timeout)? };
    if given.flags != 0 {
        return Err(Errno::INVAL);
    }
    let engine = &mut context.engine;
    let call = Call {
        number: given.number as usize,
        args: given.args,
    };
    let user_data = given.user.addr() as u64;
    // SAFETY: by the caller.
    let outcome = unsafe {
        match NonNull::new(given.status) {
            Some(status) => engine.call_with_status(call, user_data, status),
            None => engine.call_with(call, user_data),
        }
    };
    if let Outcome::Pending(handle) = outcome
        && timeout.is_some()
    {
        match engine.set_timeout(handle, timeout) {
            // It has finished meanwhile.
            Ok(()) | Err(Errno::ALREADY) => {}
            // There is no timer for the pollable descriptor: the time-out works while the program
            // polls.
            Err(_) => {}
        }
    }
    Ok(outcome)
}

/// Delivers completions of a context: see `laio.h`.
///
/// # Safety
/// As for [`laio_poll`](crate::laio_poll).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_context_poll(
    context: *mut laio_context,
    completions: *mut laio_completion,
    ncompletions: c_int,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { poll(context, completions, ncompletions, timeout) }.into_c()
}

/// # Safety
/// As for [`laio_poll`](crate::laio_poll).
pub(crate) unsafe fn poll(
    context: *mut laio_context,
    completions: *mut laio_completion,
    ncompletions: c_int,
    timeout: *const timespec,
) -> Result<c_int, Errno> {
    if completions.is_null() {
        return Err(Errno::FAULT);
    }
    let most = usize::try_from(ncompletions).map_err(|_| Errno::INVAL)?;
    if most == 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: by the caller.
    let mut timeout = unsafe { duration(timeout)? };
    with(context, |context| {
        if timeout.is_none() && context.engine.pending() == 0 {
            // No completion would ever arrive.
            timeout = Some(Duration::ZERO);
        }
        if !context.requests.is_empty() {
            let mut count = 0;
            let (engine, notifier) = (&mut context.engine, &context.notifier);
            let deliver = |completion| {
                // SAFETY: at most as many as there is room for, by the caller.
                unsafe { completions.add(count).write(completion) };
                count += 1;
            };
            let polled = context
                .requests
                .poll(engine, notifier, most, timeout, deliver);
            return polled.map(|count| count as c_int);
        }
        let mut count = 0;
        let deliver = |completion: laio::Completion| {
            // SAFETY: the engine hands over at most as many as there is room for, by the caller.
            unsafe { completions.add(count).write(completion.into()) };
            count += 1;
        };
        context.engine.poll_with(
            PollOptions {
                timeout,
                most,
                interruptible: true,
            },
            deliver,
        )?;
        Ok(count as c_int)
    })
}

/// Delivers the completion of one operation: see `laio.h`.
///
/// # Safety
/// `completion` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_take(
    context: *mut laio_context,
    handle: *mut c_void,
    completion: *mut laio_completion,
) -> c_int {
    if completion.is_null() {
        return failed(Errno::FAULT);
    }
    let taken = with(context, |context| match from_pointer(handle)? {
        handle if is_request(handle) => context.requests.take(&mut context.engine, handle),
        handle => context.engine.poll_one(handle).map(Into::into),
    });
    let taken = taken.map(|taken| {
        // SAFETY: by the caller.
        unsafe { completion.write(taken) };
    });
    taken.into_c()
}

/// Returns the state of a status word: see `laio.h`.
///
/// # Safety
/// `status` is null or points to a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_peek(status: *const StatusWord) -> c_int {
    // SAFETY: by the caller.
    match unsafe { status.as_ref() } {
        Some(status) => status.state(),
        None => libc::EINVAL,
    }
}

/// Cancels an operation: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_cancel(context: *mut laio_context, handle: *mut c_void) -> c_int {
    with(context, |context| match from_pointer(handle)? {
        handle if is_request(handle) => context.requests.cancel(&mut context.engine, handle),
        handle => context.engine.cancel(handle),
    })
    .into_c()
}

/// Sets the user pointer of an operation: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_set_user(
    context: *mut laio_context,
    handle: *mut c_void,
    user: *mut c_void,
) -> c_int {
    with(context, |context| {
        let handle = from_pointer(handle)?;
        if is_request(handle) {
            return context.requests.set_user(handle, user);
        }
        context.engine.set_user_data(handle, user.addr() as u64)
    })
    .into_c()
}

/// Sets the time-out of an operation: see `laio.h`.
///
/// # Safety
/// `timeout` is null or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_set_timeout(
    context: *mut laio_context,
    handle: *mut c_void,
    timeout: *const timespec,
) -> c_int {
    with(context, |context| {
        // SAFETY: by the caller.
        let timeout = unsafe { duration(timeout)? };
        match from_pointer(handle)? {
            handle if is_request(handle) => {
                let engine = &mut context.engine;
                context.requests.set_timeout(engine, handle, timeout)
            }
            handle => context.engine.set_timeout(handle, timeout),
        }
    })
    .into_c()
}

/// Makes calls on a descriptor complete in order: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_set_ordered(context: *mut laio_context, fd: c_int, on: c_int) -> c_int {
    with(context, |context| context.engine.set_ordered(fd, on != 0)).into_c()
}

/// Forgets the cached hints about a descriptor: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_forget(context: *mut laio_context, fd: c_int) -> c_int {
    with(context, |context| {
        context.engine.forget(fd);
        Ok(())
    })
    .into_c()
}

/// A relative time; null is none.
///
/// # Errors
/// `EINVAL` if it is negative or not in normal form.
///
/// # Safety
/// `time` is null or points to a time.
pub(crate) unsafe fn duration(time: *const timespec) -> Result<Option<Duration>, Errno> {
    // SAFETY: by the caller.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return Ok(None);
    };
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    match u32::try_from(time.tv_nsec) {
        Ok(nanoseconds @ 0..1_000_000_000) => Ok(Some(Duration::new(seconds, nanoseconds))),
        _ => Err(Errno::INVAL),
    }
}
