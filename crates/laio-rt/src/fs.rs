//! Files and directories.
//!
//! The functions take paths as `std::fs` does. Buffers are owned: they are given to an operation and come
//! back with its result, because the kernel may use them while nothing of the program runs.

mod attributes;
mod directory;
mod file;
mod options;

pub use attributes::{access, make_node, set_mode, set_mode_of, set_owner, set_times};
pub use directory::{DirEntry, ReadDir, read_dir};
pub use file::File;
pub use laio::ops::{
    Access, Advice, FileStatus as Metadata, FileType, Node, Timestamp, Whence, attribute_names,
};
pub use options::OpenOptions;

use crate::submission::submit;
use laio::ops::{
    CopyRange, Link, Mkdir, Name, ReadLink, Rename, Source, StatPath, Symlink, Unlink,
};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The whole contents of a file.
///
/// # Errors
/// Those of opening and reading.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = File::open(path).await?;
    // One byte more than the file has, so that the end is seen without another buffer.
    let size = file.metadata().await?.size();
    let room = usize::try_from(size)
        .unwrap_or(usize::MAX)
        .saturating_add(1);
    let (result, contents) = file.read_to_end(Vec::with_capacity(room)).await;
    result?;
    Ok(contents)
}

/// Makes a file with these contents; a file that has the name loses its own.
///
/// # Errors
/// Those of opening and writing.
pub async fn write(path: impl AsRef<Path>, contents: impl Source) -> io::Result<()> {
    let file = File::create(path).await?;
    file.write_all(contents).await.0?;
    file.close().await
}

/// Copies the contents and permissions of a file; returns the number of bytes. Inside the kernel if it
/// can; a file that has the new name loses its contents.
///
/// # Errors
/// Those of opening, reading and writing.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let from = File::open(from).await?;
    let mode = from.metadata().await?.mode();
    let options = OpenOptions::new().write(true).create(true).truncate(true);
    let to = options.mode(mode & 0o777).open(to).await?;
    let mut done = 0;
    loop {
        let (source, target) = (from.descriptor().clone(), to.descriptor().clone());
        match submit(CopyRange::new(source, done, target, done, COPY_MAX)).await {
            Ok(0) if done > 0 => break,
            // Some file systems (procfs) copy nothing where there is something to read.
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

/// Bytes copied by one operation, so that one that is cancelled ends soon.
const COPY_MAX: usize = 64 << 20;

/// Whether it says that this pair of files cannot be copied inside the kernel.
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

/// The metadata of a file, through symbolic links.
///
/// # Errors
/// `NotFound` if there is no such file.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    submit(StatPath::new(Name::from_path(path)?)).await
}

/// The metadata of a file, which may be a symbolic link itself.
///
/// # Errors
/// `NotFound` if there is no such file.
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    submit(StatPath::new(Name::from_path(path)?).no_follow()).await
}

/// Makes a directory.
///
/// # Errors
/// `AlreadyExists` if the name is there, whatever it is.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    submit(Mkdir::new(Name::from_path(path)?, 0o777)).await
}

/// Makes a directory, and those above it that are missing.
///
/// # Errors
/// `NotADirectory` if something on the way is none.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    // Upwards to what is there, then down again.
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
            // Somebody else has just made it.
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
    submit(Unlink::new(Name::from_path(path)?)).await
}

/// Removes an empty directory.
///
/// # Errors
/// `DirectoryNotEmpty` if it is not empty.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    submit(Unlink::directory(Name::from_path(path)?)).await
}

/// Gives a file another name, in one step; a file that has the new name loses it.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    submit(Rename::new(Name::from_path(from)?, Name::from_path(to)?)).await
}

/// Gives a file one more name.
///
/// # Errors
/// `CrossesDevices` if the names are on different mounts.
pub async fn hard_link(file: impl AsRef<Path>, name: impl AsRef<Path>) -> io::Result<()> {
    submit(Link::new(Name::from_path(file)?, Name::from_path(name)?)).await
}

/// Makes `name` a symbolic link that says `text`.
///
/// # Errors
/// `AlreadyExists` if the name is there, whatever it is.
pub async fn symlink(text: impl AsRef<Path>, name: impl AsRef<Path>) -> io::Result<()> {
    let text = CString::new(text.as_ref().as_os_str().as_bytes())?;
    submit(Symlink::new(text, Name::from_path(name)?)).await
}

/// What a symbolic link says.
///
/// # Errors
/// `InvalidInput` if it is not a symbolic link.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    submit(ReadLink::new(Name::from_path(path)?)).await
}
