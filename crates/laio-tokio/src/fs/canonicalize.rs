//! Canonical paths.

use crate::{blocking, run};
use laio::ops::{Name, Open};
use libc::{EMFILE, ENFILE, O_PATH};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns the canonical, absolute form of a path with all components normalized and symbolic links
/// resolved.
///
/// The file is opened (`O_PATH`), which is attempted, and the kernel's name of the open file is read. If
/// that is no path, `std::fs::canonicalize` decides, on a helper.
///
/// # Errors
/// Those of `std::fs::canonicalize`: `NotFound` if there is no such file.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    match run(Open::new(Name::from_path(path)?, O_PATH)).await {
        Ok(file) => {
            if let Some(name) = name_of(&file) {
                return Ok(name);
            }
        }
        Err(error) if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) => {}
        Err(error) => return Err(error),
    }
    let path = path.to_owned();
    blocking(|_| std::fs::canonicalize(path)).await
}

/// The kernel's name of an open file, which is in memory. `None` without procfs, and if it is not
/// certainly a path: the file was removed, is no file, or is outside of the root directory.
fn name_of(file: &OwnedFd) -> Option<PathBuf> {
    let link = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let name = std::fs::read_link(link).ok()?;
    let bytes = name.as_os_str().as_bytes();
    let is_path = bytes.starts_with(b"/") && !bytes.ends_with(b" (deleted)");
    is_path.then_some(name)
}
