//! Options for opening a file.

use super::{File, Metadata};
use crate::submission::{submit, walk_in};
use crate::{ContextId, Descriptor};
use laio::Errno;
use laio::ops::{Name, Open, OpenStat, Opened};
use laio::walk::Walk;
use rustix::fs::{OFlags, ResolveFlags};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Options for opening a file, and the directory in which relative paths begin.
///
/// ```
/// use laio_rt::fs::{File, OpenOptions};
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(async {
///     let root = OpenOptions::new().directory(true).open("/proc/self").await?;
///     let inside = OpenOptions::new().read(true).beneath(&root);
///     assert!(inside.clone().open("comm").await.is_ok());
///     assert!(inside.open("../version").await.is_err());
///     std::io::Result::Ok(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    flags: i32,
    mode: Option<u32>,
    at: Option<Descriptor>,
    beneath: bool,
    resolve: u64,
}

impl OpenOptions {
    /// How often an open beneath a directory is retried when another process renames a directory of the path
    /// at the same time.
    pub const RACES_MAX: u32 = 16;

    /// Returns the default options: the file is opened for reading.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Opens the file for reading.
    pub fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// Opens the file for writing.
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Opens the file for writing; each write goes to the current end of the file.
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Truncates the file to length 0.
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Creates the file; fails with `AlreadyExists` if the name exists.
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Fails with `NotADirectory` unless the file is a directory.
    pub fn directory(self, directory: bool) -> Self {
        self.flag(OFlags::DIRECTORY, directory)
    }

    /// Does not follow a symbolic link in the last component of the path: opening one fails with `ELOOP`.
    pub fn no_follow(self, no_follow: bool) -> Self {
        self.flag(OFlags::NOFOLLOW, no_follow)
    }

    /// Opens the file with `O_PATH`: the descriptor identifies the file in other calls, and can be neither read
    /// nor written.
    pub fn path_only(self, path_only: bool) -> Self {
        self.flag(OFlags::PATH, path_only)
    }

    fn flag(mut self, flag: OFlags, set: bool) -> Self {
        let bits = flag.bits() as i32;
        self.flags = if set {
            self.flags | bits
        } else {
            self.flags & !bits
        };
        self
    }

    /// Adds other `O_*` flags.
    pub fn custom_flags(mut self, flags: i32) -> Self {
        self.flags |= flags;
        self
    }

    /// Sets the permissions of a created file, before the umask. The default is 0o666.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Resolves relative paths in this directory.
    pub fn at(mut self, directory: &File) -> Self {
        self.at = Some(directory.handle().clone());
        self
    }

    /// Resolves paths in this directory, and forbids them to leave it through `..`, an absolute path or a
    /// symbolic link: such an open fails with `EXDEV`. Before Linux 5.6 a [`Walk`] opens the path.
    pub fn beneath(self, directory: &File) -> Self {
        let mut options = self.at(directory);
        options.beneath = true;
        options
    }

    /// Restricts how names are resolved by more `RESOLVE_*` bits of `openat2`.
    pub fn resolve(mut self, bits: u64) -> Self {
        self.resolve |= bits;
        self
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied` and others of `open`; `InvalidInput` for choices that exclude each
    /// other.
    pub async fn open(self, path: impl AsRef<Path>) -> io::Result<File> {
        Ok(self.open_examined(path, |open| open).await?.into())
    }

    /// Opens a file, and returns its metadata, with fewer system calls than [`OpenOptions::open`] and
    /// [`File::metadata`].
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`] and [`File::metadata`].
    pub async fn open_with_metadata(self, path: impl AsRef<Path>) -> io::Result<(File, Metadata)> {
        let opened = self.open_examined(path, |open| open).await?;
        let status = opened.status().copied();
        let file = File::from(opened);
        match status {
            Some(status) => Ok((file, status)),
            None => {
                let status = file.metadata().await?;
                Ok((file, status))
            }
        }
    }

    /// Opens a file with the operation that `operation` makes of an open, and returns what the attempt
    /// has learned of it.
    pub(super) async fn open_examined(
        self,
        path: impl AsRef<Path>,
        operation: impl Fn(OpenStat<Descriptor>) -> OpenStat<Descriptor>,
    ) -> io::Result<Opened> {
        let flags = self.open_flags()?;
        let path = path.as_ref();
        let mut name = Some(Name::from_path_in(self.at.clone(), path)?);
        let mut races = 0;
        loop {
            let may_race = self.beneath && races < Self::RACES_MAX;
            let name = if may_race { name.clone() } else { name.take() };
            let name = name.expect("taken for the last try");
            let mut open = Open::new(name, flags).resolve(self.resolve);
            if let Some(mode) = self.mode {
                open = open.mode(mode);
            }
            if self.beneath {
                open = open.beneath();
            }
            match submit(operation(open.into())).await {
                Err(error) if may_race && is_race(&error) => races += 1,
                Err(error) => return self.walked(path, flags, error).await,
                opened => return opened,
            }
        }
    }

    /// Opens without `openat2` what failed because of its absence. Other errors stay.
    async fn walked(self, path: &Path, flags: i32, error: io::Error) -> io::Result<Opened> {
        let mut resolve = self.resolve;
        if self.beneath {
            resolve |= (ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS).bits();
        }
        match self.at {
            Some(start) if Walk::replaces(&error, resolve) => {
                let path = CString::new(path.as_os_str().as_bytes())?;
                let mut walk = Walk::new(start, &path, flags, resolve);
                if let Some(mode) = self.mode {
                    walk = walk.mode(mode);
                }
                Ok(walk_in(ContextId::OWN, walk).await?.into())
            }
            _ => Err(error),
        }
    }

    fn open_flags(&self) -> io::Result<i32> {
        let mut flags = match (self.read, self.write || self.append) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        let changes = self.truncate || self.create || self.create_new;
        if (changes && flags == OFlags::RDONLY) || (self.append && self.truncate) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        flags.set(OFlags::APPEND, self.append);
        flags.set(OFlags::TRUNC, self.truncate && !self.create_new);
        flags.set(OFlags::CREATE, self.create || self.create_new);
        flags.set(OFlags::EXCL, self.create_new);
        Ok(flags.bits() as i32 | self.flags)
    }
}

/// Whether another process renamed a directory of the path at the same time.
fn is_race(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::AGAIN.raw())
}
