//! The files that exist before the command runs, created from the lines of a scenario.
//!
//! Lines end with `;` or a newline. Names are relative to the world's root; missing parent
//! directories are created.
//!
//! | line | creates |
//! | --- | --- |
//! | `file NAME [=TEXT \| SIZE]` | a file; by default its contents are its name |
//! | `holes NAME SIZE [OFFSET+LENGTH]...` | a sparse file with data in these ranges |
//! | `zeros NAME SIZE` | a file of zeros without holes |
//! | `dir NAME...`, `link NAME TARGET`, `hard NAME OLD` | directories, a symbolic link, a hard link |
//! | `fifo NAME`, `socket NAME`, `char NAME MAJOR MINOR`, `block ...` | special files |
//! | `many DIRECTORY COUNT`, `deep DIRECTORY LEVELS LENGTH` | many small files; many nested directories |
//! | `mode OCTAL NAME...`, `own UID:GID NAME...`, `time SECONDS NAME...` | sets attributes |
//! | `xattr NAME KEY VALUE`, `acl NAME TEXT`, `dacl NAME TEXT` | sets attributes; `dacl` is the default ACL |
//! | `mount NAME` | a directory with a tmpfs of 1 MiB |
//!
//! Each file gets its own time in 2001 by default, so that a preserved time is recognized by its
//! year.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use laio_testing::{Skip, temp};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat,
    chownat, linkat, lsetxattr, makedev, mkdirat, mknodat, openat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;

use crate::programs::USER;
use crate::split_words;

/// The year 2001: files created by the command are newer.
const PAST: i64 = 1_000_000_000;

/// A fresh directory with the scenario's files. Dropping it removes everything.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) root: PathBuf,
    fd: OwnedFd,
    user: bool,
    /// All files created so far, with their times if a line sets them.
    made: Vec<(Vec<u8>, Option<i64>)>,
    mounts: Vec<PathBuf>,
}

