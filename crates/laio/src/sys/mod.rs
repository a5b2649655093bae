//! The only place with assembly, signal handlers and raw memory tricks.

// On other architectures the crate's compile_error! is then the first error.
pub(crate) mod abi;
#[cfg_attr(
    any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "miri.rs"
)]
#[cfg_attr(all(not(miri), target_arch = "x86_64"), path = "x86_64.rs")]
#[cfg_attr(all(not(miri), target_arch = "aarch64"), path = "aarch64.rs")]
mod arch;
pub(crate) mod fork;
pub(crate) mod handoff;
pub(crate) mod high_fd;
pub(crate) mod interrupt;
pub(crate) mod mask;
pub(crate) mod memory;
pub(crate) mod perf;
pub(crate) mod terminal;
pub(crate) mod thread;

use crate::{Call, Errno};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::AtomicU32;

/// Selects from a system call's numbers that of this architecture.
pub(crate) const fn own_number(x86_64: Option<u16>, aarch64: Option<u16>) -> Option<u16> {
    if cfg!(target_arch = "x86_64") {
        x86_64
    } else {
        aarch64
    }
}

/// Makes the call, without going through the C library's `errno`.
///
/// # Safety
/// As for the system call: its pointers must be valid for what the kernel does with them.
#[inline(always)]
pub(crate) unsafe fn syscall(call: &Call) -> Result<usize, Errno> {
    // SAFETY: forwarded to the caller.
    Errno::from_register(unsafe { arch::syscall(call.number, &call.args) })
}

impl Call {
    /// Makes the call without a context, by the system-call instruction. It blocks if the system call
    /// does.
    ///
    /// ```
    /// // SAFETY: getpid takes no pointers.
    /// let pid = unsafe { laio::Call::new(libc::SYS_getpid, []).plain() };
    /// assert_eq!(pid, Ok(std::process::id() as usize));
    /// ```
    ///
    /// # Errors
    /// Those of the call.
    ///
    /// # Safety
    /// As for the system call.
    #[inline(always)]
    pub unsafe fn plain(&self) -> Result<usize, Errno> {
        // SAFETY: by the caller.
        unsafe { syscall(self) }
    }
}

/// Makes a call like [`syscall`], given a number and its arguments.
///
/// # Safety
/// As for [`syscall`].
#[inline(always)]
pub(crate) unsafe fn raw<const N: usize>(
    number: libc::c_long,
    args: [usize; N],
) -> Result<usize, Errno> {
    // SAFETY: forwarded to the caller.
    unsafe { syscall(&Call::new(number, args)) }
}

/// Borrows a descriptor number given by the user, for rustix. The number may be invalid, and the
/// kernel then returns `EBADF`; it is used for one call and never closed.
pub(crate) fn borrow(fd: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: -1 is excluded; a stale number only makes the kernel answer EBADF, or about another file
    // of this process, which is what the plain call by number does too.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Whether the program runs with more rights than the user who started it (set-user-ID and the
/// like).
pub(crate) fn has_rights_of_others() -> bool {
    // SAFETY: getauxval takes no pointers.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Closes a descriptor by number.
pub(crate) fn close(fd: RawFd) -> Result<usize, Errno> {
    // SAFETY: close takes no pointers.
    unsafe { raw(libc::SYS_close, [fd as usize]) }
}

/// Whether the descriptor is a socket.
pub(crate) fn is_socket(fd: RawFd) -> bool {
    matches!(
        borrow(fd).map(rustix::net::sockopt::socket_type),
        Some(Ok(_))
    )
}

/// Whether the descriptor is a stream socket.
pub(crate) fn is_stream_socket(fd: RawFd) -> bool {
    let kind = borrow(fd).map(rustix::net::sockopt::socket_type);
    matches!(kind, Some(Ok(rustix::net::SocketType::STREAM)))
}

/// Whether the descriptor is a socket with this time-out. Not by rustix, which panics where an emulator of
/// programs answers with an int instead of a time.
pub(crate) fn has_timeout(fd: RawFd, option: i32) -> bool {
    let mut time = [0u64; 2];
    let mut length = size_of_val(&time) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET as usize, option as usize);
    let (to, length) = ((&raw mut time) as usize, (&raw mut length) as usize);
    // SAFETY: the kernel writes at most this length, and then the length.
    let found = unsafe {
        raw(
            libc::SYS_getsockopt,
            [fd as usize, level, option, to, length],
        )
    };
    found.is_ok() && time != [0, 0]
}

/// Whether the descriptor is open for reading.
pub(crate) fn is_readable(fd: RawFd) -> bool {
    // SAFETY: F_GETFL takes no pointers.
    let flags = unsafe { raw(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize]) };
    flags.is_ok_and(|flags| {
        let flags = flags as i32;
        flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_WRONLY
    })
}

/// Whether the descriptor's open file has a position.
pub(crate) fn has_position(fd: RawFd) -> bool {
    // SAFETY: lseek takes no pointers.
    unsafe { raw(libc::SYS_lseek, [fd as usize, 0, libc::SEEK_CUR as usize]) }.is_ok()
}

/// Whether the descriptor's open file is in non-blocking mode. A bad descriptor is not.
pub(crate) fn is_nonblocking(fd: RawFd) -> bool {
    has_status_flag(fd, libc::O_NONBLOCK)
}

/// How often the calling kernel thread has gone to sleep.
pub(crate) fn voluntary_switches() -> i64 {
    // SAFETY: plain data, for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let args = [libc::RUSAGE_THREAD as usize, (&raw mut usage) as usize];
    // SAFETY: the kernel writes this struct.
    let _ = unsafe { raw(libc::SYS_getrusage, args) };
    usage.ru_nvcsw
}

/// Whether an open file has one of the flags that `F_GETFL` returns.
pub(crate) fn has_status_flag(fd: RawFd, flag: i32) -> bool {
    // SAFETY: F_GETFL takes no pointers.
    let flags = unsafe { raw(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize]) };
    flags.is_ok_and(|flags| flags & flag as usize != 0)
}

/// Sleeps while the word has this value; may wake up early.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, private: bool) {
    let operation = libc::FUTEX_WAIT | if private { libc::FUTEX_PRIVATE_FLAG } else { 0 };
    let address = word.as_ptr() as usize;
    // SAFETY: the word lives through the call; a null time-out is none.
    let _ = unsafe {
        raw(
            libc::SYS_futex,
            [address, operation as usize, value as usize, 0],
        )
    };
}

/// Wakes at most `count` threads of this process that sleep in [`futex_wait`].
pub(crate) fn futex_wake(word: &AtomicU32, most: usize) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let address = word.as_ptr() as usize;
    // SAFETY: the kernel uses the address only.
    let _ = unsafe { raw(libc::SYS_futex, [address, operation as usize, most]) };
}
