//! Files that are not complete: made under a name by which a later run finds them.

use super::was_stable_before;
use crate::directory::Entry;
use crate::identity::identity;
use crate::outcome::{Failure, count};
use crate::temporary;
use crate::verify::Digest;
use crate::worker::Worker;
use laio::ops::{StatFile, StatPath, Truncate};
use laio_rt::fs::Metadata;
use rustix::fs::{FlockOperation, flock};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

/// What the names of such files begin with; 32 hexadecimal digits follow.
pub(super) const PREFIX: &str = ".laio-cp-r-";
/// Of a digest, so many digits are in the name.
pub(super) const DIGITS: usize = 32;
/// With less than this, it is not worth while to go on.
const RESUME_MIN: u64 = 1 << 20;
/// Where it is gone on is a multiple of this: of the blocks of file systems.
const BLOCK: u64 = 64 << 10;
/// How often another run may take a file away.
const ATTEMPTS_MAX: u32 = 16;

/// Keeps other processes off a temporary file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held")] OwnedFd);

/// A destination that has been made, or found.
pub(crate) struct ResumableTarget {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) name: OsString,
    /// How much of it is there.
    pub(crate) start: u64,
    /// The status of one that was found.
    pub(crate) found: Option<Metadata>,
    pub(crate) lock: Option<Lock>,
}

/// Makes the destination of a source, by `open` with these flags and a name, or finds what an earlier run has
/// left of it.
pub(crate) async fn open_target(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    open: impl AsyncFn(i32, &OsStr) -> io::Result<OwnedFd>,
) -> io::Result<Result<ResumableTarget, Failure>> {
    let name = resumable_name(entry, source);
    for _ in 0..ATTEMPTS_MAX {
        let made = match open(libc::O_CREAT | libc::O_EXCL, &name).await {
            Ok(file) => Some(Arc::new(file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => return Err(error),
        };
        let file = match &made {
            Some(file) => file.clone(),
            // Nobody else's FIFO makes it wait.
            None => match open(libc::O_NONBLOCK, &name).await {
                Ok(file) => Arc::new(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // It cannot be written to: an earlier run has given it its mode already, or it is not ours.
                Err(_) => break,
            },
        };
        let lock = match lock(&file) {
            Ok(lock) => lock,
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                let name = entry.quoted_target();
                return Ok(Err(Failure::because(format!(
                    "another process is making {name} at the moment"
                ))));
            }
            // Without locks nobody knows whether it is left over.
            Err(_) if made.is_none() => break,
            Err(_) => return Ok(Ok(resumable(file, name, None))),
        };
        if made.is_some() {
            return Ok(Ok(resumable(file, name, Some(lock))));
        }
        let status = worker.call_target(StatFile::new(file.clone())).await?;
        let there = worker
            .call_target(StatPath::new(entry.sibling(&name)).no_follow())
            .await;
        if !there.is_ok_and(|there| identity(&there) == identity(&status)) {
            // Whoever had the lock has given it its own name.
            continue;
        }
        if !is_ours(worker, source, &status) {
            break;
        }
        let start = proven_prefix(source, &status);
        worker
            .call_target(Truncate::new(file.clone(), start))
            .await?;
        if start > 0 {
            count(&worker.counters().continued);
        }
        return Ok(Ok(ResumableTarget {
            start,
            found: Some(status),
            ..resumable(file, name, Some(lock))
        }));
    }
    let made =
        temporary::create(async |name: &OsStr| open(libc::O_CREAT | libc::O_EXCL, name).await);
    let (file, name) = made.await?;
    Ok(Ok(resumable(Arc::new(file), name, None)))
}

fn resumable(file: Arc<OwnedFd>, name: OsString, lock: Option<Lock>) -> ResumableTarget {
    ResumableTarget {
        file,
        name,
        start: 0,
        found: None,
        lock,
    }
}

/// The lock is the open file's; the descriptor that keeps it outlives the one that is closed, and asked for
/// errors, before the file gets its name.
pub(super) fn lock(file: &impl AsFd) -> rustix::io::Result<Lock> {
    flock(file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(Lock(rustix::io::fcntl_dupfd_cloexec(file, 0)?))
}

/// Nobody else has written into it.
fn is_ours(worker: &Worker, source: &Metadata, status: &Metadata) -> bool {
    let process = &worker.session.process;
    // An earlier run may have given it its owner already.
    let is_given = process.is_privileged()
        && worker.options().preserve.ownership
        && status.user() == source.user();
    status.is_file() && status.links() == 1 && (status.user() == process.user || is_given)
}

/// How much of what is there is proven to be what the source begins with: the name says that it is this source,
/// unchanged, and that the machine has not been started anew since; the time at which it was made
/// excludes a change that the times of the source would not show. The file grew from its beginning on.
fn proven_prefix(source: &Metadata, status: &Metadata) -> u64 {
    let Some(made) = status.created() else {
        return 0;
    };
    let size = status.size();
    if !was_stable_before(source, made.seconds) || size < RESUME_MIN || size > source.size() {
        return 0;
    }
    size / BLOCK * BLOCK
}

/// The name depends on the name of the copy, on the source as it is now, and on where and since when the
/// machine runs: data that had not reached the device is lost with its memory.
fn resumable_name(entry: &Entry, source: &Metadata) -> OsString {
    let target = entry.directory.info.as_ref().map(|found| &found.target);
    let location = target.map(|target| (target.device(), target.inode(), target.mount()));
    let (modified, changed) = (source.modified(), source.changed());
    let facts = format!(
        "{location:?} {:?} {} {modified:?} {changed:?} {}",
        identity(source),
        source.size(),
        boot_id()
    );
    let parts = [entry.new_name().as_bytes(), &[0], facts.as_bytes()];
    let digest = Digest::of(parts).to_string();
    format!("{PREFIX}{}", &digest[..DIGITS]).into()
}

/// Which of the machine's lives this is.
fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        // Nothing is found again, then.
        read.unwrap_or_else(|_| format!("{:?}", temporary::unique_name()))
    })
}
