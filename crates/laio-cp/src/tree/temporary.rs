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

/// The prefix of the names that a later run with `--resume` recognizes, followed by [`DIGITS`] hexadecimal digits.
pub(crate) const RESUMABLE_PREFIX: &str = ".laio-cp-r-";

/// The number of attempts to find an unused name.
const ATTEMPTS_MAX: u32 = 16;
/// The number of digits of the digest in names with one.
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

/// A name that a later run with `--resume` recognizes.
pub(crate) fn resumable_name<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> OsString {
    let digest = Digest::of(parts).to_string();
    format!("{RESUMABLE_PREFIX}{}", &digest[..DIGITS]).into()
}

/// Whether a name is one of these.
pub(crate) fn is_resumable_name(name: &OsStr) -> bool {
    let digits = name.as_bytes().strip_prefix(RESUMABLE_PREFIX.as_bytes());
    digits.is_some_and(|digits| {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == DIGITS && digits.iter().all(is_digit)
    })
}

/// Creates something with `make` under a temporary name, which `next` returns. Returns that name.
pub(crate) async fn create<T>(
    next: impl Fn() -> OsString,
    mut make: impl AsyncFnMut(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    let mut tries = 0;
    loop {
        let name = next();
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
    let mut result = if replaces {
        io.call_target(rename(0)).await
    } else {
        io.call_target(rename(libc::RENAME_NOREPLACE)).await
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

/// A link or special file under a temporary name. Dropping it removes it.
pub(crate) struct Unplaced<'a> {
    pub(crate) io: &'a Io,
    pub(crate) entry: &'a Entry,
    name: Option<OsString>,
}

impl<'a> Unplaced<'a> {
    pub(crate) fn new(io: &'a Io, entry: &'a Entry, name: OsString) -> Unplaced<'a> {
        Unplaced {
            io,
            entry,
            name: Some(name),
        }
    }

    pub(crate) fn name(&self) -> &OsStr {
        self.name.as_deref().expect("taken only when it is placed")
    }

    /// Renames it to its final name, in place of an existing file.
    pub(crate) async fn place(mut self) -> Result<(), Failure> {
        let name = self.name.take().expect("placed once");
        rename_into_place(self.io, self.entry, &name, true).await
    }
}

impl Drop for Unplaced<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            remove(self.io, self.entry, name);
        }
    }
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
    fn other_names_are_not_resumable() {
        let name = |text: &str| is_resumable_name(OsStr::new(text));
        assert!(is_resumable_name(&resumable_name([&b"x"[..]])));
        assert!(name(".laio-cp-r-0123456789abcdef0123456789abcdef"));
        assert!(!name(".laio-cp-r-0123456789abcdef0123456789abcde"));
        assert!(!name(".laio-cp-r-0123456789abcdef0123456789abcdeF"));
        assert!(!name(".laio-cp-r-0123456789abcdef0123456789abcdef0"));
        assert!(!name(".laio-cp-123-0-0badcafe"));
        assert!(!name("r-0123456789abcdef0123456789abcdef"));
    }

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
