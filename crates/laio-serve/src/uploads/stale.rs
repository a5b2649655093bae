//! Temporary files of an earlier server that was killed.

use super::temporary::is_temporary;
use crate::messages::print;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The age from which a temporary file is stale. A running upload writes at least every few minutes.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Directories below each other that are looked into.
const DEPTH_MAX: usize = 64;

/// Removes stale temporary files below these directories, on a thread of its own, because the directories may be
/// large and the disk slow. Most file systems have unnamed files, so there is rarely one.
pub(crate) fn remove_stale(roots: Vec<OwnedFd>) {
    if roots.is_empty() {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let before = now.unwrap_or_default().saturating_sub(STALE_AFTER);
    let purpose = "the thread that removes the temporary files of earlier uploads";
    let started = laio::thread::start("laio-uploads", purpose, move || {
        for root in roots {
            remove_below(root, before.as_secs() as i64, DEPTH_MAX, false);
        }
    });
    if let Err(error) = started {
        print(format_args!(
            "{error}; these files stay until the next start"
        ));
    }
}

/// Removes temporary files and directories that were last modified before a time, in seconds since 1970; `all`:
/// everything, because the directory is one of them. Follows no links. What cannot be read or removed stays.
fn remove_below(directory: OwnedFd, before: i64, depth: usize, all: bool) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |name: &std::ffi::CStr| rustix::fs::openat(&directory, name, flags, Mode::empty());
    let Ok(entries) = open(c".").and_then(Dir::new) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let temporary = is_temporary(name.to_bytes());
        let kind = entry.file_type();
        let looks = matches!(kind, FileType::Directory | FileType::Unknown);
        if !temporary && !looks && !all {
            continue;
        }
        let Ok(status) = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory if depth > 0 => {
                if let Ok(inner) = open(name) {
                    let stale = temporary && status.st_mtime < before;
                    remove_below(inner, before, depth - 1, all || stale);
                    if all || stale {
                        let _ = rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR);
                    }
                }
            }
            FileType::Directory => {}
            _ if all => {
                let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
            }
            FileType::RegularFile if temporary && status.st_mtime < before => {
                let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
            }
            _ => {}
        }
    }
}
