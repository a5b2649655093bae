//! `struct laio_completion`.

use laio::{Completion, Handle};
use libc::{c_int, c_long, c_void};

/// An operation that has finished.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct laio_completion {
    /// The handle; it is no longer live.
    pub laio_handle: *mut c_void,
    /// The return value of the system call.
    pub laio_return_value: c_long,
    /// 0, or its error.
    pub laio_errno: c_int,
    /// 0.
    pub laio_reserved: c_int,
    /// The user pointer.
    pub laio_user: *mut c_void,
}

const _: () = assert!(size_of::<laio_completion>() == 32 && align_of::<laio_completion>() == 8);

impl From<Completion> for laio_completion {
    fn from(completion: Completion) -> laio_completion {
        let (laio_return_value, laio_errno) = match completion.result {
            Ok(value) => (value as c_long, 0),
            Err(errno) => (-1, errno.raw()),
        };
        laio_completion {
            laio_handle: to_pointer(completion.handle),
            laio_return_value,
            laio_errno,
            laio_reserved: 0,
            laio_user: completion.user_data as *mut c_void,
        }
    }
}

/// A handle is a word, not an address.
pub(crate) fn to_pointer(handle: Handle) -> *mut c_void {
    std::ptr::without_provenance_mut(handle.to_raw() as usize)
}

/// Converts a handle from C. The engine checks whether it is live, so any word is allowed.
pub(crate) fn from_pointer(handle: *mut c_void) -> Result<Handle, laio::Errno> {
    Handle::from_raw(handle.addr() as u64).ok_or(laio::Errno::NOENT)
}
