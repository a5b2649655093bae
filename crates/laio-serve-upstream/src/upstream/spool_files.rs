//! Unnamed files that store request bodies.

use laio::ops::{Name, Open};
use laio_rt::Descriptor;
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::io;
use std::path::Path;

/// Open flags for an unnamed file.
const UNNAMED: OFlags = OFlags::TMPFILE.union(OFlags::RDWR).union(OFlags::CLOEXEC);

/// Creates an unnamed file in a directory, or in memory.
pub async fn create(directory: Option<&Path>) -> io::Result<Descriptor> {
    let Some(directory) = directory else {
        let file = rustix::fs::memfd_create(c"laio-spool", MemfdFlags::CLOEXEC)?;
        return Ok(file.into());
    };
    let name = Name::from_path(directory)?;
    let open = Open::new(name, UNNAMED.bits() as i32).mode(0o600);
    Ok(laio_rt::submit(open).await?.into())
}

/// Checks at start that unnamed files can be created in a directory.
///
/// # Errors
/// Names the directory, and the reason.
pub fn check(directory: &Path) -> io::Result<()> {
    let opened = rustix::fs::open(directory, UNNAMED, Mode::RUSR | Mode::WUSR);
    opened.map(drop).map_err(|errno| {
        let error = io::Error::from(errno);
        let directory = directory.display();
        io::Error::new(
            error.kind(),
            format!(
                "cannot store request bodies in {directory}: {error}; --upstream-spool needs a writable \
                 directory of a file system that supports O_TMPFILE"
            ),
        )
    })
}
