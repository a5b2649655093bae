//! Probes which attempts the file system under a directory supports.

use laio::{BackendKind, Context, Errno, Options, Place};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat,
};
use rustix::io::{ReadWriteFlags, pread, preadv2, pwrite, pwritev2};
use std::ffi::{CStr, CString};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The result of probing a feature of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file system supports it.
    Yes,
    /// The file system refused it.
    No(Errno),
    /// It could not be probed: no file may be created, and there is no file to read.
    Unknown,
}

impl Answer {
    /// Returns the answer for a transfer of `whole` bytes. A short transfer is neither a refusal
    /// nor success.
    fn to_transfer(result: rustix::io::Result<usize>, whole: usize) -> Answer {
        match result {
            Ok(moved) if moved == whole => Answer::Yes,
            Ok(_) => Answer::Unknown,
            Err(errno) => Answer::No(errno.into()),
        }
    }

    fn to_open(result: rustix::io::Result<OwnedFd>) -> Answer {
        match result {
            Ok(_) => Answer::Yes,
            Err(errno) => Answer::No(errno.into()),
        }
    }
}

/// A directory, its file system, and which attempts it supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The given directory, or that of the given file.
    pub path: PathBuf,
    /// `st_dev`, which identifies the file system.
    pub device: u64,
    /// The file system's type; empty if the kernel does not report it.
    pub fstype: String,
    /// Where the file system is mounted.
    pub mount_point: String,
    /// Where its data are. The engine attempts nothing on a [`Place::Remote`] file system, because
    /// any call on it may wait for another process or machine.
    pub place: Place,
    /// Whether a file could be created there (without a name; it is deleted).
    pub writable: Result<(), Errno>,
    /// Opening by a cached name without waiting.
    pub cached_open: Answer,
    /// Reading cached data without waiting.
    pub nowait_read: Answer,
    /// Writing without waiting.
    pub nowait_write: Answer,
    /// Reading and writing with `O_DIRECT`.
    pub direct: Answer,
}

const BYTES: usize = 4096;

/// Flags for opening a possible FIFO or device without waiting for it.
const CAREFULLY: OFlags = OFlags::CLOEXEC
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);

impl Directory {
    /// Probes the file system under `path`. If it is remote, this may wait.
    ///
    /// # Errors
    /// Those of opening the directory.
    pub fn probe(path: &Path) -> Result<Directory, Errno> {
        let (path, directory) = open_directory(path)?;
        let mut context = Context::new(Options::new().backend(BackendKind::Sync))?;
        let mount = context.mount_of(&directory).ok_or(Errno::NODEV)?.clone();
        let sample = Sample::from_directory(&directory);
        let nameless = nameless_file(&directory, OFlags::empty());
        let (nowait_read, nowait_write, direct) = match &nameless {
            Ok(file) => {
                let filled = pwrite(file, &[1; BYTES], 0);
                let filled = filled.is_ok_and(|written| written == BYTES);
                let (read, write) = if filled {
                    (try_read(file.as_fd(), BYTES), try_write(file.as_fd()))
                } else {
                    (Answer::Unknown, Answer::Unknown)
                };
                let direct = nameless_file(&directory, OFlags::DIRECT);
                (read, write, Answer::to_open(direct))
            }
            Err(_) => {
                let (read, direct) = sample.try_file(&directory);
                (read, Answer::Unknown, direct)
            }
        };
        Ok(Directory {
            path,
            device: mount.device,
            fstype: mount.fstype,
            mount_point: mount.point,
            place: mount.place,
            writable: nameless.map(drop).map_err(Errno::from),
            cached_open: sample.try_name(&directory),
            nowait_read,
            nowait_write,
            direct,
        })
    }
}

