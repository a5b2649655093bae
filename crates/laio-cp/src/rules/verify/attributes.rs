//! Verifies the attributes of copies.

use crate::io::Io;
use crate::outcome::{Failure, count, failure};
use crate::quote::quote;
use crate::rules::attributes::{self, FileRef};
use crate::session::Session;
use crate::tree::{AttributeNames, Directory, DirectoryInfo, Entry};
use laio::ops::{ReadLink, StatFile, StatPath};
use laio_rt::fs::{Metadata, Timestamp};
use std::io;
use std::path::PathBuf;

/// Compares the attributes of a file, and reports a difference.
pub(crate) async fn file_attributes(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    origin: (&AttributeNames, &FileRef),
    target: &FileRef,
) {
    if session.options.verify {
        compare(io, session, (source, Some(origin)), target, &|| {
            entry.target_path()
        });
    }
}

/// Compares the attributes of a finished directory.
pub(crate) fn directory_attributes(
    io: &Io,
    session: &Session,
    directory: &Directory,
    info: &DirectoryInfo,
    source: Option<&FileRef>,
    target: &FileRef,
) {
    if session.options.verify {
        let origin = source.map(|source| (&info.names, source));
        compare(io, session, (&info.source, origin), target, &|| {
            directory.target_path()
        });
    }
}

/// Compares a symbolic link, FIFO, socket or device: its type, target or number, and attributes.
pub(crate) async fn verify_special(io: &Io, session: &Session, entry: &Entry, source: &Metadata) {
    if !session.options.verify {
        return;
    }
    let target = FileRef::Named(entry.target());
    let same = match status(io, &target) {
        Err(_) => false,
        Ok(existing) if source.is_symlink() => {
            existing.is_symlink() && links_match(io, session, entry, source)
        }
        Ok(existing) => {
            existing.file_type() == source.file_type()
                && existing.represented_device() == source.represented_device()
        }
    };
    if !same {
        count(&io.counters().unverified);
        let (from, to) = (entry.quoted_source(), entry.quoted_target());
        let failure = failure!("{to} differs from {from}");
        return session.report_failure(&failure);
    }
    count(&io.counters().verified);
    let origin = FileRef::Named(entry.source());
    let names = match attributes::list_names(io, session, &origin) {
        Ok(names) => names,
        Err(error) => {
            count(&io.counters().unverified);
            let failed = entry.source_failure("cannot list attributes of", "");
            return session.report_failure(&failed(error));
        }
    };
    let origin = Some((&names, &origin));
    compare(io, session, (source, origin), &target, &|| {
        entry.target_path()
    });
}

/// Whether two symbolic links have the same target.
pub(crate) fn links_match(io: &Io, session: &Session, entry: &Entry, source: &Metadata) -> bool {
    let text = |name| io.call_blocking(ReadLink::new(name)).ok();
    let texts = (text(entry.source()), text(entry.target()));
    let options = &session.options;
    if options.preserve.timestamps && !options.dry_run {
        // Reading the link has changed its access time. A failure to set times was reported before.
        let _ = FileRef::Named(entry.target()).set_times(io, source);
    }
    matches!(texts, (Some(text), Some(existing)) if text == existing)
}

/// The status of a source; the names of its extended attributes, and the file to read them from.
type Origin<'a> = (&'a Metadata, Option<(&'a AttributeNames, &'a FileRef)>);

fn compare(
    io: &Io,
    session: &Session,
    source: Origin<'_>,
    target: &FileRef,
    path: &dyn Fn() -> PathBuf,
) {
    let failure = match status(io, target) {
        Ok(existing) => match &differences(io, session, source, (target, &existing))[..] {
            [] => return,
            found => failure!(
                "the attributes of {} differ from its source: {}",
                quote(path()),
                found.join("; ")
            ),
        },
        Err(error) => {
            let text = format!("cannot verify attributes of {}", quote(path()));
            Failure::from_error(error, text)
        }
    };
    count(&io.counters().unverified);
    session.report_failure(&failure);
}

/// Describes all differences of the attributes that the options preserve.
fn differences(
    io: &Io,
    session: &Session,
    (source, origin): Origin<'_>,
    (target, existing): (&FileRef, &Metadata),
) -> Vec<String> {
    let preserve = session.options.preserve;
    let mut found = Vec::new();
    let owner = |status: &Metadata| (status.user(), status.group());
    let is_owned = owner(source) == owner(existing);
    if preserve.ownership && session.process.is_privileged() && !is_owned {
        let ((user, group), (is_user, is_group)) = (owner(source), owner(existing));
        found.push(format!("owner {is_user}:{is_group}, not {user}:{group}"));
    }
    // Without the source's owner the copy does not get special bits.
    let bits = if is_owned { 0o7777 } else { 0o777 };
    let (wanted, mode) = (source.mode() & bits, existing.mode() & bits);
    if preserve.mode && !source.is_symlink() && wanted != mode {
        found.push(format!("mode {mode:04o}, not {wanted:04o}"));
    }
    let (wanted, time) = (source.modified(), existing.modified());
    if preserve.timestamps && !is_same_time(wanted, time) {
        found.push(format!("changed at {time:?}, not {wanted:?}"));
    }
    if let Some((names, origin)) = origin {
        found.extend(attributes::differences(io, session, names, origin, target));
    }
    found
}

/// Whether two times are equal within the precision of the destination.
fn is_same_time(wanted: Timestamp, existing: Timestamp) -> bool {
    wanted == existing || is_coarser(wanted, existing)
}

/// Whether `there` is `wanted` in the precision of a coarser file system.
pub(crate) fn is_coarser(wanted: Timestamp, existing: Timestamp) -> bool {
    let round = [1_000_000_000, 1_000_000, 1_000, 100];
    let rounded = |by: &u32| existing.nanoseconds == wanted.nanoseconds / by * by;
    let same_second = existing.seconds == wanted.seconds && round.iter().any(rounded);
    // FAT stores even seconds, and some implementations round up.
    let even = existing.nanoseconds == 0 && existing.seconds.abs_diff(wanted.seconds) <= 1;
    same_second || even
}

fn status(io: &Io, object: &FileRef) -> io::Result<Metadata> {
    match object {
        FileRef::Open(file) => io.call_blocking(StatFile::new(file.clone())),
        FileRef::Named(name) => io.call_blocking(StatPath::new(name.clone()).no_follow()),
    }
}
