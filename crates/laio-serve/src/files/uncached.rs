//! Opening a file below the root, and reading its metadata, without the cache.

use super::contents::{Contents, FileKind, Opened};
use crate::io_contexts::IoContexts;
use crate::observe::{self, Stage};
use crate::options::{IoStep, Limits};
use crate::site::Site;
use laio::ops::{Name, Open, StatFile};
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The open flags. Non-blocking, so that opening a FIFO does not wait for a writer.
pub(super) const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens a file without looking in the cache.
pub(crate) async fn open_uncached(
    contexts: &IoContexts,
    site: &Site,
    name: &[u8],
) -> io::Result<FileKind> {
    let begun = observe::begin();
    let file = open_below(contexts, site, name, FLAGS, site.resolve).await;
    observe::end(Stage::Open, begun);
    examine(contexts, Descriptor::from(file?)).await
}

/// Determines the kind of an opened file.
pub(crate) async fn examine(contexts: &IoContexts, file: Descriptor) -> io::Result<FileKind> {
    let begun = observe::begin();
    let status = contexts
        .submit(IoStep::Stat, StatFile::new(file.clone()))
        .await;
    observe::end(Stage::Stat, begun);
    let status = status?;
    if status.is_dir() {
        return Ok(FileKind::Directory(file));
    }
    if !status.is_file() {
        return Ok(FileKind::Special);
    }
    // Reads of the file itself may block: that happens in the background. Not every file system
    // supports `O_DIRECT`.
    if !contexts.reads_directly || rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_err() {
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    }
    let contents = Contents::File(file);
    let status = Rc::new(status);
    Ok(FileKind::File(Opened {
        contents,
        status,
        fields: None,
    }))
}

/// Opens a name below the root of a site.
pub(crate) async fn open_below(
    contexts: &IoContexts,
    site: &Site,
    name: &[u8],
    flags: OFlags,
    resolve: u64,
) -> io::Result<OwnedFd> {
    let name = if name.is_empty() { b"." } else { name };
    let mut races = 0;
    loop {
        // Resolving the target has rejected names that contain NUL.
        let name = Name::at(site.root.clone(), CString::new(name)?);
        let open = Open::new(name, flags.bits() as i32).resolve(resolve);
        match contexts.submit(IoStep::Open, open).await {
            // A directory of the path was renamed concurrently (see openat2), so that the kernel
            // could not verify that the name stays below the root.
            Err(error) if is_race(&error) && races < Limits::OPEN_RACES => races += 1,
            result => return result,
        }
    }
}

fn is_race(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error())
}
