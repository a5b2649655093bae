//! Metadata by name: `std::fs::Metadata`, which only the standard library can make, of an open file.

use crate::{blocking, proactor, run};
use laio::ops::{Name, Open, OpenFile};
use libc::{EMFILE, ENFILE, O_NOFOLLOW, O_PATH};
use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// Returns the metadata of a file, following symbolic links.
///
/// # Errors
/// `NotFound` if there is no such file.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    of_name(path.as_ref(), 0).await
}

/// Returns the metadata of a file, without following a symbolic link.
///
/// # Errors
/// `NotFound` if there is no such file.
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    of_name(path.as_ref(), O_NOFOLLOW).await
}

/// Returns whether the path exists: `Err` if that cannot be determined, for example because a directory
/// may not be searched.
///
/// # Errors
/// Those of [`metadata`], except `NotFound`.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match metadata(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The attempt of `stat` itself consists of the same three calls: open the name, ask, close.
async fn of_name(path: &Path, flags: i32) -> io::Result<Metadata> {
    let open = Open::new(Name::from_path(path)?, O_PATH | flags);
    match run(open).await {
        Ok(file) if proactor()?.is_local(&file) => File::from(file).metadata(),
        Ok(file) => blocking(move |_| File::from(file).metadata()).await,
        // No descriptor is left, and `stat` needs none.
        Err(error) if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) => {
            let (path, follow) = (path.to_owned(), flags == 0);
            blocking(move |_| {
                if follow {
                    std::fs::metadata(path)
                } else {
                    std::fs::symlink_metadata(path)
                }
            })
            .await
        }
        Err(error) => Err(error),
    }
}

/// The metadata of an open file. On a local file system, they are in the kernel's memory.
pub(super) async fn of_open(file: OpenFile) -> io::Result<Metadata> {
    if proactor()?.is_local(&file) {
        file.as_std().metadata()
    } else {
        blocking(move |_| file.as_std().metadata()).await
    }
}
