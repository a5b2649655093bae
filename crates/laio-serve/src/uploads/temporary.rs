//! A file that gets its name when it is complete.

use super::disk::Disk;
use super::target::Target;
use crate::options::UploadSync;
use laio::ops::{FileStatus, Fsync, Link, Name, Open, Rename, SetMode, StatFile, Unlink};
use laio_rt::Descriptor;
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;

/// The beginning of the names of temporary files.
const PREFIX: &str = ".laio-upload-";

/// Bytes that a disk writes in a second at least, once they have to reach it.
const SYNC_RATE: u64 = 1 << 20;

/// Whether any part of a name is that of a temporary file, which requests cannot name.
pub(crate) fn is_temporary(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'/')
        .any(|part| part.starts_with(PREFIX.as_bytes()))
}

/// Returns a new name for a temporary file.
pub(super) fn temporary_name() -> CString {
    let random = RandomState::new().hash_one(0);
    CString::new(format!("{PREFIX}{random:016x}")).unwrap_or_default()
}

/// A file without a name, or with a temporary one where the file system has no unnamed files. Dropping it removes it.
pub(super) struct Temporary {
    pub(super) file: Descriptor,
    name: TemporaryName,
    written: u64,
}

/// A temporary name, removed when dropped.
pub(super) struct TemporaryName {
    directory: Descriptor,
    name: Option<CString>,
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            laio_rt::detach(Unlink::new(Name::at(self.directory.clone(), name)));
        }
    }
}

/// How a temporary file has got its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    Created,
    Replaced,
}

impl Temporary {
    /// Creates a file in the directory of `target`.
    pub(super) async fn create(disk: Disk<'_>, target: &Target) -> io::Result<Temporary> {
        let directory = target.directory.clone();
        let here = Name::at(directory.clone(), c".");
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match disk.names(Open::new(here, flags.bits() as i32)).await {
            Ok(file) => Ok(Temporary::new(file.into(), directory, None)),
            Err(error) if has_no_unnamed_files(&error) => {
                Temporary::create_named(disk, directory).await
            }
            Err(error) => Err(error),
        }
    }

    async fn create_named(disk: Disk<'_>, directory: Descriptor) -> io::Result<Temporary> {
        let name = temporary_name();
        let at = Name::at(directory.clone(), name.clone());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        // Before the call, so that a call given up leaves no name behind.
        let mut temporary = TemporaryName {
            directory,
            name: Some(name),
        };
        match disk.names(Open::new(at, flags.bits() as i32)).await {
            Ok(file) => Ok(Temporary {
                file: file.into(),
                name: temporary,
                written: 0,
            }),
            Err(error) => {
                if error.kind() != io::ErrorKind::TimedOut {
                    temporary.name = None;
                }
                Err(error)
            }
        }
    }

    fn new(file: Descriptor, directory: Descriptor, name: Option<CString>) -> Temporary {
        Temporary {
            file,
            name: TemporaryName { directory, name },
            written: 0,
        }
    }

    /// Appends a buffer, and returns it empty.
    pub(super) async fn append(&mut self, disk: Disk<'_>, buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        let limit = disk.services.limits.read_time;
        let written = disk.write_all_at(limit, &self.file, buffer, self.written);
        let mut buffer = written.await?;
        self.written += buffer.len() as u64;
        buffer.clear();
        Ok(buffer)
    }

    /// Returns the bytes written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Gives the file the permissions of the one that it replaces. The server may not be allowed to.
    pub(super) async fn take_mode_of(&self, disk: Disk<'_>, replaced: &FileStatus) {
        let mode = replaced.mode() & 0o777;
        let set = SetMode::new(self.file.clone(), mode);
        let _ = disk.names(set).await;
    }

    /// Waits until the contents have reached the disk, if `sync` says so.
    pub(super) async fn sync(&self, disk: Disk<'_>, sync: UploadSync) -> io::Result<()> {
        if sync == UploadSync::None {
            return Ok(());
        }
        let limit = disk.services.limits.read_time;
        let limit = limit + Duration::from_secs(self.written / SYNC_RATE);
        disk.data(limit, Fsync::new(self.file.clone())).await?
    }

    /// Returns the status of the file.
    pub(super) async fn status(&self, disk: Disk<'_>) -> io::Result<FileStatus> {
        disk.names(StatFile::new(self.file.clone())).await
    }

    /// Gives the file its name. Another file of that name is replaced, or with `only_create` an error.
    ///
    /// # Errors
    /// `EEXIST` with `only_create`, `EISDIR` for the name of a directory.
    pub(super) async fn publish(
        self,
        disk: Disk<'_>,
        target: &Target,
        only_create: bool,
    ) -> io::Result<Published> {
        let Temporary { file, mut name, .. } = self;
        if name.name.is_none() {
            match link(disk, &file, target.at()).await {
                Ok(()) => return Ok(Published::Created),
                Err(error) if !only_create && is(&error, Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            // No call gives an unnamed file the name of another one.
            let temporary = temporary_name();
            name.name = Some(temporary.clone());
            let at = Name::at(name.directory.clone(), temporary);
            link(disk, &file, at).await?;
        }
        let published = rename(disk, &name, target, only_create).await?;
        name.name = None;
        Ok(published)
    }
}

async fn link(disk: Disk<'_>, file: &Descriptor, to: Name<Descriptor>) -> io::Result<()> {
    disk.names(Link::new(Name::of_open(file.clone()), to).follow())
        .await
}

async fn rename(
    disk: Disk<'_>,
    from: &TemporaryName,
    target: &Target,
    only_create: bool,
) -> io::Result<Published> {
    let name = from.name.clone().unwrap_or_default();
    let from = || Name::at(from.directory.clone(), name.clone());
    let create = Rename::new(from(), target.at()).flags(RenameFlags::NOREPLACE.bits());
    match disk.names(create).await {
        Ok(()) => return Ok(Published::Created),
        Err(error) if !only_create && is(&error, Errno::EXIST) => {}
        // The file system does not have the flag.
        Err(error) if is(&error, Errno::INVAL) => {
            let exists = target.status(disk).await?.is_some();
            if exists && only_create {
                return Err(Errno::EXIST.into());
            }
            if !exists {
                disk.names(Rename::new(from(), target.at())).await?;
                return Ok(Published::Created);
            }
        }
        Err(error) => return Err(error),
    }
    disk.names(Rename::new(from(), target.at())).await?;
    Ok(Published::Replaced)
}

/// Waits until the names in a directory have reached the disk, if `sync` says so.
pub(super) async fn sync_directory(
    disk: Disk<'_>,
    directory: &Descriptor,
    sync: UploadSync,
) -> io::Result<()> {
    if sync != UploadSync::Directory {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let here = Name::at(directory.clone(), c".");
    let opened = disk.names(Open::new(here, flags.bits() as i32)).await?;
    let limit = disk.services.limits.read_time;
    disk.data(limit, Fsync::new(Descriptor::from(opened)))
        .await?
}

pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// `EISDIR` and `ENOENT` are those of kernels that do not know the flag.
fn has_no_unnamed_files(error: &io::Error) -> bool {
    [Errno::OPNOTSUPP, Errno::ISDIR, Errno::NOENT, Errno::INVAL]
        .iter()
        .any(|&errno| is(error, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_recognised() {
        let name = temporary_name();
        assert!(is_temporary(name.as_bytes()) && is_temporary(b"a/.laio-upload-1/b"));
        assert_ne!(name, temporary_name());
        assert!(!is_temporary(b"a/laio-upload-1") && !is_temporary(b""));
    }
}