fn open_directory(path: &Path) -> Result<(PathBuf, OwnedFd), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => Ok((path.to_owned(), directory)),
        Err(rustix::io::Errno::NOTDIR) => {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            Ok((
                parent.to_owned(),
                openat(CWD, parent, flags, Mode::empty())?,
            ))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Creates a file without a name, so that nothing is left behind in any case.
fn nameless_file(directory: &OwnedFd, further: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | further;
    openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)
}

fn try_read(file: BorrowedFd<'_>, bytes: usize) -> Answer {
    let mut buffer = [0; BYTES];
    let mut vector = [IoSliceMut::new(&mut buffer[..bytes])];
    Answer::to_transfer(preadv2(file, &mut vector, 0, ReadWriteFlags::NOWAIT), bytes)
}

fn try_write(file: BorrowedFd<'_>) -> Answer {
    let vector = [IoSlice::new(&[2; BYTES])];
    Answer::to_transfer(pwritev2(file, &vector, 0, ReadWriteFlags::NOWAIT), BYTES)
}

/// Existing entries of a directory that can be used for probing.
struct Sample {
    /// Any name.
    name: Option<CString>,
    /// The name of a regular file.
    file: Option<CString>,
}

impl Sample {
    /// The maximum number of entries to read: suitable ones are usually among the first few.
    const ENTRIES: usize = 256;

    fn from_directory(directory: &OwnedFd) -> Sample {
        let mut sample = Sample {
            name: None,
            file: None,
        };
        let Ok(entries) = Dir::read_from(directory) else {
            return sample;
        };
        for entry in entries.take(Sample::ENTRIES).flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if entry.file_type() == FileType::RegularFile {
                sample.file = Some(name.to_owned());
                sample.name = sample.file.clone();
                break;
            }
            sample.name.get_or_insert_with(|| name.to_owned());
        }
        sample
    }

    /// Opens a name from the cache, after a lookup has cached it.
    fn try_name(&self, directory: &OwnedFd) -> Answer {
        let name = self.name.as_deref().unwrap_or(c".");
        let _ = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let cached = ResolveFlags::CACHED;
        Answer::to_open(openat2(directory, name, flags, Mode::empty(), cached))
    }

    /// Reads an existing file twice: the second time its data is cached. Then opens it with
    /// O_DIRECT.
    fn try_file(&self, directory: &OwnedFd) -> (Answer, Answer) {
        let open = |name: &CStr, further: OFlags| {
            let flags = OFlags::RDONLY | CAREFULLY | further;
            openat(directory, name, flags, Mode::empty())
        };
        let Some(name) = self.file.as_deref() else {
            return (Answer::Unknown, Answer::Unknown);
        };
        let Ok(file) = open(name, OFlags::empty()) else {
            return (Answer::Unknown, Answer::Unknown);
        };
        let read = match pread(&file, &mut [0; BYTES], 0) {
            Ok(bytes) if bytes > 0 => try_read(file.as_fd(), bytes),
            _ => Answer::Unknown,
        };
        (read, Answer::to_open(open(name, OFlags::DIRECT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let found = Directory::probe(directory.path()).unwrap();
        assert!(!found.fstype.is_empty());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_stands_for_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "x").unwrap();
        // A concurrent mount or rename invalidates the name cache.
        let same = || Directory::probe(&file) == Directory::probe(directory.path());
        let limit = std::time::Duration::from_secs(60);
        assert!(laio_testing::limit::wait_until(limit, same));
        assert!(Directory::probe(&file).is_ok());
        let missing = Directory::probe(&directory.path().join("missing"));
        assert_eq!(missing, Err(Errno::NOENT));
    }

    #[test]
    fn where_nothing_can_be_made_an_existing_file_is_tried() {
        let found = Directory::probe(Path::new("/proc")).unwrap();
        assert_eq!(found.fstype, "proc");
        assert!(found.writable.is_err());
        assert_eq!(found.nowait_write, Answer::Unknown);
        assert!(matches!(found.cached_open, Answer::No(_)), "{found:?}");
    }
}
