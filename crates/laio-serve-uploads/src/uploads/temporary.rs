//! A file that gets its name when it is complete.

use super::disk::Disk;
use super::problem::of_own;
use super::target::Target;
use laio::ops::{FileStatus, Fsync, Link, Name, Open, Rename, SetMode, StatFile, StatPath, Unlink};
use laio_rt::Descriptor;
use laio_serve_base::options::UploadSync;
use laio_serve_core::files::temporary_name::{lock, locks_in, temporary_name};
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// New names that are tried, in case other programs have chosen the same.
pub(super) const NAME_TRIES: usize = 3;

/// Bytes that a disk writes in a second at least, once they have to reach it.
const SYNC_RATE: u64 = 1 << 20;

/// A file without a name, or with a temporary one where the file system has no unnamed files, or `/proc` does not name
/// them. Dropping it removes it.
pub(super) struct Temporary {
    pub(super) file: Descriptor,
    name: TemporaryName,
    /// A temporary name is one of a locked file.
    locked: bool,
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
            Ok(file) => {
                let file = Descriptor::from(file);
                if is_in_proc(disk, &file).await? {
                    let locked = locks_in(&directory) && lock(&file).is_ok_and(|it| it);
                    return Ok(Temporary {
                        file,
                        name: TemporaryName {
                            directory,
                            name: None,
                        },
                        locked,
                        written: 0,
                    });
                }
            }
            Err(error) if has_no_unnamed_files(&error) => {}
            Err(error) => return Err(error),
        }
        let mut tries = NAME_TRIES;
        loop {
            tries -= 1;
            match Temporary::create_named(disk, &directory).await {
                Err(error) if is(&error, Errno::EXIST) && tries > 0 => {}
                Err(error) if is(&error, Errno::NOENT) => {
                    return Err(of_name(disk, &directory, error).await);
                }
                made => return made.map_err(of_own),
            }
        }
    }

    /// Creates a file with a temporary name.
    ///
    /// # Errors
    /// `EEXIST` if another program has chosen the same name, or a starting server removes the file.
    async fn create_named(disk: Disk<'_>, directory: &Descriptor) -> io::Result<Temporary> {
        let locked = locks_in(directory);
        let name = temporary_name(locked);
        let at = Name::at(directory.clone(), name.clone());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
        // Before the call, so that a call given up leaves no name behind.
        let mut name = TemporaryName {
            directory: directory.clone(),
            name: Some(name),
        };
        let opened = disk.names(Open::new(at, flags.bits() as i32)).await;
        let file = Descriptor::from(opened.inspect_err(|error| name.give_up(error))?);
        if locked && !claim(disk, &file).await? {
            return Err(Errno::EXIST.into());
        }
        Ok(Temporary {
            file,
            name,
            locked,
            written: 0,
        })
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

    /// Gives the file the permissions of the one that it replaces, where the file system has permissions.
    pub(super) async fn take_mode_of(
        &self,
        disk: Disk<'_>,
        replaced: &FileStatus,
    ) -> io::Result<()> {
        let mode = replaced.mode() & 0o777;
        match disk.names(SetMode::new(self.file.clone(), mode)).await {
            Err(error) if has_no_modes(&error) => Ok(()),
            set => set.map_err(of_own),
        }
    }

    /// Waits until the contents have reached the disk, if `sync` says so.
    pub(super) async fn sync(&self, disk: Disk<'_>, sync: UploadSync) -> io::Result<()> {
        if sync == UploadSync::None {
            return Ok(());
        }
        let limit = disk.services.limits.read_time;
        let limit = limit + Duration::from_secs(self.written / SYNC_RATE);
        let synced = disk.data(limit, Fsync::new(self.file.clone())).await?;
        synced.map_err(of_own)
    }

    /// Returns the status of the file.
    pub(super) async fn status(&self, disk: Disk<'_>) -> io::Result<FileStatus> {
        let status = disk.names(StatFile::new(self.file.clone())).await;
        status.map_err(of_own)
    }

    /// Gives the file its name. Another file of that name is replaced, or with `only_create` an error.
    ///
    /// # Errors
    /// `EEXIST` with `only_create`, `EISDIR` for the name of a directory, `ENOENT` if the directory was removed.
    pub(super) async fn publish(
        self,
        disk: Disk<'_>,
        target: &Target,
        only_create: bool,
    ) -> io::Result<Published> {
        let Temporary {
            file,
            mut name,
            locked,
            ..
        } = self;
        if name.name.is_none() {
            match link(disk, &file, target.at()).await {
                Ok(()) => return Ok(Published::Created),
                Err(error) if !only_create && is(&error, Errno::EXIST) => {}
                Err(error) => return Err(of_name(disk, &target.directory, error).await),
            }
            // No call gives an unnamed file the name of another one.
            name.link(disk, &file, locked).await?;
        }
        let published = rename(disk, &name, target, only_create).await?;
        name.name = None;
        Ok(published)
    }
}

