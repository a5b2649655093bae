//! Making, choosing and ending contexts.

use crate::options::{self, laio_options};
use crate::ret::IntoC;
use crate::thread::{self, laio_context};
use libc::c_int;

/// Makes the calling thread's own context: see `laio.h`.
///
/// # Safety
/// `options` is null or points to options whose size and back end are as `laio.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_init(options: *const laio_options) -> c_int {
    // SAFETY: by the caller.
    unsafe { options::read(options) }
        .and_then(thread::initialise)
        .into_c()
}

/// Ends the calling thread's own context: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_finish() -> c_int {
    thread::finish().into_c()
}

/// Makes a further context: see `laio.h`.
///
/// # Safety
/// As for [`laio_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_context_new(options: *const laio_options) -> *mut laio_context {
    // SAFETY: by the caller.
    unsafe { options::read(options) }
        .and_then(thread::make)
        .into_c()
}

/// Ends a further context: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_context_free(context: *mut laio_context) -> c_int {
    if context.is_null() {
        return 0;
    }
    thread::free(context).into_c()
}

/// Makes a context the one that the thread uses: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_context_use(context: *mut laio_context) -> c_int {
    thread::make_current(context).into_c()
}

/// The context that the thread uses: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_context_current() -> *mut laio_context {
    thread::current().into_c()
}
