//! Files that options of a site name, looked for before the first request needs them.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Checks whether a request would find a file below a directory.
///
/// # Errors
/// Why it would not.
pub(super) fn check(directory: &OwnedFd, name: &[u8], resolve: u64) -> io::Result<()> {
    match FileType::from_raw_mode(status(directory, name, resolve)?.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::other("it is no file")),
    }
}

fn status(directory: &OwnedFd, name: &[u8], resolve: u64) -> rustix::io::Result<Stat> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::from_bits_retain(resolve);
    match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
        Ok(file) => rustix::fs::fstat(file),
        // No such call here; only links that lead out of the root make a difference.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::statat(directory, name, AtFlags::empty()),
        Err(errno) => Err(errno),
    }
}
