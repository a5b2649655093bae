//! Whether source and destination are the same file, and whether that matters.

use crate::directory::Entry;
use crate::made::identity;
use crate::options::{Backup, Make};
use crate::worker::Worker;
use laio::ops::{Name, StatPath};
use laio_rt::fs::Metadata;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Same {
    /// They are not, or it does no harm.
    Fine,
    /// They are, and there is nothing to do.
    Done,
    /// They are, and copying would destroy data.
    Refused,
}

/// `source` and `there` are what the names lead to, as the options want them followed.
pub(crate) async fn check(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    there: &Metadata,
) -> Same {
    let options = worker.options();
    let same = identity(source) == identity(there);
    if same && options.make == Make::HardLinks {
        return Same::Done;
    }
    let never = !worker.shared.follows(entry.argument.is_some());
    let (source_link, target_link) = if never {
        if source.is_symlink() && there.is_symlink() {
            if same_name(worker, entry).await {
                return Same::Refused;
            }
            return match options.backup {
                Backup::None if same => Same::Done,
                _ => Same::Fine,
            };
        }
        (*source, *there)
    } else {
        if !same {
            return Same::Fine;
        }
        let source = worker
            .lazily(StatPath::new(entry.source()).no_follow())
            .await;
        let target = worker
            .write(StatPath::new(entry.target()).no_follow())
            .await;
        let (Ok(source), Ok(target)) = (source, target) else {
            return Same::Fine;
        };
        if source.is_symlink() && target.is_symlink() && options.remove_destination {
            return Same::Fine;
        }
        (source, target)
    };
    let same_link = identity(&source_link) == identity(&target_link);
    if options.backup != Backup::None {
        let refused = if same_link {
            same_name(worker, entry).await
        } else {
            // Moved away, it would be what the link leads to no more.
            !never && source_link.is_symlink() && !target_link.is_symlink()
        };
        return if refused { Same::Refused } else { Same::Fine };
    }
    if options.remove_destination {
        if target_link.is_symlink() {
            return Same::Fine;
        }
        if same_link && target_link.links() > 1 && !same_name(worker, entry).await {
            return Same::Fine;
        }
    }
    if !source_link.is_symlink() && !target_link.is_symlink() {
        if !same_link {
            return Same::Fine;
        }
        if options.make == Make::HardLinks {
            return Same::Done;
        }
    }
    if options.make == Make::SymbolicLinks && target_link.is_symlink() {
        return Same::Fine;
    }
    if never {
        return check_referents(worker, entry, &source_link, &target_link).await;
    }
    Same::Refused
}

/// One of them is a link, which is not followed: it matters what it leads to.
async fn check_referents(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    target: &Metadata,
) -> Same {
    let source = match source.is_symlink() {
        true => worker.lazily(StatPath::new(entry.source())).await,
        false => Ok(*source),
    };
    let target_is_link = target.is_symlink();
    let target = match target_is_link {
        true => worker.write(StatPath::new(entry.target())).await,
        false => Ok(*target),
    };
    match (source, target) {
        (Ok(source), Ok(target)) if identity(&source) == identity(&target) => {}
        _ => return Same::Fine,
    }
    match worker.options().make {
        Make::HardLinks if target_is_link => Same::Fine,
        Make::HardLinks => Same::Done,
        _ => Same::Refused,
    }
}

/// Whether they are one entry of one directory.
async fn same_name(worker: &Worker, entry: &Entry) -> bool {
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
    let source = worker.lazily(above_source).await;
    let target = worker.write(above_target).await;
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
