//! Syncs directories (`--fsync`): the name of a file is durable when its directory is.

use crate::outcome::Failure;
use crate::quote::quote;
use crate::session::{Phase, Session};
use crate::tree::{Directory, Entry, Handle};
use rustix::fs::{CWD, Mode, OFlags, fsync, openat};
use rustix::io::{Errno, retry_on_intr};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Syncs the directory that contains the destination of an entry.
pub(crate) fn sync_directory_of(session: &Session, entry: &Entry) -> Result<(), Failure> {
    let name = entry.sibling_name(OsStr::new("."));
    let path = || entry.sibling_path(OsStr::new("."));
    sync_at(session, entry.handles().target.as_ref(), &name, &path)
}

/// Syncs a directory whose entries are all finished.
pub(crate) fn sync_directory(session: &Session, directory: &Directory, target: &Handle) {
    let path = || directory.target_path();
    if !is_wanted(session) {
        return;
    }
    let synced = match retry_on_intr(|| fsync(target)) {
        // It is open only to find names in it (O_PATH).
        Err(Errno::BADF) => sync_at(session, Some(target), Path::new("."), &path),
        synced => checked(synced, &path),
    };
    if let Err(failure) = synced {
        session.report_failure(&failure);
    }
}

fn is_wanted(session: &Session) -> bool {
    session.options.fsync && !session.options.dry_run && session.phase != Phase::Plan
}

fn sync_at(
    session: &Session,
    at: Option<&Handle>,
    name: &Path,
    path: &dyn Fn() -> PathBuf,
) -> Result<(), Failure> {
    if !is_wanted(session) {
        return Ok(());
    }
    let at = at.map_or(CWD, |handle| handle.as_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| openat(at, name, flags, Mode::empty()));
    checked(
        opened.and_then(|opened| retry_on_intr(|| fsync(&opened))),
        path,
    )
}

fn checked(synced: rustix::io::Result<()>, path: &dyn Fn() -> PathBuf) -> Result<(), Failure> {
    match synced {
        // This file system does not sync directories.
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => {
            let text = format!("cannot sync directory {}", quote(path()));
            Err(Failure::from_error(error.into(), text))
        }
    }
}

/// The directories in which the arguments of a copy get their names.
pub(crate) struct ArgumentDirectories {
    target: Option<Handle>,
    above: BTreeSet<PathBuf>,
    /// The path of the target directory, for messages.
    path: PathBuf,
}

impl ArgumentDirectories {
    /// `None` if they need not be synced.
    pub(crate) fn of(
        session: &Session,
        root: &Directory,
        arguments: &[Entry],
    ) -> Option<ArgumentDirectories> {
        let handles = root.open.get().filter(|_| is_wanted(session))?;
        Some(ArgumentDirectories {
            above: arguments.iter().map(above).collect(),
            target: handles.target,
            path: root.target_path(),
        })
    }

    /// Syncs them, and reports failures.
    pub(crate) fn sync(&self, session: &Session) {
        for above in &self.above {
            let path = || self.path.join(above);
            if let Err(failure) = sync_at(session, self.target.as_ref(), above, &path) {
                session.report_failure(&failure);
            }
        }
    }
}

fn above(entry: &Entry) -> PathBuf {
    let above = if entry.has_parents() {
        // The directories of its name are synced like others.
        None
    } else {
        Path::new(entry.new_name()).parent()
    };
    let above = above.filter(|above| !above.as_os_str().is_empty());
    above.unwrap_or(Path::new(".")).to_owned()
}
