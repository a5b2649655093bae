//! Copying a file.

use crate::blocking;
use laio::Stop;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bytes that are copied before the next look whether the future was dropped. The kernel copies them
/// within the file system where it can.
const PIECE: u64 = 8 * 1024 * 1024;

/// Copies the contents and the permissions of a file, as `std::fs::copy` does, and returns the number of
/// bytes. Replaces the contents of `to` if it exists.
///
/// A helper makes all calls. If the future is dropped, the copy ends after some further megabytes, and a
/// part of the file is left.
///
/// # Errors
/// `InvalidInput` if `from` is not a regular file; those of opening, reading and writing.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    blocking(move |stop| copy_until(stop, &from, &to)).await
}

fn copy_until(stop: &Stop, from: &Path, to: &Path) -> io::Result<u64> {
    let mut source = File::open(from)?;
    let status = source.metadata()?;
    if !status.is_file() {
        let why = "the source path is neither a regular file nor a symlink to a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let permissions = status.permissions();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut target = options.mode(permissions.mode()).open(to)?;
    // Not those of a device or a pipe, to which files are copied too.
    if target.metadata()?.is_file() {
        target.set_permissions(permissions)?;
    }
    let mut copied = 0;
    while !stop.is_requested() {
        // The standard library uses `copy_file_range` and `sendfile` for these types.
        let moved = io::copy(&mut (&mut source).take(PIECE), &mut target)?;
        copied += moved;
        if moved < PIECE {
            break;
        }
    }
    Ok(copied)
}
