//! A snapshot of a tree: everything that a user can see, one line of text per name.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::Hasher;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat, lgetxattr, llistxattr, major, minor,
    openat, readlinkat, seek, statat,
};
use rustix::io::Errno;

/// A later time was set by the command, and is not compared.
const NEW: i64 = 1_500_000_000;
/// Longer contents are shown by their hash.
const SHOWN: usize = 60;

/// A tree: names relative to its root, and their entries.
pub(crate) type Tree = BTreeMap<Vec<u8>, Entry>;

/// The entry of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Everything that must be equal.
    pub(crate) line: String,
    /// The modification time: part of the line, and used to find copies of the same source.
    pub(crate) modified: String,
    /// The access time.
    pub(crate) read: Read,
    /// The bytes that are not in holes, compared with a tolerance.
    pub(crate) data: u64,
    /// Device and inode.
    pub(crate) file: (u64, u64),
}

/// The access time, as far as a copy determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The file existed before.
    Any,
    /// The command created or read the file.
    Now,
    /// The access time of the source.
    Long(String),
}

/// Takes a snapshot. Access times are included for names that are not in `old`: reading a source
/// changes its access time.
pub(crate) fn of(root: &Path, old: &BTreeSet<Vec<u8>>) -> Tree {
    let mut walk = Walk {
        old,
        first_names: HashMap::new(),
        tree: Tree::new(),
    };
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, root, flags, Mode::empty()).expect("the world is there");
    let stat = statat(&fd, ".", AtFlags::empty()).expect("the world is there");
    walk.entry(fd.as_fd(), b".", b".", &stat);
    walk.directory(&fd, b"");
    walk.tree
}

struct Walk<'a> {
    old: &'a BTreeSet<Vec<u8>>,
    /// The first name of each file with several hard links.
    first_names: HashMap<(u64, u64), Vec<u8>>,
    tree: Tree,
}

impl Walk<'_> {
    fn directory(&mut self, fd: &OwnedFd, path: &[u8]) {
        let mut names: Vec<Vec<u8>> = Dir::read_from(fd)
            .expect("an open directory")
            .map(|entry| entry.expect("an entry").file_name().to_bytes().to_vec())
            .filter(|name| name != b"." && name != b"..")
            .collect();
        names.sort();
        for name in names {
            let below = match path {
                b"" => name.clone(),
                _ => [path, b"/", &name].concat(),
            };
            let stat = statat(fd, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).expect("listed");
            self.entry(fd.as_fd(), &name, &below, &stat);
            if kind(&stat) == FileType::Directory {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                // Only an ordinary user can be denied access; then both sides are.
                if let Ok(inner) = openat(fd, name.as_slice(), flags, Mode::empty()) {
                    self.directory(&inner, &below);
                }
            }
        }
    }

    fn entry(&mut self, directory: BorrowedFd<'_>, name: &[u8], path: &[u8], stat: &Stat) {
        let (what, data) = match kind(stat) {
            FileType::RegularFile => contents(directory, name),
            FileType::Directory => ("directory".into(), 0),
            FileType::Symlink => {
                let target = readlinkat(directory, name, Vec::new());
                let target = target.map(|t| show(t.as_bytes()));
                (format!("link to {target:?}"), 0)
            }
            FileType::CharacterDevice | FileType::BlockDevice => {
                let numbers = (major(stat.st_rdev), minor(stat.st_rdev));
                (format!("{:?} {numbers:?}", kind(stat)), 0)
            }
            other => (format!("{other:?}"), 0),
        };
        let modified = time(stat.st_mtime, stat.st_mtime_nsec as i64);
        let mut line = format!(
            "{what}, mode {:o}, owner {}:{}, modified {modified}",
            stat.st_mode & 0o7777,
            stat.st_uid,
            stat.st_gid,
        );
        let read = match stat.st_atime {
            _ if self.old.contains(path) => Read::Any,
            NEW.. => Read::Now,
            past => Read::Long(time(past, stat.st_atime_nsec as i64)),
        };
        let file = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1 && kind(stat) != FileType::Directory {
            let first = self.first_names.entry(file).or_insert(path.to_vec());
            line.push_str(&format!(", {} names, first {}", stat.st_nlink, show(first)));
        }
        for (key, value) in attributes(directory, name) {
            line.push_str(&format!(", {}={}", show(&key), show(&value)));
        }
        self.tree.insert(
            path.to_vec(),
            Entry {
                line,
                modified,
                read,
                data,
                file,
            },
        );
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn time(seconds: i64, nanoseconds: i64) -> String {
    match seconds {
        NEW.. => "new".into(),
        _ => format!("{seconds}.{nanoseconds:09}"),
    }
}

fn contents(directory: BorrowedFd<'_>, name: &[u8]) -> (String, u64) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = match openat(directory, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(errno) => return (format!("file ({errno})"), 0),
    };
    let size = rustix::fs::fstat(&fd).expect("an open file").st_size as u64;
    let extents = extents(&fd, size);
    let data = extents.iter().map(|(start, end)| end - start).sum();
    if size <= SHOWN as u64 {
        let mut text = Vec::new();
        File::from(fd)
            .read_to_end(&mut text)
            .expect("a readable file");
        return (format!("file {:?}", show(&text)), data);
    }
    (
        format!(
            "file of {size} bytes, hash {:x}",
            hash(File::from(fd), size, &extents)
        ),
        data,
    )
}

/// The hash of all bytes that are not zero, with their offsets; holes are not read.
fn hash(file: File, size: u64, extents: &[(u64, u64)]) -> u64 {
    const PIECE: usize = 4096;
    let mut hasher = DefaultHasher::new();
    let mut piece = [0; PIECE];
    let pieces = |(start, end): &(u64, u64)| {
        let first = start / PIECE as u64;
        first..end.div_ceil(PIECE as u64)
    };
    let mut last = None;
    for index in extents.iter().flat_map(pieces) {
        if last == Some(index) {
            continue;
        }
        last = Some(index);
        let offset = index * PIECE as u64;
        let length = PIECE.min((size - offset) as usize);
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut piece[..length], offset)
            .expect("as many bytes as the file has");
        if piece[..length].iter().any(|&byte| byte != 0) {
            hasher.write_u64(index);
            hasher.write(&piece[..length]);
        }
    }
    hasher.finish()
}

/// The ranges that are not holes.
fn extents(fd: &OwnedFd, size: u64) -> Vec<(u64, u64)> {
    let mut extents = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(fd, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let end = seek(fd, SeekFrom::Hole(start)).unwrap_or(size);
        extents.push((start, end));
        at = end;
    }
    seek(fd, SeekFrom::Start(0)).expect("a regular file");
    extents
}

fn attributes(directory: BorrowedFd<'_>, name: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    // This call exists for paths only.
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    path.push(OsStr::from_bytes(name));
    let mut names = Vec::with_capacity(4096);
    if llistxattr(&path, rustix::buffer::spare_capacity(&mut names)).is_err() {
        return BTreeMap::new();
    }
    let value = |key: &[u8]| {
        let mut value = Vec::with_capacity(65536);
        let _ = lgetxattr(&path, key, rustix::buffer::spare_capacity(&mut value));
        (key.to_vec(), value)
    };
    names
        .split(|&b| b == 0)
        .filter(|key| !key.is_empty())
        .map(value)
        .collect()
}

/// Bytes for display; long ones as length and hash.
pub(crate) fn show(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN {
        return bytes.escape_ascii().to_string();
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("({} bytes, hash {:x})", bytes.len(), hasher.finish())
}
