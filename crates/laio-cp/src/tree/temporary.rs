//! Temporary names of files that are not complete.

use super::directory::Entry;
use crate::io::Io;
use crate::outcome::Failure;
use laio::Errno;
use laio::ops::{Rename, Unlink};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The prefix of temporary names. After a crash, a file with such a name is incomplete.
pub const PREFIX: &str = ".laio-cp-";

/// The number of attempts to find an unused name.
const ATTEMPTS_MAX: u32 = 16;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns a name that no other process or thread uses.
pub(crate) fn unique_name() -> OsString {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let process = std::process::id();
    format!("{PREFIX}{process:x}-{number:x}-{:08x}", time.subsec_nanos()).into()
}

/// Creates something with `make` under a temporary name. Returns that name.
pub(crate) async fn create<T>(
    mut make: impl AsyncFnMut(&OsStr) -> io::Result<T>,
) -> io::Result<(T, OsString)> {
    let mut tries = 0;
    loop {
        let name = unique_name();
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
