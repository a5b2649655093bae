//! Notifications: the pollable descriptor, waking, a signal; and signal handlers.

use crate::ret::{IntoC, failed};
use crate::thread::{LOCAL, laio_context, with};
use laio::Errno;
use libc::{c_int, c_void, sigaction};
use std::os::fd::AsRawFd;

/// The pollable descriptor: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_fd(context: *mut laio_context) -> c_int {
    with(context, |context| {
        Ok(context.engine.descriptor()?.as_raw_fd())
    })
    .into_c()
}

/// Submits queued operations: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_flush(context: *mut laio_context) -> c_int {
    with(context, |context| context.engine.flush()).into_c()
}

/// Makes `laio_poll` return: see `laio.h`. Safe in signal handlers: two stores and a `write`;
/// `errno` changes only if it fails.
///
/// # Safety
/// `context` is null or a live context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_wake(context: *mut laio_context) -> c_int {
    let context = if context.is_null() {
        LOCAL.with(|local| local.current.get())
    } else {
        context
    };
    if context.is_null() {
        return failed(Errno::SRCH);
    }
    // SAFETY: it is live, by the caller; the notifier never changes and is made for many threads, so no
    // reference to the rest is needed, which its own thread may be using.
    let notifier = unsafe { &(*context).notifier };
    notifier.notify();
    0
}

/// Sends a signal when completions come: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_set_signal(
    context: *mut laio_context,
    number: c_int,
    value: *mut c_void,
) -> c_int {
    with(context, |context| {
        let signal = (number != 0).then(|| (number, value.addr()));
        context.engine.set_signal(signal)
    })
    .into_c()
}

/// Installs a signal handler that runs where the program runs: see `laio.h`. Safe in signal handlers.
///
/// # Safety
/// As for `sigaction(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_sigaction(
    number: c_int,
    action: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    // SAFETY: by the caller.
    match unsafe { laio::set_signal_action(number, action.as_ref()) } {
        Ok(before) => {
            if !old.is_null() {
                // SAFETY: by the caller.
                unsafe { old.write(before) };
            }
            0
        }
        Err(errno) => failed(errno),
    }
}
