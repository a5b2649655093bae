//! What an earlier server that was killed has left incomplete.

use crate::files::temporary_name::{is_incomplete, is_locked, lock};
use crate::messages::print;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The age from which something incomplete is stale if no lock shows that. A running upload writes at least every few
/// minutes.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Directories below each other that are looked into.
const DEPTH_MAX: usize = 64;

/// Removes what is incomplete below these directories and no running server makes, on a thread of its own, because the
/// directories may be large and the disk slow. Most file systems have unnamed files, so there is rarely any.
pub(crate) fn remove_stale(roots: Vec<OwnedFd>) {
    if roots.is_empty() {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let before = now.unwrap_or_default().saturating_sub(STALE_AFTER);
    let purpose = "the thread that removes the temporary files of earlier uploads";
    let started = laio::thread::start("laio-uploads", purpose, move || {
        for root in roots {
            remove_below(&root, before.as_secs() as i64, DEPTH_MAX, false);
        }
    });
    if let Err(error) = started {
        print(format_args!(
            "{error}; these files stay until the next start"
        ));
    }
}

/// Removes stale files and directories. Those without a lock are stale if they were last modified before a time, in
/// seconds since 1970. `all`: removes everything, because the directory is one of them. Follows no links. What cannot be
/// read or removed stays.
fn remove_below(directory: &OwnedFd, before: i64, depth: usize, all: bool) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |name: &CStr| rustix::fs::openat(directory, name, flags, Mode::empty());
    let Ok(entries) = open(c".").and_then(Dir::new) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let incomplete = is_incomplete(name.to_bytes());
        let kind = entry.file_type();
        let looks = matches!(kind, FileType::Directory | FileType::Unknown);
        if !incomplete && !looks && !all {
            continue;
        }
        let Ok(status) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory if depth > 0 => {
                if let Ok(inner) = open(name) {
                    let stale = incomplete && is_stale(Some(&inner), name, &status, before);
                    remove_below(&inner, before, depth - 1, all || stale);
                    if all || stale {
                        let _ = rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
                    }
                }
            }
            FileType::Directory => {}
            _ if all => {
                let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
            }
            FileType::RegularFile if incomplete => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                // A server that makes the file at this moment fails to lock it, as long as this descriptor is open.
                let file = rustix::fs::openat(directory, name, flags, Mode::empty());
                if is_stale(file.as_ref().ok(), name, &status, before) {
                    let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
                }
            }
            _ => {}
        }
    }
}

/// Whether no running server makes the file or directory. Locks it if its name says that it would be locked.
fn is_stale(file: Option<&OwnedFd>, name: &CStr, status: &Stat, before: i64) -> bool {
    if is_locked(name.to_bytes()) {
        file.is_some_and(|file| lock(file).is_ok_and(|locked| locked))
    } else {
        status.st_mtime < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::temporary_name::temporary_name;
    use std::fs::{self, File};
    use std::path::Path;

    fn clean(root: &Path) {
        let root = OwnedFd::from(File::open(root).unwrap());
        remove_below(&root, 0, DEPTH_MAX, false);
    }

    #[test]
    fn what_a_dead_server_has_locked_is_removed_at_once() {
        let root = tempfile::TempDir::new().unwrap();
        let at = |locked| {
            let name = temporary_name(locked).into_string().unwrap();
            root.path().join(name)
        };
        let (left, written, unlocked) = (at(true), at(true), at(false));
        let (left_copy, copy) = (at(true), at(true));
        for file in [&left, &written, &unlocked] {
            fs::write(file, "part").unwrap();
        }
        for directory in [&left_copy, &copy] {
            fs::create_dir_all(directory.join("inner")).unwrap();
            fs::write(directory.join("inner/file"), "part").unwrap();
        }
        let locks = [&written, &copy].map(|path| {
            let file = File::open(path).unwrap();
            assert!(lock(&file).unwrap());
            file
        });
        clean(root.path());
        assert!(!left.exists() && !left_copy.exists());
        assert!(written.exists() && copy.join("inner/file").exists());
        assert!(
            unlocked.exists(),
            "a server of another machine may write it"
        );
        drop(locks);
        clean(root.path());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
