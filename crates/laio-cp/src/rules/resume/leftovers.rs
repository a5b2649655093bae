//! Removes temporary files that no run will continue, because their sources have changed or are
//! gone.

use super::partial::lock;
use crate::io::Io;
use crate::outcome::Failure;
use crate::quote::quote;
use crate::session::Session;
use crate::tree::temporary::is_resumable_name;
use crate::tree::{Directory, Handle, identity};
use laio::ops::{Name, Open, ReadDir, StatFile, StatPath, Unlink};
use laio_rt::fs::Metadata;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

/// Removes leftovers from a finished directory. Files that are locked, or that an earlier run
/// cannot have left, stay. A leftover that cannot be removed is reported.
pub(crate) fn remove(io: &Io, session: &Session, directory: &Directory, target: &Handle) {
    let names = list(io, target).unwrap_or_else(|error| {
        let text = format!(
            "cannot look for files of an earlier run in {}",
            quote(directory.target_path())
        );
        session.report_failure(&Failure::from_error(error, text));
        Vec::new()
    });
    for name in names {
        let path = || quote(directory.target_path().join(&name));
        match remove_one(io, session, target, &name) {
            Ok(true) if session.options.verbose => {
                session.console.print(&format!("removed {}", path()));
            }
            Ok(_) => {}
            // Another run has removed it, or it belongs to another user.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) => {}
            Err(error) => {
                let text = format!("cannot remove {}, which an earlier run has left", path());
                session.report_failure(&Failure::from_error(error, text));
            }
        }
    }
}

fn list(io: &Io, target: &Handle) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    loop {
        // This descriptor was not read before, so it starts at the beginning.
        let entries = io.call_blocking(ReadDir::new(target.clone()))?;
        if entries.is_empty() {
            return Ok(names);
        }
        let found = entries.iter().map(|entry| entry.name());
        names.extend(
            found
                .filter(|name| is_resumable_name(name))
                .map(OsStr::to_owned),
        );
    }
}

/// Removes a leftover. Returns `false` if it stays, because no earlier run can have left it or a process uses it.
fn remove_one(io: &Io, session: &Session, target: &Handle, name: &OsStr) -> io::Result<bool> {
    let at = || Name::from_path_at(target.clone(), name);
    let process = &session.process;
    let is_ours = |status: &Metadata| status.user() == process.user || process.is_privileged();
    let existing = io.call_blocking(StatPath::new(at()?).no_follow())?;
    if existing.is_dir() || existing.links() != 1 || !is_ours(&existing) {
        return Ok(false);
    }
    // A link or a special file has its temporary name for a moment only, and no lock.
    let mut held = None;
    if existing.is_file() {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = Arc::new(io.call_blocking(Open::new(at()?, flags))?);
        let status = io.call_blocking(StatFile::new(file.clone()))?;
        match lock(&file) {
            Ok(()) if identity(&status) == identity(&existing) => held = Some(file),
            // In use; or the file system has no locks, so that it may be.
            Ok(()) | Err(Errno::WOULDBLOCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let removed = io.call_blocking(Unlink::new(at()?));
    drop(held);
    removed.map(|()| true)
}
