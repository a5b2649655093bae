//! Writes files atomically.

use crate::repository::Failure;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Writes a file under a temporary name in the same directory, and renames it to `path` when it is complete.
///
/// Until then an existing file stays unchanged, and it remains readable by programs that have it open.
///
/// # Errors
/// Those of `make`, or of the rename. The temporary file is removed.
pub fn replace(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let temporary = temporary(path);
    // Left behind by a killed process that had the same process id.
    let _ = std::fs::remove_file(&temporary);
    let made = make(&temporary).and_then(|()| {
        std::fs::rename(&temporary, path).map_err(|error| failure("write", path, &error))
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    made
}

fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// Returns a message: why an action on a file failed, and what to do.
pub fn failure(what: &str, path: &Path, error: &Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "\nChoose a place where you may write (--prefix ~/.local), or do it as root \
             (sudo env \"PATH=$PATH\" cargo xtask ...)"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "\nFree some disk space, and repeat the command"
        }
        _ => "",
    };
    format!("cannot {what} {}: {error}{advice}", path.display()).into()
}
