//! Asynchronous file and standard filesystem operations, with the names of `tokio::fs`.

mod atomic;
mod dir_builder;
mod file;
mod file_times;
mod metadata;
mod open_options;
mod ranges;
mod read_dir;

pub use atomic::write_atomic;
pub use dir_builder::DirBuilder;
pub use file::File;
pub use file_times::FileTimes;
pub use metadata::{metadata, symlink_metadata, try_exists};
pub use open_options::OpenOptions;
pub use read_dir::{DirEntry, ReadDir, read_dir};

use crate::{blocking, run, submit};
use laio::ops::{Limit, Link, Mkdir, Name, Open, OpenFile, Read, ReadLink, Rename, SetMode};
use laio::ops::{StatFile, Symlink, Unlink};
use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Reads the entire contents of a file into a bytes vector.
///
/// # Errors
/// Those of opening and reading.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = open(Name::from_path(path)?).await?;
    let (count, mut contents) = submit(Read::new(file.clone(), Vec::with_capacity(FIRST))).await?;
    if count? < FIRST {
        // A read of a file is complete unless the file ends; one of a stream may be short.
        let (count, rest) = submit(Read::new(file.clone(), Vec::with_capacity(1))).await?;
        if count? == 0 {
            return Ok(contents);
        }
        contents.extend(rest);
    }
    let size = run(StatFile::new(file.clone())).await?.size();
    let left = size.saturating_sub(contents.len() as u64);
    // One byte more than the size, so that the read that sees the end needs no larger buffer.
    contents.reserve_exact(
        usize::try_from(left)
            .unwrap_or(usize::MAX)
            .saturating_add(1),
    );
    loop {
        let spare = contents.capacity() - contents.len();
        let read = Read::new(file.clone(), Limit::new(contents, spare));
        let (count, filled) = submit(read).await?;
        contents = filled.into_inner();
        if count? == 0 {
            return Ok(contents);
        }
        if contents.len() == contents.capacity() {
            contents.reserve(FIRST);
        }
    }
}

/// Bytes that [`read`] reads before it asks for the size of the file.
const FIRST: usize = 16 * 1024;

async fn open(name: Name) -> io::Result<OpenFile> {
    let opened = run(Open::new(name, OPEN_TO_READ)).await?;
    Ok(OpenFile::from(opened))
}

/// `O_RDONLY`.
const OPEN_TO_READ: i32 = 0;

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
/// Creating a file cannot be attempted, so this is one call of `std::fs::write` on tokio's pool.
///
/// # Errors
/// Those of opening and writing.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_owned(), contents.as_ref().to_owned());
    blocking(|| std::fs::write(path, contents)).await
}

/// Copies the contents and the permissions of a file, as `std::fs::copy` does, on tokio's pool. Returns
/// the number of bytes.
///
/// # Errors
/// Those of `std::fs::copy`.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    blocking(|| std::fs::copy(from, to)).await
}

/// Renames a file or directory. Replaces a file that has the new name.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    run(Rename::new(Name::from_path(from)?, Name::from_path(to)?)).await
}

/// Removes a file.
///
/// # Errors
/// `IsADirectory` for a directory.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    run(Unlink::new(Name::from_path(path)?)).await
}

/// Removes an empty directory.
///
/// # Errors
/// `DirectoryNotEmpty` if it is not empty.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    run(Unlink::directory(Name::from_path(path)?)).await
}

/// Removes a directory after removing all its contents, as `std::fs::remove_dir_all` does, on tokio's
/// pool.
///
/// # Errors
/// Those of `std::fs::remove_dir_all`.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    blocking(|| std::fs::remove_dir_all(path)).await
}

/// Creates a directory.
///
/// # Errors
/// `AlreadyExists` if the name exists.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    run(Mkdir::new(Name::from_path(path)?, 0o777)).await
}

/// Creates a directory and all its missing parents.
///
/// # Errors
/// `NotADirectory` if a component of the path is not a directory.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path).await
}

/// Returns the canonical, absolute form of a path with all components normalized and symbolic links
/// resolved, as `std::fs::canonicalize` does, on tokio's pool.
///
/// # Errors
/// Those of `std::fs::canonicalize`.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    blocking(|| std::fs::canonicalize(path)).await
}

/// Creates a hard link to a file.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    run(Link::new(
        Name::from_path(original)?,
        Name::from_path(link)?,
    ))
    .await
}

/// Creates the symbolic link `link` to `original`.
///
/// # Errors
/// `AlreadyExists` if the name exists.
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let text = CString::new(original.as_ref().as_os_str().as_bytes())?;
    run(Symlink::new(text, Name::from_path(link)?)).await
}

/// Reads a symbolic link, and returns the file that it points to.
///
/// # Errors
/// `InvalidInput` if it is not a symbolic link.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    run(ReadLink::new(Name::from_path(path)?)).await
}

/// Changes the permissions of a file or directory, following symbolic links.
///
/// # Errors
/// `PermissionDenied` if the file belongs to another user.
pub async fn set_permissions(path: impl AsRef<Path>, perm: Permissions) -> io::Result<()> {
    let name = Name::from_path(path)?;
    run(SetMode::named(name, perm.mode()).follow()).await
}
