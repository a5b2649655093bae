//! Writing a file so that its name always leads to complete contents.

use crate::blocking;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Writes a file so that its name leads to the old or to the new contents, also after a crash of the
/// machine: the contents are written to a new file in the same directory and synchronized, which then
/// gets the name, and the directory is synchronized too.
///
/// The new file has the permissions of the one that it replaces, else 0o666 reduced by the umask. A
/// symbolic link is replaced, not followed. The owner, ACLs and extended attributes of the file that is
/// replaced are not kept.
///
/// One helper makes all calls. If the future is dropped when it has begun, it finishes all the same.
///
/// # Errors
/// Those of creating, writing, synchronizing and renaming the new file. It is removed then, except if
/// only the synchronization of the directory has failed.
pub async fn write_atomic(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref().to_owned(), contents.as_ref().to_owned());
    blocking(move |_| write(&path, &contents)).await
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (temporary, file) = create(directory, name.to_owned())?;
    let written = fill(&file, path, contents).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

/// Creates a file with a name that no other has.
fn create(directory: &Path, name: OsString) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let mut temporary = OsString::from(".");
        // A name has at most 255 bytes.
        let bytes = name.as_encoded_bytes();
        temporary.push(String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).as_ref());
        let number = NEXT.fetch_add(1, Relaxed);
        temporary.push(format!(".{}-{number}.tmp", std::process::id()));
        let path = directory.join(temporary);
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o666)
            .open(&path)
        {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|file| (path, file)),
        }
    }
}

fn fill(mut file: &File, path: &Path, contents: &[u8]) -> io::Result<()> {
    file.write_all(contents)?;
    if let Ok(old) = fs::symlink_metadata(path)
        && old.is_file()
    {
        // Not the set-ID bits: they are those of another owner, perhaps.
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o777))?;
    }
    file.sync_all()
}
