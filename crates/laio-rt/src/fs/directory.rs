//! Reading directories.

use super::{File, FileType, Metadata};
use crate::submission::submit;
use laio::ops::{self, Entries, Name, StatPath};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

/// Opens a directory to read its entries.
///
/// # Errors
/// `NotFound`, `NotADirectory` and others of `open`.
///
/// ```
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(async {
///     let mut entries = laio_rt::fs::read_dir("/proc/self").await?;
///     while let Some(entry) = entries.next().await? {
///         println!("{}", entry.path().display());
///     }
///     std::io::Result::Ok(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let options = File::options().read(true).directory(true);
    let directory = options.open(path).await?;
    Ok(ReadDir::new(directory, path))
}

/// The entries of a directory, in no order.
#[derive(Debug)]
pub struct ReadDir {
    directory: File,
    path: PathBuf,
    read: VecDeque<DirEntry>,
    /// Reused for each read.
    buffer: Vec<u8>,
}

impl ReadDir {
    /// Reads the entries of an open directory. `path` is only used as a prefix of their names.
    pub fn new(directory: File, path: impl Into<PathBuf>) -> ReadDir {
        ReadDir {
            directory,
            path: path.into(),
            read: VecDeque::new(),
            buffer: Vec::with_capacity(ops::ReadDir::<File>::ROOM),
        }
    }

    /// Returns the next entry, or `None` at the end. Skips `.` and `..`.
    ///
    /// # Errors
    /// Those of the file system; `NotFound` if the directory was removed.
    pub async fn next(&mut self) -> io::Result<Option<DirEntry>> {
        while self.read.is_empty() {
            let entries = self.next_chunk().await?;
            if entries.is_empty() {
                return Ok(None);
            }
            self.read.extend(entries.iter().map(|entry| DirEntry {
                name: entry.name().to_owned(),
                path: self.path.join(entry.name()),
                inode: entry.inode(),
                file_type: entry.file_type(),
            }));
            self.buffer = entries.into_buffer();
        }
        Ok(self.read.pop_front())
    }

    /// Returns the next entries of one `getdents64`, some hundreds at a time, without an allocation for each. At
    /// the end they are [empty](Entries::is_empty). Entries that were read for [`ReadDir::next`] and not yet
    /// returned by it are not among them.
    ///
    /// # Errors
    /// As for [`ReadDir::next`].
    pub async fn next_chunk(&mut self) -> io::Result<Entries> {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.capacity() == 0 {
            buffer.reserve(ops::ReadDir::<File>::ROOM);
        }
        let directory = self.directory.handle().clone();
        submit(ops::ReadDir::with_buffer(directory, buffer)).await
    }

    /// Returns the metadata of an entry by its name in the directory. Does not follow a symbolic link.
    ///
    /// # Errors
    /// `NotFound` if the entry was removed.
    pub async fn metadata(&self, name: impl AsRef<OsStr>) -> io::Result<Metadata> {
        let directory = self.directory.handle().clone();
        let name = Name::from_path_at(directory, Path::new(name.as_ref()))?;
        submit(StatPath::new(name).no_follow()).await
    }

    /// Returns the directory, for operations without a method here.
    pub fn directory(&self) -> &File {
        &self.directory
    }
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry {
    name: OsString,
    path: PathBuf,
    inode: u64,
    file_type: FileType,
}

impl DirEntry {
    /// Returns the name.
    pub fn file_name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the path: that of the directory, and the name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the inode number; for a mount point, that of the directory below the mount.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns the type of the file, or [`FileType::Unknown`] if the file system does not record it in directories.
    pub fn file_type(&self) -> FileType {
        self.file_type
    }
}
