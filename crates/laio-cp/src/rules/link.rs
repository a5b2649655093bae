//! Creates hard links, to another copy or to the source, and symbolic links.

use crate::io::Io;
use crate::options::Existing;
use crate::outcome::{Copied, Done, Failure, failure};
use crate::quote::{bare, quote};
use crate::rules::attributes::{self, FileRef};
use crate::rules::conflict::Resolution;
use crate::rules::links::FirstCopy;
use crate::session::Session;
use crate::tree::temporary::{self, Unplaced};
use crate::tree::{Entry, Handle, identity};
use laio::ops::{Link, Name, StatPath, Symlink};
use laio_rt::fs::Metadata;
use rustix::fs::{AtFlags, CWD, linkat};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Makes the destination a hard link to an existing copy.
pub(crate) async fn to_first_copy(
    io: &Io,
    session: &Session,
    entry: &Entry,
    first: &FirstCopy,
    resolution: &Resolution,
) -> Result<Copied, Failure> {
    let failed = |error| {
        let (target, first) = (entry.quoted_target(), quote(first.path()));
        let text = format!("cannot create hard link {target} to {first}");
        Failure::from_error(error, text)
    };
    let found = first.find(io).map_err(failed)?;
    if resolution.existing().is_some() && is_link_to(io, &found, entry).await {
        return Ok(linked(first));
    }
    let at = async |name: &OsStr| {
        io.call_target(Link::new(found.clone(), entry.sibling(name)))
            .await
    };
    let exists = resolution.existing().is_some();
    place_link(make_replacing(io, session, entry, exists, at, failed).await?).await?;
    Ok(linked(first))
}

fn linked(first: &FirstCopy) -> Copied {
    Copied {
        digest: first.digest,
        ..Copied::without_data(Done::Linked)
    }
}

/// Whether the destination is a hard link of that file already.
async fn is_link_to(io: &Io, first: &Name<Handle>, entry: &Entry) -> bool {
    let status = async |name: Name<Handle>| io.call_target(StatPath::new(name).no_follow()).await;
    match (status(first.clone()).await, status(entry.target()).await) {
        (Ok(first), Ok(existing)) => identity(&first) == identity(&existing),
        _ => false,
    }
}

/// Makes the destination a hard link to the source (`-l`).
pub(crate) async fn to_source(
    io: &Io,
    session: &Session,
    entry: &Entry,
    resolution: &Resolution,
) -> Result<Copied, Failure> {
    let options = &session.options;
    let failed = |error| {
        let (target, source) = (entry.quoted_target(), entry.quoted_source());
        let text = format!("cannot create hard link {target} to {source}");
        Failure::from_error(error, text)
    };
    let follow = session.follows(entry);
    let flags = if follow {
        AtFlags::SYMLINK_FOLLOW
    } else {
        AtFlags::empty()
    };
    let at = async |name: &OsStr| {
        // The typed operation has no flags, and linking does not justify another operation.
        let directories = (&entry.handles().source, &entry.handles().target);
        let from = directories.0.as_ref().map_or(CWD, |handle| handle.as_fd());
        let to = directories.1.as_ref().map_or(CWD, |handle| handle.as_fd());
        let name = entry.sibling_name(name);
        Ok(linkat(from, &entry.name, to, &name, flags)?)
    };
    let may_replace = options.force || options.existing == Existing::Ask;
    let replaces = resolution.is_replaced(may_replace);
    place_link(make_replacing(io, session, entry, replaces, at, failed).await?).await?;
    Ok(Copied::without_data(Done::Linked))
}

/// Gives a hard link its name. If both names are hard links of one file, `rename` does nothing.
async fn place_link(made: Option<Unplaced<'_>>) -> Result<(), Failure> {
    let Some(made) = made else { return Ok(()) };
    let (io, entry, name) = (made.io, made.entry, made.name().to_owned());
    made.place().await?;
    temporary::remove(io, entry, &name);
    Ok(())
}

/// Makes the destination a symbolic link to the source (`-s`), and sets its times if they are
/// preserved.
pub(crate) async fn symlink_to_source(
    io: &Io,
    session: &Session,
    entry: &Entry,
    status: Option<&Metadata>,
    resolution: &Resolution,
) -> Result<Copied, Failure> {
    let source = entry.source_path();
    if source.is_relative() && !is_in_working_directory(entry) {
        let name = bare(entry.target_path().as_os_str());
        return Err(failure!(
            "{name}: can make relative symbolic links only in current directory"
        ));
    }
    let replaces = resolution.is_replaced(session.options.force);
    let failed = |error| {
        let (target, source) = (entry.quoted_target(), entry.quoted_source());
        let text = format!("cannot create symbolic link {target} to {source}");
        Failure::from_error(error, text)
    };
    let text = source.as_os_str();
    let made = make_symlink(io, session, entry, text, replaces, failed).await?;
    let set = status.map_or(Ok(()), |source| {
        let link = FileRef::Named(name_of(entry, &made));
        attributes::set_times(io, session, &link, source, &|| entry.target_path())
    });
    if let Some(made) = made {
        made.place().await?;
    }
    set.map(|()| Copied::without_data(Done::Created))
}

/// Whether a relative path has the same meaning in the destination's directory.
fn is_in_working_directory(entry: &Entry) -> bool {
    let path = entry.target_path();
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => return !path.is_absolute(),
    };
    let same = |path: &Path| rustix::fs::stat(path).map(|status| (status.st_dev, status.st_ino));
    match (same(above), same(Path::new("."))) {
        (Ok(above), Ok(here)) => above == here,
        // The error of creating the link is clearer.
        _ => true,
    }
}

/// Where something that was created is until it is placed.
pub(crate) fn name_of(entry: &Entry, made: &Option<Unplaced<'_>>) -> Name<Handle> {
    match made {
        Some(made) => entry.sibling(made.name()),
        None => entry.target(),
    }
}

/// Creates a symbolic link with the target `text`: see [`make_replacing`].
pub(crate) async fn make_symlink<'a>(
    io: &'a Io,
    session: &Session,
    entry: &'a Entry,
    text: &OsStr,
    replaces: bool,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<Option<Unplaced<'a>>, Failure> {
    let Ok(text) = CString::new(text.as_bytes()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let at = async |name: &OsStr| {
        io.call_target(Symlink::new(text.clone(), entry.sibling(name)))
            .await
    };
    make_replacing(io, session, entry, replaces, at, failed).await
}

/// Creates something with `at` under the name of the destination. If a file exists there that it replaces, creates it under
/// a temporary name, which the caller renames when its attributes are set: until then the existing file stays.
pub(crate) async fn make_replacing<'a>(
    io: &'a Io,
    session: &Session,
    entry: &'a Entry,
    replaces: bool,
    at: impl AsyncFn(&OsStr) -> io::Result<()>,
    failed: impl Fn(io::Error) -> Failure,
) -> Result<Option<Unplaced<'a>>, Failure> {
    match at(entry.new_name()).await {
        Err(error) if replaces && error.kind() == io::ErrorKind::AlreadyExists => {
            let next = || session.name_for_replacement();
            let made = temporary::create(next, async |name: &OsStr| at(name).await).await;
            let ((), name) = made.map_err(failed)?;
            Ok(Some(Unplaced::new(io, entry, name)))
        }
        result => result.map(|()| None).map_err(failed),
    }
}
