//! Files that are either complete or not there.

use crate::Failure;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Makes a file under a name beside `path`, and gives it its name when it is complete.
///
/// A file that was there stays as it is until then, and for whoever has it open.
///
/// # Errors
/// Those of `make`, or the file cannot be renamed. Nothing is left.
pub fn replace(
    path: &Path,
    make: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let beside = beside(path);
    // From a process that had the same number and was killed.
    let _ = std::fs::remove_file(&beside);
    let made = make(&beside).and_then(|()| {
        std::fs::rename(&beside, path).map_err(|error| failure("write", path, &error))
    });
    if made.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    made
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// Why something could not be done to a file, and what to do.
pub fn failure(what: &str, path: &Path, error: &Error) -> Failure {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "\nChoose a place where you may write (--prefix ~/.local), or do it as root \
             (sudo env \"PATH=$PATH\" cargo xtask ...)"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "\nMake room, and do it again",
        _ => "",
    };
    format!("cannot {what} {}: {error}{advice}", path.display()).into()
}
