//! The names of files and directories that get their own name when they are complete.
//!
//! A server that is killed leaves such a name. So that the next start removes it although other servers may be at work
//! in the directory, the server holds a lock (`flock`) on what has the name, which the kernel releases with the
//! process. Only names that say so are locked: those on file systems whose locks no other kernel shares.

use super::file_system::is_local;
use laio_rt::Descriptor;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::CString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;

/// The beginning of the names of what is not complete yet, or replaced already. Starts remove it.
const PREFIX: &str = ".laio-upload-";
/// What follows it in the name of something locked.
const LOCKED: &str = "locked-";
/// The beginning of the names of what is about to be replaced, which no start removes.
const ASIDE: &str = ".laio-replaced-";

/// Whether any part of a name is that of a temporary file, which requests cannot name.
pub fn is_temporary(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'/')
        .any(|part| is_incomplete(part) || part.starts_with(ASIDE.as_bytes()))
}

/// Whether a name without slashes is that of something incomplete.
pub fn is_incomplete(leaf: &[u8]) -> bool {
    leaf.starts_with(PREFIX.as_bytes())
}

/// Whether a name without slashes is that of something locked.
pub fn is_locked(leaf: &[u8]) -> bool {
    let rest = leaf.strip_prefix(PREFIX.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(LOCKED.as_bytes()))
}

/// Returns a new name for something incomplete. `locked`: it is locked, or removed at once.
pub fn temporary_name(locked: bool) -> CString {
    let locked = if locked { LOCKED } else { "" };
    with_random(&format!("{PREFIX}{locked}"))
}

/// Returns a new name for something that keeps it until something else has its own name.
pub fn aside_name() -> CString {
    with_random(ASIDE)
}

fn with_random(prefix: &str) -> CString {
    let random = RandomState::new().hash_one(0);
    CString::new(format!("{prefix}{random:016x}")).unwrap_or_default()
}

/// Whether the server locks what it makes in this directory.
pub fn locks_in(directory: &Descriptor) -> bool {
    is_local(directory)
}

/// Locks a file or directory until its last descriptor is closed. Returns false if another process has locked it.
///
/// # Errors
/// When the file system has no locks.
pub fn lock(file: impl AsFd) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_recognised() {
        for locked in [false, true] {
            let name = temporary_name(locked);
            assert!(is_temporary(name.as_bytes()) && is_incomplete(name.as_bytes()));
            assert_eq!(is_locked(name.as_bytes()), locked);
            assert_ne!(name, temporary_name(locked));
        }
        assert!(is_temporary(b"a/.laio-upload-1/b"));
        let aside = aside_name();
        assert!(is_temporary(aside.as_bytes()) && !is_incomplete(aside.as_bytes()));
        assert!(!is_temporary(b"a/laio-upload-1") && !is_temporary(b""));
    }
}
