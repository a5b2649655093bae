//! Hard links: to the copy of another name of the same file, or to the source; and symbolic links to the
//! source.

use crate::attributes::{self, Object};
use crate::directory::{Entry, Handle};
use crate::entry::Copied;
use crate::existing::Place;
use crate::links::First;
use crate::made::identity;
use crate::options::Existing;
use crate::outcome::{Done, Failure};
use crate::quote::{bare, quote};
use crate::temporary;
use crate::worker::Worker;
use laio::ops::{Link, Name, StatPath, Symlink};
use laio_rt::fs::Metadata;
use rustix::fs::{AtFlags, CWD, linkat};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Makes the destination another name of a copy that is there.
pub(crate) async fn to_first(
    worker: &Worker,
    entry: &Entry,
    first: &First,
    place: &Place,
) -> Result<Copied, Failure> {
    let failed = |error| {
        let (target, first) = (entry.quoted_target(), quote(first.path()));
        Failure::of(
            error,
            format!("cannot create hard link {target} to {first}"),
        )
    };
    let found = first.find(worker).map_err(failed)?;
    if matches!(place, Place::Existing(_)) && is_one(worker, &found, entry).await {
        return Ok(linked(first));
    }
    let at = async |name: &OsStr| {
        worker
            .write(Link::new(found.clone(), entry.beside(name)))
            .await
    };
    make_replacing(
        worker,
        entry,
        matches!(place, Place::Existing(_)),
        at,
        failed,
    )
    .await?;
    Ok(linked(first))
}

fn linked(first: &First) -> Copied {
    Copied {
        digest: first.digest,
        ..Copied::without_data(Done::Linked)
    }
}

/// Whether the destination is a name of that file already.
async fn is_one(worker: &Worker, first: &Name<Handle>, entry: &Entry) -> bool {
    let status = async |name: Name<Handle>| worker.write(StatPath::new(name).no_follow()).await;
    match (status(first.clone()).await, status(entry.target()).await) {
        (Ok(first), Ok(there)) => identity(&first) == identity(&there),
        _ => false,
    }
}

/// Makes the destination another name of the source (`-l`).
pub(crate) async fn to_source(
    worker: &Worker,
    entry: &Entry,
    place: &Place,
) -> Result<Copied, Failure> {
    let options = worker.options();
    let failed = |error| {
        let (target, source) = (entry.quoted_target(), entry.quoted_source());
        Failure::of(
            error,
            format!("cannot create hard link {target} to {source}"),
        )
    };
    let follow = worker.shared.follows(entry.argument.is_some());
    let flags = if follow {
        AtFlags::SYMLINK_FOLLOW
    } else {
        AtFlags::empty()
    };
    let at = async |name: &OsStr| {
        // The typed operation has no flags; linking is not worth another one.
        let directories = (&entry.at().source, &entry.at().target);
        let from = directories.0.as_ref().map_or(CWD, |handle| handle.as_fd());
        let to = directories.1.as_ref().map_or(CWD, |handle| handle.as_fd());
        Ok(linkat(from, &entry.name, to, name, flags)?)
    };
    let replaces = options.force || options.existing == Existing::Ask;
    let replaces = replaces && matches!(place, Place::Existing(_));
    make_replacing(worker, entry, replaces, at, failed).await?;
    Ok(Copied::without_data(Done::Linked))
}

/// Makes the destination a symbolic link to the source (`-s`), with its times if they are preserved.
pub(crate) async fn symbolic(
    worker: &Worker,
    entry: &Entry,
    status: Option<&Metadata>,
    place: &Place,
) -> Result<Copied, Failure> {
    let source = entry.source_path();
    if source.is_relative() && !is_in_working_directory(entry) {
        let name = bare(entry.target_path().as_os_str());
        return Err(Failure::because(format!(
            "{name}: can make relative symbolic links only in current directory"
        )));
    }
    let replaces = worker.options().force && matches!(place, Place::Existing(_));
    let failed = |error| {
        let (target, source) = (entry.quoted_target(), entry.quoted_source());
        Failure::of(
            error,
            format!("cannot create symbolic link {target} to {source}"),
        )
    };
    say(worker, entry, source.as_os_str(), replaces, failed).await?;
    if let Some(source) = status {
        let link = Object::Named(entry.target());
        attributes::set_times(worker, &link, source, &|| entry.target_path())?;
    }
    Ok(Copied::without_data(Done::Made))
}

/// Whether a relative path means the same where the destination is.
fn is_in_working_directory(entry: &Entry) -> bool {
    let path = entry.target_path();
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => return !path.is_absolute(),
    };
    let same = |path: &Path| rustix::fs::stat(path).map(|status| (status.st_dev, status.st_ino));
    match (same(above), same(Path::new("."))) {
        (Ok(above), Ok(here)) => above == here,
        // Whoever makes the link says why it cannot be.
        _ => true,
    }
}

/// Makes the destination a symbolic link that says `text`.
pub(crate) async fn say(
    worker: &Worker,
    entry: &Entry,
    text: &OsStr,
    replaces: bool,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    let Ok(text) = CString::new(text.as_bytes()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let at = async |name: &OsStr| {
        worker
            .write(Symlink::new(text.clone(), entry.beside(name)))
            .await
    };
    make_replacing(worker, entry, replaces, at, failed).await
}

/// Makes the destination by `at`; if something is there and is to be replaced, in one step.
async fn make_replacing(
    worker: &Worker,
    entry: &Entry,
    replaces: bool,
    at: impl AsyncFn(&OsStr) -> io::Result<()>,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    match at(entry.new_name()).await {
        Err(error) if replaces && error.kind() == io::ErrorKind::AlreadyExists => {
            let ((), name) = temporary::make(async |name: &OsStr| at(name).await)
                .await
                .map_err(failed)?;
            temporary::put(worker, entry, &name, true).await?;
            // If both were names of one file, renaming has done nothing.
            temporary::discard(worker, entry, &name);
            Ok(())
        }
        result => result.map_err(failed),
    }
}
