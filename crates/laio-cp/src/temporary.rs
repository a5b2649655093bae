//! Names that files have until they may have their own.

use crate::directory::Entry;
use crate::outcome::Failure;
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{Rename, Unlink};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What temporary names begin with. What bears such a name after a crash is incomplete.
pub const PREFIX: &str = ".laio-cp-";

/// How often another name is tried.
const ATTEMPTS_MAX: u32 = 16;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name that nobody else uses.
pub(crate) fn unique_name() -> OsString {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let process = std::process::id();
    format!("{PREFIX}{process:x}-{number:x}-{:08x}", time.subsec_nanos()).into()
}

/// Makes something under a temporary name, by `make`.
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

/// Gives it its own name. What has that name loses it, unless nothing is to have it.
pub(crate) async fn rename_into_place(
    worker: &Worker,
    entry: &Entry,
    name: &OsStr,
    replaces: bool,
) -> Result<(), Failure> {
    let rename = |flags| Rename::new(entry.sibling(name), entry.target()).flags(flags);
    let mut result = match replaces {
        true => worker.call_target(rename(0)).await,
        false => worker.call_target(rename(libc::RENAME_NOREPLACE)).await,
    };
    let cannot = |error: &io::Error| error.raw_os_error() == Some(Errno::INVAL.raw());
    if !replaces && result.as_ref().is_err_and(cannot) {
        // The file system does not know how to leave alone what may have come meanwhile.
        result = worker.call_target(rename(0)).await;
    }
    result.map_err(|error| {
        remove(worker, entry, name);
        entry.target_failure("cannot give its name to")(error)
    })
}

/// Removes what will not get its name.
pub(crate) fn remove(worker: &Worker, entry: &Entry, name: &OsStr) {
    // There is nothing better to do if it fails; the name says what it is.
    let _ = worker.call_blocking(Unlink::new(entry.sibling(name)));
}
