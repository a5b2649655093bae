//! What this kernel and this environment support, found by probing.

use super::tracer;
use crate::{Call, Errno};
use std::sync::OnceLock;

/// Facts about the process's environment that do not depend on a file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// `preadv2` and `pwritev2` with `RWF_NOWAIT` reach the kernel (Linux 4.14 and no filter).
    pub(crate) nowait: bool,
    /// `openat2` with `RESOLVE_CACHED` reaches the kernel (Linux 5.12, no filter and no emulator).
    pub(crate) cached_open: bool,
    /// A non-blocking read of a file may report an end that is not there (Linux 5.9 and 5.10, see
    /// preadv2(2), BUGS).
    pub(crate) false_eof: bool,
    /// Whether real and effective user and group are the same, so that a lookup on behalf of
    /// `access` uses the same rights as `access` itself.
    pub(crate) same_identity: bool,
}

impl Facts {
    /// Returns the facts. They are probed once, except for the identity, which is the calling
    /// thread's; filters installed later are noticed call by call.
    pub(crate) fn get() -> Facts {
        static FACTS: OnceLock<Facts> = OnceLock::new();
        Facts {
            same_identity: same_identity(),
            ..*FACTS.get_or_init(Facts::probe)
        }
    }

    fn probe() -> Facts {
        let (major, minor) = kernel_version();
        Facts {
            nowait: nowait_probe() == Errno::BADF,
            cached_open: tracer::rewriting().is_none()
                && open_probe(libc::RESOLVE_CACHED) == Errno::BADF,
            false_eof: (major, minor) == (5, 9) || (major, minor) == (5, 10),
            same_identity: same_identity(),
        }
    }
}

fn same_identity() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() == geteuid() && getgid() == getegid()
}

/// The errno of a non-blocking read of an invalid descriptor: `EBADF` where it is usable, else that
/// of a filter or of an old kernel.
fn nowait_probe() -> Errno {
    let args = [usize::MAX, 0, 0, 0, 0, libc::RWF_NOWAIT as usize];
    // SAFETY: a bad descriptor and no vectors: the kernel reads nothing.
    let result = unsafe { crate::sys::syscall(&Call::new(libc::SYS_preadv2, args)) };
    result.err().unwrap_or(Errno::NOSYS)
}

/// Whether `openat2` reaches the kernel (Linux 5.6 and no filter). Not remembered: a filter may be the thread's.
pub(crate) fn resolves_beneath() -> bool {
    open_probe(libc::RESOLVE_BENEATH) == Errno::BADF
}

/// The errno of an `openat2` below an invalid descriptor: `EBADF` where it is usable.
fn open_probe(resolve: u64) -> Errno {
    // SAFETY: plain data, for which all zeros is a valid value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = libc::O_PATH as u64;
    how.resolve = resolve;
    let name = c"laio";
    let args = [
        usize::MAX,
        name.as_ptr() as usize,
        (&raw const how) as usize,
        size_of::<libc::open_how>(),
    ];
    // SAFETY: name and struct live through the call; the directory is no descriptor.
    let result = unsafe { crate::sys::syscall(&Call::new(libc::SYS_openat2, args)) };
    result.err().unwrap_or(Errno::NOSYS)
}

/// Whether `statx` reaches the kernel (Linux 4.11, no filter and no emulator). Probed once.
pub(crate) fn has_statx() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let name = c"laio".as_ptr() as usize;
        let call = Call::new(libc::SYS_statx, [usize::MAX, name, 0, 0, 0]);
        // SAFETY: the name lives for ever; the directory is no descriptor, so nothing is written.
        let result = unsafe { crate::sys::syscall(&call) };
        tracer::rewriting().is_none() && result == Err(Errno::BADF)
    })
}

/// Whether the kernel has extended-attribute calls relative to a directory (`getxattrat` and the
/// like, Linux 6.13, no filter and no emulator). Probed once.
pub(crate) fn attributes_at() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        // listxattrat, which has this number on all architectures.
        let call = Call::new(465, [usize::MAX, c"laio".as_ptr() as usize, 0, 0, 0]);
        // SAFETY: the name lives for ever, and the directory is no descriptor.
        let result = unsafe { crate::sys::syscall(&call) };
        tracer::rewriting().is_none() && result == Err(Errno::BADF)
    })
}

/// Major and minor version of the running kernel; zeros if it does not say.
pub(crate) fn kernel_version() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}
