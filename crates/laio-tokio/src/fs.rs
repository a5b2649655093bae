//! Asynchronous file and standard filesystem operations, with the names of `tokio::fs`.
//!
//! Each function keeps the path that it was given until its future is over: a path may own its file, as a
//! temporary one does, and remove it when dropped.

mod atomic;
mod canonicalize;
mod copy;
mod dir_builder;
mod direct_ranges;
mod direct_reader;
mod file;
mod file_times;
mod metadata;
mod open_options;
mod opened;
mod ranges;
mod read_dir;
mod writing;

pub use atomic::write_atomic;
pub use canonicalize::canonicalize;
pub use copy::copy;
pub use dir_builder::DirBuilder;
pub use direct_ranges::RangesRead;
pub use direct_reader::DirectReader;
pub use file::File;
pub use file_times::FileTimes;
pub use laio::ranges::{Direct, DirectReason, RangeOptions, RangeStats};
pub use metadata::{metadata, symlink_metadata, try_exists};
pub use open_options::OpenOptions;
pub use read_dir::{DirEntry, ReadDir, read_dir};

use crate::{blocking, run, submit};
use laio::ops::{Link, Mkdir, Name, OpenFile, OpenStat, Read, ReadLink, Rename, SetMode};
use laio::ops::{StatFile, Symlink, Unlink};
use opened::Opened;
use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Reads the entire contents of a file into a bytes vector. If the file grows meanwhile, the contents may
/// end where they ended at first.
///
/// # Errors
/// Those of opening and reading; `OutOfMemory` if there is not enough memory for the contents.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let open = OpenStat::new(Name::from_path(&path)?, libc::O_RDONLY);
    let opened = run(open.load_whole()).await?;
    let (status, is_stored) = (opened.status().copied(), opened.is_stored());
    let file = Opened::from(OpenFile::from(opened.into_own_descriptor()));
    let status = match status {
        Some(status) => status,
        None => run(StatFile::new(file.clone())).await?,
    };
    let size = usize::try_from(status.size()).unwrap_or(usize::MAX);
    // Where the size may be wrong (procfs, remote file systems), a further read finds the end.
    let exact = is_stored && status.is_file();
    let mut contents = Vec::new();
    contents.try_reserve_exact(size.saturating_add(usize::from(!exact)))?;
    loop {
        let (count, filled) = submit(Read::new(file.clone(), contents)).await?;
        contents = filled;
        if count? == 0 || (exact && contents.len() >= size) {
            return Ok(contents);
        }
        if contents.len() == contents.capacity() {
            contents.try_reserve(MORE)?;
        }
    }
}

/// Bytes that [`read()`] reads at a time beyond the size of the file.
const MORE: usize = 16 * 1024;

/// Reads the entire contents of a file into a string.
///
/// # Errors
/// Those of [`read()`]; `InvalidData` if the contents are not UTF-8.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = read(path).await?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a file: creates it, or replaces its entire contents.
///
/// Creating a file cannot be attempted, so this is one call of `std::fs::write` on a helper.
///
/// # Errors
/// Those of opening and writing.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_owned(), contents.as_ref().to_owned());
    blocking(|_| std::fs::write(path, contents)).await
}

/// Renames a file or directory. Replaces a file that has the new name.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    run(Rename::new(Name::from_path(&from)?, Name::from_path(&to)?)).await
}

/// Removes a file.
///
/// # Errors
/// `IsADirectory` for a directory.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    run(Unlink::new(Name::from_path(&path)?)).await
}

/// Removes an empty directory.
///
/// # Errors
/// `DirectoryNotEmpty` if it is not empty.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    run(Unlink::directory(Name::from_path(&path)?)).await
}

/// Removes a directory after removing all its contents. Follows no symbolic link, as
/// `std::fs::remove_dir_all`, which a helper calls.
///
/// # Errors
/// Those of `std::fs::remove_dir_all`.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    blocking(|_| std::fs::remove_dir_all(path)).await
}

/// Creates a directory.
///
/// # Errors
/// `AlreadyExists` if the name exists.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    run(Mkdir::new(Name::from_path(&path)?, 0o777)).await
}

/// Creates a directory and all its missing parents.
///
/// # Errors
/// `NotADirectory` if a component of the path is not a directory.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path).await
}

/// Creates a hard link to a file.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    run(Link::new(
        Name::from_path(&original)?,
        Name::from_path(&link)?,
    ))
    .await
}

/// Creates the symbolic link `link` to `original`.
///
/// # Errors
/// `AlreadyExists` if the name exists.
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let text = CString::new(original.as_ref().as_os_str().as_bytes())?;
    run(Symlink::new(text, Name::from_path(&link)?)).await
}

/// Reads a symbolic link, and returns the file that it points to.
///
/// # Errors
/// `InvalidInput` if it is not a symbolic link.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    run(ReadLink::new(Name::from_path(&path)?)).await
}

/// Changes the permissions of a file or directory, following symbolic links.
///
/// # Errors
/// `PermissionDenied` if the file belongs to another user.
pub async fn set_permissions(path: impl AsRef<Path>, perm: Permissions) -> io::Result<()> {
    let name = Name::from_path(&path)?;
    run(SetMode::named(name, perm.mode()).follow()).await
}
