//! Which remote file system a name leads to. Only the kernel's caches are asked: a file system that does
//! not answer must not stop the thread that wants to know.
//!
//! The longest part of the name is sought that is in the caches and on the file system where the name
//! starts (`RESOLVE_CACHED`, `RESOLVE_NO_XDEV`). If the component behind it is a mount point, the table of
//! mounts says so: the kernel itself would ask an NFS server about the root of its mount.

use super::mounts::{Mounts, Place, peek};
use crate::Call;
use crate::sys;
use crate::sys::memory::read_string;
use crate::table::{Attempt, Name, Opcode, Row, known_how};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2, readlinkat};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// How many mounts and symbolic links a name is followed through.
const STEPS_MAX: usize = 8;

/// The longest name that the kernel accepts, with its zero.
const PATH_MAX: usize = 4096;

/// The device number of the remote file system that a call asks by its names; `None` if none of them leads
/// to one, as far as the caches tell. `memory_is_good`: the kernel has read the names.
pub(super) fn remote_of_names(
    mounts: &mut Mounts,
    row: &Row,
    call: &Call,
    memory_is_good: bool,
) -> Option<u64> {
    let names = [row.file.map(|name| (name, follows(row, call)))]
        .into_iter()
        .chain([row.second_name().map(|name| (name, false))])
        .flatten();
    names.into_iter().find_map(|(name, follows)| {
        let directory = directory_of(name, call);
        let address = call.args[name.path as usize];
        let text = read_string(address, PATH_MAX, memory_is_good).unwrap_or_default();
        remote_of_name(mounts, directory, text, follows)
    })
}

fn directory_of(name: Name, call: &Call) -> RawFd {
    name.directory
        .map_or(libc::AT_FDCWD, |arg| call.descriptor(arg))
}

/// Whether the call follows a symbolic link at the end of its first name.
fn follows(row: &Row, call: &Call) -> bool {
    let flags = row.flags_of(call);
    match row.opcode {
        Some(Opcode::OpenAt2) => {
            known_how(call, false).is_none_or(|how| how.flags as i32 & libc::O_NOFOLLOW == 0)
        }
        Some(Opcode::LinkAt) => flags & libc::AT_SYMLINK_FOLLOW != 0,
        Some(Opcode::RenameAt | Opcode::UnlinkAt | Opcode::MkdirAt | Opcode::SymlinkAt) => false,
        _ if row.attempt == Attempt::CachedOpen => flags & libc::O_NOFOLLOW == 0,
        _ => {
            let of_the_name = ["readlink", "readlinkat", "mknod", "mknodat"];
            !of_the_name.contains(&row.name) && flags & libc::AT_SYMLINK_NOFOLLOW == 0
        }
    }
}

fn remote_of_name(
    mounts: &mut Mounts,
    directory: RawFd,
    name: Vec<u8>,
    follows: bool,
) -> Option<u64> {
    let (mut within, mut name, mut is_linked) = (None::<OwnedFd>, name, false);
    let parent = split(&name).0.to_vec();
    for step in 0..STEPS_MAX {
        let from = within.as_ref().map_or(directory, AsRawFd::as_raw_fd);
        let start = if name.starts_with(b"/") {
            mounts.root()?
        } else {
            mounts.of_directory(from)?
        };
        let mount = mounts.get(start);
        if mount.place == Place::Remote {
            return Some(mount.device);
        }
        if step == 0
            && mounts.trusts(directory, &parent)
            && !mounts.has_remote_at(split(&name).1)
            && !(follows && is_cached_link(directory, &name))
        {
            return None;
        }
        let end = End::of_path(from, &name)?;
        if let Some(remote) = end.remote(mounts) {
            return Some(remote);
        }
        if end.after.is_empty() {
            if !is_linked {
                mounts.trust(directory, &parent);
            }
            if !follows {
                return None;
            }
            is_linked = true;
        }
        (within, name) = end.behind()?;
    }
    None
}

/// Whether a name is that of a symbolic link, and in the caches. No remote file system may be mounted there.
fn is_cached_link(directory: RawFd, name: &[u8]) -> bool {
    let Some(directory) = borrowed(directory) else {
        return false;
    };
    let found = open(directory, name, OFlags::NOFOLLOW, ResolveFlags::CACHED);
    let kind =
        |found: OwnedFd| Some(u32::from(peek(found.as_raw_fd()).ok()?.stx_mode) & libc::S_IFMT);
    found.is_ok_and(|found| kind(found) == Some(libc::S_IFLNK))
}

/// The directory of a name, and its last component.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    let ends = name
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    let begins = name[..ends].iter().rposition(|byte| *byte == b'/');
    let begins = begins.map_or(0, |at| at + 1);
    (&name[..begins], &name[begins..ends])
}

/// The end of the directories that a name resolves to from the caches on one file system.
struct End {
    before: OwnedFd,
    /// The next component: the last one, or one that is not in the caches, or a mount point, a symbolic
    /// link or `..` that leads away.
    component: Vec<u8>,
    /// What follows it.
    after: Vec<u8>,
}

impl End {
    /// The last component is not looked up: it seldom is in the caches when a call must go to the
    /// background. `None` for a name without components.
    fn of_path(directory: RawFd, name: &[u8]) -> Option<End> {
        let ends = ends_of_components(name);
        let start: &[u8] = if name.starts_with(b"/") { b"/" } else { b"." };
        (0..ends.len()).rev().find_map(|known| {
            let part = match known {
                0 => start,
                _ => &name[..ends[known - 1]],
            };
            // Not in the caches, elsewhere, or not there: its directory decides.
            let before = open_within(directory, part).ok()?;
            Some(End::new(before, name, &ends, known))
        })
    }

