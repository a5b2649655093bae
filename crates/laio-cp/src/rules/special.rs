//! Copies symbolic links, FIFOs, sockets and devices.

use crate::io::Io;
use crate::outcome::{Copied, Done, Failure, failure};
use crate::rules::attributes::{self, AttributeCopy, CurrentAttributes, Failures, FileRef};
use crate::rules::conflict::Resolution;
use crate::rules::{link, new_file_mode};
use crate::session::Session;
use crate::tree::temporary::Unplaced;
use crate::tree::{AttributeNames, Entry};
use laio::ops::{MakeNode, Name, Node, ReadLink, StatPath};
use laio_rt::fs::{FileType, Metadata};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// Creates a symbolic link with the same target.
pub(crate) async fn symlink(
    io: &Io,
    session: &Session,
    entry: &Entry,
    status: &Metadata,
    resolution: &Resolution,
) -> Result<Copied, Failure> {
    // A short target is stored in the inode, which the `stat` before has cached.
    let text = io
        .maybe_inline(ReadLink::new(entry.source()), status.blocks() == 0)
        .await;
    let text = text.map_err(entry.source_failure("cannot read symbolic link", ""))?;
    let replaces = resolution.is_replaced(session.options.force);
    let failed = entry.target_failure("cannot create symbolic link");
    let text = text.as_os_str();
    let made = link::make_symlink(io, session, entry, text, replaces, failed).await?;
    let mut failures = Failures::new(session);
    set_attributes(io, session, (entry, &made), status, true, &mut failures);
    if let Some(made) = made {
        made.place().await?;
    }
    if session.seen_targets.has_duplicates() {
        // Record the link, so that another argument is not written through it.
        let made = io.call_blocking(StatPath::new(entry.target()).no_follow());
        made.iter().for_each(|made| session.created.insert(made));
    }
    failures.result().map_err(Failure::attributes_only)?;
    Ok(Copied::without_data(Done::Created))
}

/// Creates a file of the same type.
pub(crate) async fn node(
    io: &Io,
    session: &Session,
    entry: &Entry,
    status: &Metadata,
    resolution: &Resolution,
) -> Result<Copied, Failure> {
    let Some(node) = Node::like(status) else {
        let name = entry.quoted_source();
        return Err(failure!("{name} has unknown file type"));
    };
    let what = match status.file_type() {
        FileType::Fifo => "cannot create fifo",
        _ => "cannot create special file",
    };
    let mode = status.mode() & new_file_mode::OWNER_BITS;
    let at = async |name: &OsStr| {
        let make = MakeNode::new(entry.sibling(name), node, mode);
        io.call_target(make).await
    };
    let (replaces, failed) = (resolution.is_replaced(false), entry.target_failure(what));
    let made = link::make_replacing(io, session, entry, replaces, at, failed).await?;
    let mut failures = Failures::new(session);
    let is_owned = set_attributes(io, session, (entry, &made), status, false, &mut failures);
    let final_mode = new_file_mode::of_node(io, session, entry, status).await;
    if let (true, Some(final_mode)) = (is_owned, final_mode) {
        let target = FileRef::Named(link::name_of(entry, &made));
        let modes = (mode, final_mode);
        failures.add(new_file_mode::set_final(io, session, entry, &target, modes));
    }
    if let Some(made) = made {
        made.place().await?;
    }
    failures.result().map_err(Failure::attributes_only)?;
    Ok(Copied::without_data(Done::Created))
}

/// Sets the attributes. Returns whether the owner is right, so that the file may get permissions.
fn set_attributes(
    io: &Io,
    session: &Session,
    (entry, made): (&Entry, &Option<Unplaced<'_>>),
    status: &Metadata,
    is_link: bool,
    failures: &mut Failures<'_>,
) -> bool {
    let listed = list_attributes(io, session, entry, made);
    let (source, target) = (listed.source, listed.target);
    let names = listed.names.unwrap_or_else(|error| {
        let failed = entry.source_failure("cannot list attributes of", "");
        failures.add(Err(failed(error)));
        AttributeNames::default()
    });
    let current = CurrentAttributes::new(&session.process, &entry.directory, None);
    let attribute_copy = AttributeCopy {
        io,
        session,
        source: status,
        target: &target,
        path: &|| entry.target_path(),
        names: Some((&names, &source)),
        current,
        is_link,
    };
    attributes::set(&attribute_copy, failures)
}

/// The attributes of a link or a node, and the names by which they are read and set.
struct Listed {
    source: FileRef,
    target: FileRef,
    names: io::Result<AttributeNames>,
}

fn list_attributes(
    io: &Io,
    session: &Session,
    entry: &Entry,
    made: &Option<Unplaced<'_>>,
) -> Listed {
    let source = FileRef::Named(entry.source());
    let target = FileRef::Named(link::name_of(entry, made));
    let names = attributes::list_names(io, session, &source);
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    // Before Linux 6.13 the calls take a path, which begins with the directory's descriptor below /proc.
    if names.as_ref().is_err_and(is_missing)
        && !Path::new("/proc/thread-self").exists()
        && let Some(listed) = list_by_path(io, session, (entry, made), &target)
    {
        return listed;
    }
    Listed {
        source,
        target,
        names,
    }
}

/// Lists the attributes by the path of the source. The target has a path too only if there are attributes to set: another
/// process could replace a directory of the path.
fn list_by_path(
    io: &Io,
    session: &Session,
    (entry, made): (&Entry, &Option<Unplaced<'_>>),
    target: &FileRef,
) -> Option<Listed> {
    let by_path = |path| Name::from_path_in(None, path).ok().map(FileRef::Named);
    let source = by_path(entry.source_path())?;
    let names = attributes::list_names(io, session, &source);
    let target = match &names {
        Ok(names) if !names.0.is_empty() => by_path(match made {
            Some(made) => entry.sibling_path(made.name()),
            None => entry.target_path(),
        })?,
        _ => target.clone(),
    };
    Some(Listed {
        source,
        target,
        names,
    })
}
