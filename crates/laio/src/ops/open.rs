//! Opening files.

use super::outputs::descriptor;
use super::{Name, pointer};
use crate::Call;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

operation! {
    /// Opens a file. The descriptor has `O_CLOEXEC`.
    pub struct Open<F: AsFd = OwnedFd> {
        name: Name<F>,
        how: libc::open_how,
    }

    // SAFETY: the name is on the operation's heap, and `open_how` is part of the operation.
    unsafe call(self) {
        let (directory, path) = self.name.words();
        if self.how.resolve == 0 {
            // Plain openat also works where openat2 does not exist, or an older filter forbids it.
            let (flags, mode) = (self.how.flags as usize, self.how.mode as usize);
            return Call::new(libc::SYS_openat, [directory, path, flags, mode]);
        }
        let how = pointer(&mut self.how);
        let args = [directory, path, how, size_of::<libc::open_how>()];
        Call::new(libc::SYS_openat2, args)
    }

    /// The new descriptor. With [`Open::beneath`] `EAGAIN` means that a directory of the path was
    /// renamed meanwhile (or that a limit of the context is reached): retry.
    finish(self, result) -> io::Result<OwnedFd> { descriptor(result) }
}

impl<F> Open<F> {
    /// Opens with `O_*` flags.
    pub fn new(name: Name<F>, flags: i32) -> Self {
        // SAFETY: plain data, for which all zeros is a valid value.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (flags | libc::O_CLOEXEC) as u64;
        if makes_file(flags) {
            how.mode = 0o666;
        }
        Open { name, how }
    }

    /// Sets the permissions of a created file, reduced by the umask. The default is 0o666.
    pub fn mode(mut self, mode: u32) -> Self {
        // openat2 refuses a mode that would not be used.
        if makes_file(self.how.flags as i32) {
            self.how.mode = (mode & 0o7777).into();
        }
        self
    }

    /// Prevents the name from leaving the directory, through `..`, an absolute path, symbolic links
    /// or links of `/proc` (`RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`). A name that would fails
    /// with `EXDEV`.
    pub fn beneath(self) -> Self {
        self.resolve(libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS)
    }

    pub(super) fn flags(&self) -> i32 {
        self.how.flags as i32
    }

    /// Restricts how the name is resolved: `RESOLVE_*` bits of `openat2` (Linux 5.6).
    pub fn resolve(mut self, bits: u64) -> Self {
        self.how.resolve |= bits;
        self
    }
}

fn makes_file(flags: i32) -> bool {
    flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE
}
