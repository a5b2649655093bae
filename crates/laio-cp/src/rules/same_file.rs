//! Decides what to do if source and destination are the same file.

use crate::io::Io;
use crate::options::{Backup, Make};
use crate::session::Session;
use crate::tree::{Entry, identity};
use laio::ops::{Name, StatPath};
use laio_rt::fs::Metadata;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The result of comparing source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SameFile {
    /// They differ, or copying does no harm.
    Proceed,
    /// They are the same, and there is nothing to do.
    NothingToDo,
    /// They are the same, and copying would destroy data.
    Refuse,
}

/// Compares the source with the destination. Both statuses were read with or without following
/// symbolic links, as the options say.
pub(crate) async fn check(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    existing: &Metadata,
) -> SameFile {
    let options = &session.options;
    let same = identity(source) == identity(existing);
    if same && options.make == Make::HardLinks {
        return SameFile::NothingToDo;
    }
    let never = !session.follows(entry);
    let (source_link, target_link) = if never {
        if source.is_symlink() && existing.is_symlink() {
            if same_name(io, entry).await {
                return SameFile::Refuse;
            }
            return match options.backup {
                Backup::None if same => SameFile::NothingToDo,
                _ => SameFile::Proceed,
            };
        }
        (*source, *existing)
    } else {
        if !same {
            return SameFile::Proceed;
        }
        let stat = StatPath::new(entry.source()).no_follow();
        let source = io.call_backend(stat).await;
        let stat = StatPath::new(entry.target()).no_follow();
        let target = io.call_target(stat).await;
        let (Ok(source), Ok(target)) = (source, target) else {
            return SameFile::Proceed;
        };
        if source.is_symlink() && target.is_symlink() && options.remove_destination {
            return SameFile::Proceed;
        }
        (source, target)
    };
    let same_link = identity(&source_link) == identity(&target_link);
    if options.backup != Backup::None {
        let refused = if same_link {
            same_name(io, entry).await
        } else {
            // The backup would rename the file that the source link points to.
            !never && source_link.is_symlink() && !target_link.is_symlink()
        };
        return if refused {
            SameFile::Refuse
        } else {
            SameFile::Proceed
        };
    }
    if options.remove_destination {
        if target_link.is_symlink() {
            return SameFile::Proceed;
        }
        if same_link && target_link.links() > 1 && !same_name(io, entry).await {
            return SameFile::Proceed;
        }
    }
    if !source_link.is_symlink() && !target_link.is_symlink() {
        if !same_link {
            return SameFile::Proceed;
        }
        if options.make == Make::HardLinks {
            return SameFile::NothingToDo;
        }
    }
    if options.make == Make::SymbolicLinks && target_link.is_symlink() {
        return SameFile::Proceed;
    }
    if never {
        return check_referents(io, session, entry, &source_link, &target_link).await;
    }
    SameFile::Refuse
}

/// Compares the targets of two files of which one is a symbolic link that is not followed.
async fn check_referents(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    target: &Metadata,
) -> SameFile {
    let source = if source.is_symlink() {
        io.call_backend(StatPath::new(entry.source())).await
    } else {
        Ok(*source)
    };
    let target_is_link = target.is_symlink();
    let target = if target_is_link {
        io.call_target(StatPath::new(entry.target())).await
    } else {
        Ok(*target)
    };
    match (source, target) {
        (Ok(source), Ok(target)) if identity(&source) == identity(&target) => {}
        _ => return SameFile::Proceed,
    }
    match session.options.make {
        Make::HardLinks if target_is_link => SameFile::Proceed,
        Make::HardLinks => SameFile::NothingToDo,
        _ => SameFile::Refuse,
    }
}

/// Whether both paths name the same entry of the same directory.
async fn same_name(io: &Io, entry: &Entry) -> bool {
    let (source, target) = (entry.source_path(), entry.target_path());
    let (above_source, source_name) = split(&source);
    let (above_target, target_name) = split(&target);
    if source_name != target_name {
        return false;
    }
    let stat = |path: PathBuf| Name::from_path(path).map(StatPath::new);
    let (Ok(above_source), Ok(above_target)) = (stat(above_source), stat(above_target)) else {
        return false;
    };
    let source = io.call_backend(above_source).await;
    let target = io.call_target(above_target).await;
    matches!((source, target), (Ok(source), Ok(target)) if identity(&source) == identity(&target))
}

fn split(path: &Path) -> (PathBuf, &OsStr) {
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above.to_path_buf(),
        _ if path.is_absolute() => PathBuf::from("/"),
        _ => PathBuf::from("."),
    };
    (above, path.file_name().unwrap_or(OsStr::new(".")))
}
