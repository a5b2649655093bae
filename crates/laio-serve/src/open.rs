//! Step 4: open the file below the root, and look at it.

use crate::worker::Worker;
use laio::ops::{Name, Open, StatFile, Status};
use laio_rt::Descriptor;
use std::ffi::CString;
use std::io;

/// A file that can be served.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: Descriptor,
    pub(crate) status: Status,
}

/// What a name led to.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the common one, and lives for one step"
)]
pub(crate) enum Found {
    File(Opened),
    /// A directory: the client should ask with a slash.
    Directory,
    /// A device, FIFO or socket, which is not served.
    Special,
}

impl Worker {
    /// Opens a name relative to the root. No name leads out of it: not by `..`, not by a link.
    pub(crate) async fn open(&self, name: &[u8]) -> io::Result<Found> {
        // Names were checked for NUL when they were resolved.
        let name = Name::at(self.root.clone(), CString::new(name)?);
        // Non-blocking, so that a FIFO does not keep the request until somebody writes to it.
        let flags = libc_flags();
        let file = laio_rt::submit(Open::new(name, flags).beneath()).await?;
        let file = Descriptor::from(file);
        let status = laio_rt::submit(StatFile::new(file.clone())).await?;
        if status.is_dir() {
            return Ok(Found::Directory);
        }
        if !status.is_file() {
            return Ok(Found::Special);
        }
        // Reads of the file itself may wait, in the background.
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::empty())?;
        Ok(Found::File(Opened { file, status }))
    }
}

fn libc_flags() -> i32 {
    use rustix::fs::OFlags;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.bits() as i32
}