impl TemporaryName {
    /// Gives the file a temporary name.
    async fn link(&mut self, disk: Disk<'_>, file: &Descriptor, locked: bool) -> io::Result<()> {
        let mut tries = NAME_TRIES;
        loop {
            let name = temporary_name(locked);
            let at = Name::at(self.directory.clone(), name.clone());
            self.name = Some(name);
            let linked = link(disk, file, at).await;
            let linked = linked.inspect_err(|error| self.give_up(error));
            tries -= 1;
            match linked {
                Err(error) if is(&error, Errno::EXIST) && tries > 0 => {}
                linked => return linked.map_err(of_own),
            }
        }
    }

    /// Forgets the name after an error with which no file has got it. Another program may have it.
    fn give_up(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::TimedOut {
            self.name = None;
        }
    }
}

/// Locks something that has a temporary name already. Returns false if a server that starts has locked it first, and
/// removes it.
///
/// # Errors
/// Like [`lock`].
pub(super) async fn claim(disk: Disk<'_>, file: &Descriptor) -> io::Result<bool> {
    if !lock(file)? {
        return Ok(false);
    }
    let status = disk.names(StatFile::new(file.clone())).await?;
    Ok(status.links() > 0)
}

async fn link(disk: Disk<'_>, file: &Descriptor, to: Name<Descriptor>) -> io::Result<()> {
    disk.names(Link::new(Name::of_open(file.clone()), to).follow())
        .await
}

/// Whether `/proc` has the file, which `linkat` needs: a root directory may lack it.
async fn is_in_proc(disk: Disk<'_>, file: &Descriptor) -> io::Result<bool> {
    let in_proc = Name::of_open(file.clone());
    match disk.names(StatPath::new(in_proc)).await {
        Ok(_) => Ok(true),
        Err(error) if has_no_proc(&error) => Ok(false),
        Err(error) => Err(of_own(error)),
    }
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
        // The file system does not have the flag, or does not allow the name.
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
        Err(error) => return Err(of_name(disk, &target.directory, error).await),
    }
    match disk.names(Rename::new(from(), target.at())).await {
        Ok(()) => Ok(Published::Replaced),
        Err(error) if is(&error, Errno::ISDIR) => Err(error),
        // A file has the name, so that the error cannot be about it.
        Err(error) => Err(of_own(error)),
    }
}

/// Returns what an error means after a call that gives a file its name: `ENOENT` is about the directory if that was
/// removed, and else about the server's own name of the file.
pub(super) async fn of_name(disk: Disk<'_>, directory: &Descriptor, error: io::Error) -> io::Error {
    if is_one_of(&error, &[Errno::NOTDIR, Errno::LOOP, Errno::XDEV]) {
        return of_own(error);
    }
    if !is(&error, Errno::NOENT) {
        return error;
    }
    match disk.names(StatFile::new(directory.clone())).await {
        Ok(status) if status.links() > 0 => of_own(error),
        _ => error,
    }
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
    let opened = disk.names(Open::new(here, flags.bits() as i32)).await;
    let directory = Descriptor::from(opened.map_err(of_own)?);
    let limit = disk.services.limits.read_time;
    let synced = disk.data(limit, Fsync::new(directory)).await?;
    synced.map_err(of_own)
}

pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// `EISDIR` and `ENOENT` are those of kernels that do not know the flag.
fn has_no_unnamed_files(error: &io::Error) -> bool {
    is_one_of(
        error,
        &[Errno::OPNOTSUPP, Errno::ISDIR, Errno::NOENT, Errno::INVAL],
    )
}

fn has_no_proc(error: &io::Error) -> bool {
    is_one_of(
        error,
        &[Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::PERM],
    )
}

fn has_no_modes(error: &io::Error) -> bool {
    is_one_of(error, &[Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS])
}

fn is_one_of(error: &io::Error, errnos: &[Errno]) -> bool {
    errnos.iter().any(|&errno| is(error, errno))
}