    /// `known`: the number of components before the end.
    fn new(before: OwnedFd, name: &[u8], ends: &[usize], known: usize) -> End {
        let begin = match known {
            0 => 0,
            _ => ends[known - 1],
        };
        let trimmed = |bytes: &[u8]| {
            let slashes = bytes.iter().take_while(|byte| **byte == b'/').count();
            bytes[slashes..].to_vec()
        };
        End {
            before,
            component: trimmed(&name[begin..ends[known]]),
            after: trimmed(&name[ends[known]..]),
        }
    }

    /// The device number of the remote file system that is mounted on the component.
    fn remote(&self, mounts: &mut Mounts) -> Option<u64> {
        if mounts.has_remote_at(&self.component) {
            mounts.remote_at(&self.path()?)
        } else {
            None
        }
    }

    /// The path of the component.
    fn path(&self) -> Option<Vec<u8>> {
        let own_name = format!("/proc/thread-self/fd/{}", self.before.as_raw_fd());
        let mut path = readlinkat(CWD, own_name, Vec::new()).ok()?.into_bytes();
        if path != b"/" {
            path.push(b'/');
        }
        path.extend_from_slice(&self.component);
        Some(path)
    }

    /// From where the rest of the name goes on, and this rest. `None` if the component is not in the caches.
    fn behind(self) -> Option<(Option<OwnedFd>, Vec<u8>)> {
        let (before, flags) = (self.before.as_fd(), OFlags::NOFOLLOW);
        let next = open(before, &self.component, flags, ResolveFlags::CACHED).ok()?;
        let kind = u32::from(peek(next.as_raw_fd()).ok()?.stx_mode) & libc::S_IFMT;
        if kind != libc::S_IFLNK {
            return Some((Some(next), self.after));
        }
        let mut name = readlinkat(&next, c"", Vec::new()).ok()?.into_bytes();
        if !self.after.is_empty() {
            name.push(b'/');
            name.extend_from_slice(&self.after);
        }
        Some((Some(self.before), name))
    }
}

/// The offsets behind the components of a name.
fn ends_of_components(name: &[u8]) -> Vec<usize> {
    let ends_at =
        |&at: &usize| name[at - 1] != b'/' && name.get(at).is_none_or(|byte| *byte == b'/');
    (1..=name.len()).filter(ends_at).collect()
}

/// Resolves a name from the caches, without leaving the file system on which it starts.
fn open_within(directory: RawFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    open(
        borrowed(directory).ok_or(rustix::io::Errno::BADF)?,
        name,
        OFlags::empty(),
        ResolveFlags::CACHED | ResolveFlags::NO_XDEV,
    )
}

fn borrowed(directory: RawFd) -> Option<BorrowedFd<'static>> {
    match directory {
        libc::AT_FDCWD => Some(CWD),
        fd => sys::borrow(fd),
    }
}

fn open(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    openat2(directory, name, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_are_split_before_the_last_component() {
        let parts = |name| split(name);
        assert_eq!(parts(b"/a//bc/d"), (&b"/a//bc/"[..], &b"d"[..]));
        assert_eq!(parts(b"a/b/"), (&b"a/"[..], &b"b"[..]));
        assert_eq!(parts(b"a"), (&b""[..], &b"a"[..]));
        assert_eq!(parts(b"//"), (&b""[..], &b""[..]));
        assert_eq!(parts(b""), (&b""[..], &b""[..]));
    }

    #[test]
    fn components_end_before_slashes() {
        assert_eq!(ends_of_components(b"/a//bc/d"), [2, 6, 8]);
        assert_eq!(ends_of_components(b"a/"), [1]);
        assert_eq!(ends_of_components(b""), []);
        assert_eq!(ends_of_components(b"//"), []);
    }

    /// `/proc` is another file system than the directory, and not mounted there.
    #[test]
    #[cfg_attr(miri, ignore = "miri has no openat2")]
    fn the_component_that_leads_away_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        std::fs::create_dir(path.join("sub")).expect("a directory");
        symlink("/proc", path.join("sub/away")).expect("a link");
        let opened = std::fs::File::open(path).expect("a directory");
        let end = |name: &str| End::of_path(opened.as_raw_fd(), name.as_bytes());
        let parts = |end: &End| (end.component.clone(), end.after.clone());
        let found = end("sub//away/self/status").expect("components");
        assert_eq!(parts(&found), (b"away".to_vec(), b"self/status".to_vec()));
        let own = path.canonicalize().expect("a path").join("sub/away");
        assert_eq!(
            found.path().expect("a path"),
            own.as_os_str().as_encoded_bytes()
        );
        let (_, name) = found.behind().expect("a link");
        assert_eq!(name, b"/proc/self/status");
        let root = end("/proc/self").expect("components");
        assert_eq!(parts(&root), (b"proc".to_vec(), b"self".to_vec()));
        assert_eq!(root.path().expect("a path"), b"/proc");
        let (next, name) = root.behind().expect("a directory");
        assert_eq!((next.is_some(), &name[..]), (true, &b"self"[..]));
        let last = end("sub/away").expect("components");
        assert_eq!(parts(&last), (b"away".to_vec(), Vec::new()));
        let absent = end("sub/absent/further").expect("components");
        assert_eq!(parts(&absent), (b"absent".to_vec(), b"further".to_vec()));
        assert!(absent.behind().is_none());
        assert!(end("").is_none());
    }
}
