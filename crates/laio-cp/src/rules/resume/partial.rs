//! Partial files: created under a name by which a later run finds them.

use crate::io::Io;
use crate::outcome::{Failure, count, failure};
use crate::session::Session;
use crate::tree::{Entry, TemporaryNames, identity, temporary};
use laio::ops::{StatFile, StatPath, Truncate};
use laio_rt::fs::Metadata;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

/// Files with fewer bytes are copied from the beginning.
const RESUME_MIN: u64 = 1 << 20;
/// A copy continues at a multiple of this, which is a multiple of all block sizes.
const BLOCK: u64 = 64 << 10;
/// The number of times that another run may remove the file in between.
const ATTEMPTS_MAX: u32 = 16;

/// The lock on a temporary file.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held")] OwnedFd);

/// A destination that was created, or found and continued.
pub(crate) struct ResumableTarget {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) name: OsString,
    /// The number of bytes that are complete.
    pub(crate) start: u64,
    /// The status of the partial file of an earlier run, if it is continued.
    pub(crate) partial_status: Option<Metadata>,
    pub(crate) lock: Option<Lock>,
}

/// Creates the destination of a source with `open`, or opens the partial file of an earlier run.
pub(crate) async fn open_target(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    open: impl AsyncFn(i32, &OsStr) -> io::Result<OwnedFd>,
) -> io::Result<Result<ResumableTarget, Failure>> {
    let name = name_of(entry, source);
    for _ in 0..ATTEMPTS_MAX {
        let made = match open(libc::O_CREAT | libc::O_EXCL, &name).await {
            Ok(file) => Some(Arc::new(file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => return Err(error),
        };
        let file = match &made {
            Some(file) => file.clone(),
            // O_NONBLOCK: the name may be a FIFO of another user.
            None => match open(libc::O_NONBLOCK, &name).await {
                Ok(file) => Arc::new(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // The file is not writable: an earlier run has set its mode, or it belongs to
                // another user.
                Err(_) => break,
            },
        };
        match lock(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let name = entry.quoted_target();
                return Ok(Err(failure!("another process is copying {name}")));
            }
            // The file system has no locks, so the file may be in use.
            Err(_) if made.is_none() => break,
            Err(_) => return Ok(Ok(resumable(file, name, None))),
        }
        let lock = match Lock::keep(&file) {
            Ok(lock) => lock,
            Err(error) => {
                if made.is_some() {
                    temporary::remove(io, entry, &name);
                }
                return Err(error.into());
            }
        };
        if made.is_some() {
            return Ok(Ok(resumable(file, name, Some(lock))));
        }
        let status = io.call_target(StatFile::new(file.clone())).await?;
        let stat = StatPath::new(entry.sibling(&name)).no_follow();
        let existing = io.call_target(stat).await;
        if !existing.is_ok_and(|existing| identity(&existing) == identity(&status)) {
            // The process that held the lock has renamed the file.
            continue;
        }
        if !is_ours(session, source, &status) {
            break;
        }
        let start = proven_prefix(source, &status);
        io.call_target(Truncate::new(file.clone(), start)).await?;
        if start > 0 {
            count(&io.counters().continued);
        }
        return Ok(Ok(ResumableTarget {
            start,
            partial_status: Some(status),
            ..resumable(file, name, Some(lock))
        }));
    }
    let made = temporary::create(
        || session.temporary_names.next(),
        async |name: &OsStr| open(libc::O_CREAT | libc::O_EXCL, name).await,
    );
    let (file, name) = made.await?;
    Ok(Ok(resumable(Arc::new(file), name, None)))
}

fn resumable(file: Arc<OwnedFd>, name: OsString, lock: Option<Lock>) -> ResumableTarget {
    ResumableTarget {
        file,
        name,
        start: 0,
        partial_status: None,
        lock,
    }
}

impl Lock {
    /// Keeps the lock of an open file. The lock belongs to the open file; the duplicated descriptor keeps it after the
    /// first is closed (to see write errors) and until the file gets its name.
    fn keep(file: &impl AsFd) -> rustix::io::Result<Lock> {
        Ok(Lock(rustix::io::fcntl_dupfd_cloexec(file, 0)?))
    }
}

/// Locks a file while it is open.
pub(super) fn lock(file: &impl AsFd) -> rustix::io::Result<()> {
    rustix::io::retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive))
}

/// Whether only this user can have written the file.
fn is_ours(session: &Session, source: &Metadata, status: &Metadata) -> bool {
    let process = &session.process;
    // An earlier run may have changed the owner.
    let is_given = process.is_privileged()
        && session.options.preserve.ownership
        && status.user() == source.user();
    status.is_file() && status.links() == 1 && (status.user() == process.user || is_given)
}

/// The number of leading bytes that are proven to equal the source. The name proves that the source
/// is unchanged and the machine was not rebooted; the file's creation time excludes changes that
/// the source's times do not show; files are written from the beginning.
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

/// The temporary name of a copy, derived from its final name, the source's identity and times, the
/// directory and the boot ID. Data that had not reached the device is lost by a reboot.
fn name_of(entry: &Entry, source: &Metadata) -> OsString {
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
    temporary::resumable_name(parts)
}

/// The boot ID of the machine.
fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        // A unique value: no partial file is found then.
        read.unwrap_or_else(|_| format!("{:?}", TemporaryNames::of_process()))
    })
}

/// Whether the source last changed well before `since`, so that its times, however coarse, show
/// every change after `since`. Compares the clocks of the two file systems.
pub(super) fn was_stable_before(source: &Metadata, since: i64) -> bool {
    /// The coarsest file system (FAT) has a precision of 2 seconds.
    const PRECISION: i64 = 2;
    let changed = source.changed().max(source.modified());
    since - changed.seconds > PRECISION
}
