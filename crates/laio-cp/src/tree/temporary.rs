//! Temporary names of files that are not complete.

use super::directory::Entry;
use crate::digest::Digest;
use crate::io::Io;
use crate::outcome::Failure;
use laio::Errno;
use laio::ops::{Rename, Unlink};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The prefix of temporary names. After a crash, a file with such a name is incomplete.
pub const PREFIX: &str = ".laio-cp-";

/// The number of attempts to find an unused name.
const ATTEMPTS_MAX: u32 = 16;
/// The number of digits of the digest in the names of a process that works on a plan.
const DIGITS: usize = 32;

/// The temporary names of one process, each of which it uses once.
#[derive(Debug)]
pub(crate) struct TemporaryNames {
    stem: String,
    next: AtomicU64,
}

impl TemporaryNames {
    /// The names of this process.
    pub(crate) fn of_process() -> TemporaryNames {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.unwrap_or_default().as_nanos();
        let process = std::process::id();
        TemporaryNames::with(format!("{PREFIX}{process:x}-{time:x}-"))
    }

    /// The names of the process with this token, which works on a plan. `--finish` recognizes them
    /// by the token: a PID belongs to other processes, too, later or on other machines.
    pub(crate) fn of_attempt(plan: &str, token: &str) -> TemporaryNames {
        let digest = Digest::of([plan.as_bytes(), &[0], token.as_bytes()]).to_string();
        TemporaryNames::with(format!("{PREFIX}w-{}-", &digest[..DIGITS]))
    }

    fn with(stem: String) -> TemporaryNames {
        TemporaryNames {
            stem,
            next: AtomicU64::new(0),
        }
    }

    /// A name that was not used before.
    pub(crate) fn next(&self) -> OsString {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}{number:x}", self.stem).into()
    }

    /// Whether the process may have used this name.
    pub(crate) fn contains(&self, name: &OsStr) -> bool {
        let number = name.as_bytes().strip_prefix(self.stem.as_bytes());
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        number.is_some_and(|number| !number.is_empty() && number.iter().all(is_digit))
    }
}

/// Creates something with `make` under a temporary name. Returns that name.
pub(crate) async fn create<T>(
    names: &TemporaryNames,
    mut make: impl AsyncFnMut(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    let mut tries = 0;
    loop {
        let name = names.next();
        match make(&name).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < ATTEMPTS_MAX => {
                tries += 1
            }
            result => return result.map(|made| (made, name)),
        }
    }
}

/// Renames a file to its final name. An existing file is replaced only if `replaces` is set.
pub(crate) async fn rename_into_place(
    io: &Io,
    entry: &Entry,
    name: &OsStr,
    replaces: bool,
) -> Result<(), Failure> {
    let rename = |flags| Rename::new(entry.sibling(name), entry.target()).flags(flags);
    let mut result = match replaces {
        true => io.call_target(rename(0)).await,
        false => io.call_target(rename(libc::RENAME_NOREPLACE)).await,
    };
    let cannot = |error: &io::Error| error.raw_os_error() == Some(Errno::INVAL.raw());
    if !replaces && result.as_ref().is_err_and(cannot) {
        // The file system does not support RENAME_NOREPLACE.
        result = io.call_target(rename(0)).await;
    }
    result.map_err(|error| {
        remove(io, entry, name);
        entry.target_failure("cannot rename the temporary file to")(error)
    })
}

/// Removes a file that does not get its final name.
pub(crate) fn remove(io: &Io, entry: &Entry, name: &OsStr) {
    // On failure the file stays; its name shows that it is incomplete.
    let _ = io.call_blocking(Unlink::new(entry.sibling(name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_recognizes_its_own_names_only() {
        let names = TemporaryNames::of_attempt("plan", "host-1-2");
        let first = names.next();
        assert!(names.contains(&first) && names.contains(&names.next()));
        let mut notes = first.clone();
        notes.push("-notes");
        let others = [
            TemporaryNames::of_attempt("plan", "host-1-3").next(),
            TemporaryNames::of_attempt("other", "host-1-2").next(),
            TemporaryNames::of_process().next(),
            names.stem.clone().into(),
            notes,
        ];
        for other in others {
            assert!(!names.contains(&other), "{other:?}");
        }
    }
}