impl World {
    /// Creates a world at a path that does not exist.
    ///
    /// # Errors
    ///
    /// If this machine or user lacks a capability; returns which.
    pub(crate) fn make(root: &Path, lines: &str, user: bool) -> Result<World, Skip> {
        let wrong = |errno: Errno| Skip::because("root", format!("{}: {errno}", root.display()));
        mkdirat(CWD, root, Mode::from_raw_mode(0o755)).map_err(wrong)?;
        let fd = openat(CWD, root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(wrong)?;
        let user = user && rustix::process::geteuid().is_root();
        let mut world = World {
            root: root.to_owned(),
            fd,
            user,
            made: vec![(b".".to_vec(), None)],
            mounts: Vec::new(),
        };
        world.give(b".").map_err(wrong)?;
        for line in lines.split([';', '\n']) {
            let words = split_words::split(line);
            let Some((verb, names)) = words.split_first() else {
                continue;
            };
            let verb = std::str::from_utf8(verb).expect("a verb is a word");
            match world.line(verb, names) {
                Ok(()) => {}
                Err(errno @ (Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP)) => {
                    let reason = format!("cannot do here: {line}: {errno}");
                    return Err(Skip::because(need_of(verb, names), reason));
                }
                Err(errno) => panic!("{line}: {errno}"),
            }
        }
        world.set_times();
        Ok(world)
    }

    /// The names of all files that the lines have created.
    pub(crate) fn names(&self) -> BTreeSet<Vec<u8>> {
        self.made.iter().map(|(name, _)| name.clone()).collect()
    }

    fn line(&mut self, verb: &str, words: &[Vec<u8>]) -> Result<(), Errno> {
        let word = |at: usize| words.get(at).map(Vec::as_slice);
        let name = word(0).expect("a line has a name");
        let number = |at: usize| number(word(at).expect("a number is missing"));
        match verb {
            "file" => match word(1) {
                None => self.file(name, &[b"This is ", name, b".\n"].concat()),
                Some([b'=', text @ ..]) => self.file(name, text),
                Some(size) => self.file(name, &temp::pattern(number_of(size), name.len() as u64)),
            },
            "zeros" => self.file(name, &vec![0; number(1) as usize]),
            "holes" => {
                self.file(name, b"")?;
                let file = std::fs::File::options()
                    .write(true)
                    .open(self.root.join(OsStr::from_bytes(name)))
                    .expect("just made");
                file.set_len(number(1)).expect("a size");
                for extent in &words[2..] {
                    let text = std::str::from_utf8(extent).expect("an extent is a word");
                    let (offset, length) = text.split_once('+').expect("offset+length");
                    let data = temp::pattern(number_of(length.as_bytes()), 1);
                    std::os::unix::fs::FileExt::write_all_at(
                        &file,
                        &data,
                        number_of(offset.as_bytes()) as u64,
                    )
                    .expect("data written");
                }
                Ok(())
            }
            "dir" => words.iter().try_for_each(|name| self.directory(name)),
            "link" => {
                self.parents(name)?;
                symlinkat(word(1).expect("a target"), &self.fd, name)?;
                self.note(name)
            }
            "hard" => {
                self.parents(name)?;
                let old = word(1).expect("an old name");
                linkat(&self.fd, old, &self.fd, name, AtFlags::empty())?;
                self.note(name)
            }
            "fifo" => self.node(name, FileType::Fifo, 0),
            "socket" => self.node(name, FileType::Socket, 0),
            "char" => self.node(
                name,
                FileType::CharacterDevice,
                device(number(1), number(2)),
            ),
            "block" => self.node(name, FileType::BlockDevice, device(number(1), number(2))),
            "many" => (0..number(1)).try_for_each(|index| {
                let text = format!("file {index}\n");
                self.file(
                    &[name, format!("/{index:05}").as_bytes()].concat(),
                    text.as_bytes(),
                )
            }),
            "deep" => self.deep(name, number(1), number(2) as usize),
            "mode" => {
                let text = std::str::from_utf8(name).expect("a mode is a word");
                let mode = u32::from_str_radix(text, 8).expect("a mode is octal");
                words[1..].iter().try_for_each(|name| {
                    chmodat(
                        &self.fd,
                        name.as_slice(),
                        Mode::from_raw_mode(mode),
                        AtFlags::empty(),
                    )
                })
            }
            "own" => {
                let text = std::str::from_utf8(name).expect("owners are a word");
                let (uid, gid) = text.split_once(':').expect("user:group");
                let (uid, gid) = (number_of(uid.as_bytes()), number_of(gid.as_bytes()));
                let (uid, gid) = (Uid::from_raw(uid as u32), Gid::from_raw(gid as u32));
                words[1..].iter().try_for_each(|name| {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    chownat(&self.fd, name.as_slice(), Some(uid), Some(gid), flags)
                })
            }
            "time" => {
                let text = std::str::from_utf8(name).expect("a time is a word");
                let seconds = text.parse().expect("a time is a number of seconds");
                let times = words[1..].iter().map(|name| (name.clone(), Some(seconds)));
                self.made.extend(times);
                Ok(())
            }
            "xattr" => self.attribute(name, word(1).expect("a key"), &value(&words[2])),
            "acl" => self.attribute(name, b"system.posix_acl_access", &acl(&words[1])),
            "dacl" => self.attribute(name, b"system.posix_acl_default", &acl(&words[1])),
            "mount" => self.mount(name),
            other => panic!("no such verb: {other}"),
        }
    }

    fn file(&mut self, name: &[u8], contents: &[u8]) -> Result<(), Errno> {
        self.parents(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::from_raw_mode(0o644))?;
        std::io::Write::write_all(&mut std::fs::File::from(fd), contents).expect("written");
        self.note(name)
    }

    fn directory(&mut self, name: &[u8]) -> Result<(), Errno> {
        self.parents(name)?;
        mkdirat(&self.fd, name, Mode::from_raw_mode(0o755))?;
        self.note(name)
    }

    fn parents(&mut self, name: &[u8]) -> Result<(), Errno> {
        let Some(slash) = name.iter().rposition(|&b| b == b'/') else {
            return Ok(());
        };
        let parent = &name[..slash];
        match statat(&self.fd, parent, AtFlags::empty()) {
            Err(Errno::NOENT) => self.directory(parent),
            _ => Ok(()),
        }
    }

    fn node(&mut self, name: &[u8], kind: FileType, device: u64) -> Result<(), Errno> {
        self.parents(name)?;
        mknodat(&self.fd, name, kind, Mode::from_raw_mode(0o644), device)?;
        self.note(name)
    }

    /// Creates nested directories, deeper than PATH_MAX, with a file in each. Their times are not
    /// set, because no path reaches them.
    fn deep(&mut self, name: &[u8], levels: u64, length: usize) -> Result<(), Errno> {
        self.directory(name)?;
        let open = |at: &OwnedFd, name: &[u8]| {
            openat(at, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        let mut at = open(&self.fd, name)?;
        let level = vec![b'd'; length];
        for _ in 0..levels {
            mkdirat(&at, level.as_slice(), Mode::from_raw_mode(0o755))?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            openat(&at, "file", flags, Mode::from_raw_mode(0o600))?;
            at = open(&at, &level)?;
        }
        Ok(())
    }

    fn attribute(&self, name: &[u8], key: &[u8], value: &[u8]) -> Result<(), Errno> {
        let path = self.root.join(OsStr::from_bytes(name));
        lsetxattr(&path, key, value, XattrFlags::empty())
    }

    fn mount(&mut self, name: &[u8]) -> Result<(), Errno> {
        use rustix::mount::{MountFlags, mount};
        self.directory(name)?;
        let path = self.root.join(OsStr::from_bytes(name));
        mount(
            "tmpfs",
            &path,
            "tmpfs",
            MountFlags::empty(),
            c"size=1m,mode=755",
        )?;
        self.mounts.push(path);
        self.give(name)
    }

    fn note(&mut self, name: &[u8]) -> Result<(), Errno> {
        self.made.push((name.to_vec(), None));
        self.give(name)
    }

    fn give(&self, name: &[u8]) -> Result<(), Errno> {
        if !self.user {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(USER), Gid::from_raw(USER));
        chownat(
            &self.fd,
            name,
            Some(uid),
            Some(gid),
            AtFlags::SYMLINK_NOFOLLOW,
        )
    }

    fn set_times(&self) {
        for (index, (name, given)) in (0..).zip(&self.made) {
            let time = |seconds, nanoseconds: i64| Timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds as _,
            };
            let past = PAST + 100 * index;
            let times = Timestamps {
                last_access: time(given.unwrap_or(past) + 7, 123_000_000 + index),
                last_modification: time(given.unwrap_or(past), 987_000_000 + index),
            };
            // Fails with EPERM if the lines have given a file to another user.
            let _ = utimensat(&self.fd, name.as_slice(), &times, AtFlags::SYMLINK_NOFOLLOW);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for path in self.mounts.iter().rev() {
            let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
        }
        // Leftovers are removed with the scratch directory.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

fn device(major: u64, minor: u64) -> u64 {
    makedev(major as u32, minor as u32)
}

fn number(word: &[u8]) -> u64 {
    number_of(word) as u64
}

/// Parses a number, with `K` or `M`.
fn number_of(word: &[u8]) -> usize {
    let text = std::str::from_utf8(word).expect("a number is a word");
    let (digits, factor) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((digits, "K")) => (digits, 1 << 10),
        Some((digits, "M")) => (digits, 1 << 20),
        _ => (text, 1),
    };
    let number: usize = digits
        .parse()
        .unwrap_or_else(|_| panic!("a number: {text}"));
    number * factor
}

/// Parses a value: text, or hexadecimal digits after `0x`.
fn value(word: &[u8]) -> Vec<u8> {
    let Some(digits) = word.strip_prefix(b"0x") else {
        return word.to_vec();
    };
    let digits = std::str::from_utf8(digits).expect("digits");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// What a line needs that a machine or a user may not have.
fn need_of(verb: &str, words: &[Vec<u8>]) -> &'static str {
    match verb {
        "char" | "block" => "devices",
        "mount" => "mounts",
        "acl" | "dacl" => "acl",
        "xattr" => match words.get(1) {
            Some(key) if key.starts_with(b"user.") => "xattr",
            _ => "trusted-xattr",
        },
        _ => "root",
    }
}

/// Builds the kernel's format of an ACL from `u::rw,u:1000:r,g::r,m::rw,o::r`.
fn acl(text: &[u8]) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for entry in std::str::from_utf8(text).expect("text").split(',') {
        let parts: Vec<&str> = entry.split(':').collect();
        let [kind, id, permissions] = parts[..] else {
            panic!("an ACL entry has three parts: {entry}");
        };
        let tag: u16 = match (kind, id) {
            ("u", "") => 0x01,
            ("u", _) => 0x02,
            ("g", "") => 0x04,
            ("g", _) => 0x08,
            ("m", _) => 0x10,
            ("o", _) => 0x20,
            _ => panic!("an ACL entry: {entry}"),
        };
        let bit = |letter, bit: u16| if permissions.contains(letter) { bit } else { 0 };
        bytes.extend(tag.to_le_bytes());
        bytes.extend((bit('r', 4) | bit('w', 2) | bit('x', 1)).to_le_bytes());
        bytes.extend(id.parse().unwrap_or(NOBODY).to_le_bytes());
    }
    bytes
}
