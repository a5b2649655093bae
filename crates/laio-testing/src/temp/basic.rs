//! Directories, files and pipes that every machine has. The probes of needs use them too.

use rustix::pipe::PipeFlags;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use tempfile::{NamedTempFile, TempDir};

use crate::watchdog;

/// The name of the variable with the directory in which [`scratch`] creates its directories.
pub const DIRECTORY: &str = "LAIO_TEST_DIR";

/// Returns a new directory, on a disk file system if possible, which is removed when dropped.
///
/// `/tmp` is often a tmpfs, which behaves unlike other file systems: its files are never cold, and it has no
/// non-blocking reads. So unless `LAIO_TEST_DIR` is set, this takes the first of the directory of the test
/// program (below `target/`) and `/var/tmp` that is writable and not in memory.
///
/// # Panics
///
/// If no directory can be created.
pub fn scratch() -> TempDir {
    watchdog::enter();
    if let Some(chosen) = std::env::var_os(DIRECTORY) {
        return named(Path::new(&chosen)).expect("a directory in LAIO_TEST_DIR");
    }
    let program = std::env::current_exe().ok();
    [
        program.as_deref().and_then(Path::parent),
        Some(Path::new("/var/tmp")),
    ]
    .into_iter()
    .flatten()
    .filter(|directory| !in_memory(directory))
    .find_map(|directory| named(directory).ok())
    .unwrap_or_else(|| named(&std::env::temp_dir()).expect("a temporary directory"))
}

fn named(parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("laio-test-")
        .tempdir_in(parent)
}

/// Whether a path is on a file system in memory: tmpfs or ramfs.
pub fn in_memory(path: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    // The width of the field differs per architecture.
    let kind = rustix::fs::statfs(path).map_or(0, |fs| fs.f_type as u64);
    kind == TMPFS || kind == RAMFS
}

/// Returns bytes that identify their offset, so that a block read from a wrong offset is detected.
///
/// The byte at an offset depends on the offset and the seed only: `pattern(n, s)` is the start of
/// `pattern(n + 1, s)`.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    for word in 0..length.div_ceil(8) as u64 {
        let mixed = (word ^ seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 29)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Creates a temporary file in `directory` with these contents, and the file position at the start.
///
/// # Panics
///
/// If it cannot be created.
pub fn file_with(directory: &Path, contents: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new_in(directory).expect("a temporary file");
    file.write_all(contents).expect("contents written");
    rustix::fs::seek(file.as_file(), rustix::fs::SeekFrom::Start(0)).expect("a seekable file");
    file
}

/// The name of the variable with the capacity of the pipes of [`pipe`] in bytes: 4096 is the capacity if
/// `fs.pipe-max-size` is low, or for a user with many pipes.
pub const PIPE_SIZE: &str = "LAIO_TEST_PIPE_SIZE";

/// Returns a pipe: its reading end and its writing end.
///
/// # Panics
///
/// As all of the following functions, if no descriptors are left.
pub fn pipe() -> (OwnedFd, OwnedFd) {
    watchdog::enter();
    let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    if let Ok(size) = std::env::var(PIPE_SIZE) {
        let size = size
            .parse()
            .expect("a number of bytes in LAIO_TEST_PIPE_SIZE");
        rustix::pipe::fcntl_setpipe_size(&pipe.1, size).expect("a pipe of this size");
    }
    pipe
}
