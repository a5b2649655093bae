//! Converts results for C: a number and `errno`.

use crate::thread::Local;
use laio::{Errno, Outcome};
use libc::{c_int, c_long};

/// Sets `errno`.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the C library's own, of this thread.
    unsafe { *libc::__errno_location() = errno.raw() }
}

/// Converts the outcome of a call to its C return value and `errno`, and keeps its handle.
#[inline]
pub(crate) fn conclude(local: &Local, outcome: Outcome) -> c_long {
    match outcome {
        Outcome::Done(result) => {
            local.last.set(0);
            result.into_c()
        }
        Outcome::Pending(handle) => {
            local.last.set(handle.to_raw());
            set_errno(Errno::INPROGRESS);
            -1
        }
    }
}

/// Returns an error from a C function: -1 and `errno`.
pub(crate) fn failed(errno: Errno) -> c_int {
    set_errno(errno);
    -1
}

/// Converts a result to its value, or to -1 and `errno`.
pub(crate) trait IntoC<T> {
    fn into_c(self) -> T;
}

impl IntoC<c_int> for Result<(), Errno> {
    fn into_c(self) -> c_int {
        self.map(|()| 0).into_c()
    }
}

impl IntoC<c_int> for Result<c_int, Errno> {
    fn into_c(self) -> c_int {
        self.unwrap_or_else(failed)
    }
}

impl IntoC<c_long> for Result<usize, Errno> {
    fn into_c(self) -> c_long {
        match self {
            Ok(value) => value as c_long,
            Err(errno) => {
                set_errno(errno);
                -1
            }
        }
    }
}

impl<T> IntoC<*mut T> for Result<*mut T, Errno> {
    fn into_c(self) -> *mut T {
        self.unwrap_or_else(|errno| {
            set_errno(errno);
            std::ptr::null_mut()
        })
    }
}
