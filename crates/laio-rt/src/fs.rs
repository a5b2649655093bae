//! Files and directories.
//!
//! The functions take paths as `std::fs` does. An operation owns its buffer and returns it with the result,
//! because the kernel may use the buffer while no code of the program runs.

mod attributes;
mod directory;
mod file;
mod options;
mod ranges;

pub use attributes::{access, make_node, set_mode, set_mode_of, set_owner, set_times};
pub use directory::{DirEntry, ReadDir, read_dir};
pub use file::File;
pub use laio::ops::{
    Access, Advice, FileStatus as Metadata, FileType, Node, OpenStat, Timestamp, Whence,
    attribute_names,
};
pub use laio::ranges::{Direct, DirectReason, RangeBytes, RangeOptions, RangeStats};
pub use options::OpenOptions;

use crate::submission::submit;
use laio::ops::{
    CopyRange, Link, Mkdir, Name, ReadLink, Rename, Source, StatPath, Symlink, Unlink,
};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Reads the whole contents of a file. If the file grows meanwhile, the contents may end where they ended at first.
///
/// # Errors
/// Those of opening and reading; `OutOfMemory` if there is not enough memory for the contents.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let opened = OpenOptions::new()
        .read(true)
        .open_examined(path, OpenStat::load_whole)
        .await?;
    let (status, is_stored) = (opened.status().copied(), opened.is_stored());
    let file = File::from(opened);
    let status = match status {
        Some(status) => status,
        None => file.metadata().await?,
    };
    let size = usize::try_from(status.size()).unwrap_or(usize::MAX);
    let mut contents = Vec::new();
    if is_stored && status.is_file() {
        contents.try_reserve_exact(size)?;
        return read_until(&file, contents, size).await;
    }
    // One byte more than the size, so that the read that sees the end needs no larger buffer.
    contents.try_reserve_exact(size.saturating_add(1))?;
    let (result, contents) = file.read_to_end(contents).await;
    result?;
    Ok(contents)
}

/// Reads the first `size` bytes of a file, or all if there are fewer. The size being exact, no read has to find the
/// end.
async fn read_until(file: &File, mut contents: Vec<u8>, size: usize) -> io::Result<Vec<u8>> {
    while contents.len() < size {
        let offset = contents.len() as u64;
        let (result, filled) = file.read_at(contents, offset).await;
        contents = filled;
        if result? == 0 {
            break;
        }
    }
    Ok(contents)
}

/// Writes a file. Creates it, or replaces its contents if it exists.
///
/// # Errors
/// Those of opening and writing.
pub async fn write(path: impl AsRef<Path>, contents: impl Source) -> io::Result<()> {
    let file = File::create(path).await?;
    file.write_all(contents).await.0?;
    file.close().await
}

/// Copies the contents and permissions of a file, inside the kernel where that is possible. Replaces the contents
/// of `to` if it exists. Returns the number of bytes copied.
///
/// # Errors
/// Those of opening, reading and writing.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, status) = File::open_with_metadata(from).await?;
    let mode = status.mode();
    let options = OpenOptions::new().write(true).create(true).truncate(true);
    let to = options.mode(mode & 0o777).open(to).await?;
    let mut done = 0;
    loop {
        let (source, target) = (from.handle().clone(), to.handle().clone());
        match submit(CopyRange::new(source, done, target, done, COPY_MAX)).await {
            Ok(0) if done > 0 => break,
            // Some file systems (procfs) return 0 although the file has contents.
            Ok(0) => return copy_through_memory(&from, to, 0).await,
            Ok(count) => done += count as u64,
            Err(error) if copies_by_hand(&error) => {
                return copy_through_memory(&from, to, done).await;
            }
            Err(error) => return Err(error),
        }
    }
    to.close().await?;
    Ok(done)
}

/// The number of bytes that one operation copies, so that a cancelled operation ends soon.
const COPY_MAX: usize = 64 << 20;

/// Whether the error means that the kernel cannot copy between these two files.
fn copies_by_hand(error: &io::Error) -> bool {
    use laio::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM)
    )
}

async fn copy_through_memory(from: &File, to: File, mut done: u64) -> io::Result<u64> {
    let mut buffer = Vec::with_capacity(256 << 10);
    loop {
        buffer.clear();
        let (result, filled) = from.read_at(buffer, done).await;
        if result? == 0 {
            to.close().await?;
            return Ok(done);
        }
        let (result, written) = to.write_all_at(filled, done).await;
        result?;
        done += written.len() as u64;
        buffer = written;
    }
}

/// Returns the metadata of a file. Follows symbolic links.
///
/// # Errors
/// `NotFound` if there is no such file.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    submit(StatPath::new(Name::from_path(&path)?)).await
}

/// Returns the metadata of a file. Does not follow a symbolic link.
///
/// # Errors
/// `NotFound` if there is no such file.
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    submit(StatPath::new(Name::from_path(&path)?).no_follow()).await
}

/// Creates a directory.
///
/// # Errors
/// `AlreadyExists` if the name exists, whatever its type.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    submit(Mkdir::new(Name::from_path(&path)?, 0o777)).await
}

/// Creates a directory and its missing parents.
///
/// # Errors
/// `NotADirectory` if a component of the path is not a directory.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    // Up to the first directory that exists, then down again.
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        if ancestor.as_os_str().is_empty() {
            break;
        }
        match create_dir(ancestor).await {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(ancestor),
            Err(error) => match metadata(ancestor).await {
                Ok(found) if found.is_dir() => break,
                _ => return Err(error),
            },
        }
    }
    for directory in missing.into_iter().rev() {
        match create_dir(directory).await {
            // Another process has just created it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result?,
        }
    }
    Ok(())
}

/// Removes the name of a file.
///
/// # Errors
/// `IsADirectory` for a directory.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    submit(Unlink::new(Name::from_path(&path)?)).await
}

/// Removes an empty directory.
///
/// # Errors
/// `DirectoryNotEmpty` if it is not empty.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    submit(Unlink::directory(Name::from_path(&path)?)).await
}

/// Renames a file atomically. Replaces a file that has the new name.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    submit(Rename::new(Name::from_path(&from)?, Name::from_path(&to)?)).await
}

/// Creates a hard link to a file.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn hard_link(file: impl AsRef<Path>, name: impl AsRef<Path>) -> io::Result<()> {
    submit(Link::new(Name::from_path(&file)?, Name::from_path(&name)?)).await
}

/// Creates the symbolic link `name` with the target `text`.
///
/// # Errors
/// `AlreadyExists` if the name exists, whatever its type.
pub async fn symlink(text: impl AsRef<Path>, name: impl AsRef<Path>) -> io::Result<()> {
    let text = CString::new(text.as_ref().as_os_str().as_bytes())?;
    submit(Symlink::new(text, Name::from_path(&name)?)).await
}

/// Returns the target of a symbolic link.
///
/// # Errors
/// `InvalidInput` if it is not a symbolic link.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    submit(ReadLink::new(Name::from_path(&path)?)).await
}
