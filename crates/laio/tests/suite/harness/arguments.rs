//! Arguments and results of system calls: descriptors, addresses, structs and names.

use laio::Errno;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// An argument of a system call.
pub(crate) trait Arg {
    fn arg(&self) -> usize;
}

impl Arg for OwnedFd {
    fn arg(&self) -> usize {
        self.as_raw_fd() as usize
    }
}

impl Arg for std::fs::File {
    fn arg(&self) -> usize {
        self.as_raw_fd() as usize
    }
}

impl Arg for i32 {
    fn arg(&self) -> usize {
        *self as usize
    }
}

impl Arg for CString {
    fn arg(&self) -> usize {
        self.as_ptr() as usize
    }
}

impl Arg for std::ffi::CStr {
    fn arg(&self) -> usize {
        self.as_ptr() as usize
    }
}

/// The address of a value that the kernel reads.
pub(crate) fn at<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).cast::<u8>() as usize
}

/// The address of a value that the kernel writes.
pub(crate) fn at_mut<T: ?Sized>(value: &mut T) -> usize {
    std::ptr::from_mut(value).cast::<u8>() as usize
}

/// Returns a kernel struct of zeros.
pub(crate) fn zeroed<T: Copy>() -> T {
    // SAFETY: used for the C structs of libc only, for which all zeros is a valid value.
    unsafe { std::mem::zeroed() }
}

/// The bytes of a kernel struct.
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: made by `zeroed`, so that padding is initialised too.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Takes ownership of a descriptor that a call has returned.
#[track_caller]
pub(crate) fn own(result: Result<usize, Errno>) -> OwnedFd {
    let fd = result.expect("a descriptor");
    // SAFETY: a call has just made it, and no other code knows its number.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// An event counter: a stream that every kernel reads without blocking, which it does not do for pipes before Linux
/// 6.4. Each read takes eight bytes.
// Not all of the test programs that share this file use it.
#[allow(dead_code)]
pub(crate) fn event_counter() -> OwnedFd {
    own(super::plain(
        libc::SYS_eventfd2,
        [0, libc::EFD_CLOEXEC as usize],
    ))
}

/// Makes an event counter readable.
#[allow(dead_code)]
#[track_caller]
pub(crate) fn add_one(counter: &OwnedFd) {
    assert_eq!(rustix::io::write(counter, &1u64.to_ne_bytes()), Ok(8));
}

pub(crate) fn iovec(buffer: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: buffer.as_ptr() as *mut _,
        iov_len: buffer.len(),
    }
}

pub(crate) fn iovec_mut(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    }
}

pub(crate) fn cstring(path: impl AsRef<Path>) -> CString {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_ref().as_os_str().as_bytes()).expect("a path without zeros")
}
