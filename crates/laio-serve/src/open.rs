//! Opening the file below the root and reading its metadata.

use crate::contents::Contents;
use crate::io_contexts;
use crate::observe::{self, Stage};
use crate::options::{IoStep, Limits};
use crate::resource_exhaustion;
use crate::site::Site;
use crate::worker::Worker;
use laio::ops::{FileStatus, Name, Open, StatFile};
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use std::cell::OnceCell;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A file that can be served.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) contents: Contents,
    pub(crate) status: Rc<FileStatus>,
    /// For a cached file, the header fields of a 200 answer once they have been encoded.
    pub(crate) fields: Option<Rc<OnceCell<Box<[u8]>>>>,
}

/// The kind of file that a name leads to.
#[derive(Debug)]
pub(crate) enum FileKind {
    File(Opened),
    Directory(Descriptor),
    /// A device, FIFO or socket, which is not served.
    Special,
}

impl Worker {
    /// Opens a name relative to the root of a site; an empty name is the root. Neither `..` nor,
    /// unless the site follows links, a symbolic link can lead out of the root.
    ///
    /// # Errors
    /// Returns the errors of opening. `TimedOut` when it takes too long; the open then finishes in
    /// the background, and its result is dropped.
    pub(crate) async fn open(&self, site: &Site, name: &[u8]) -> io::Result<FileKind> {
        for _ in 0..Limits::EVICTION_TRIES {
            match self.try_open(site, name).await {
                Err(error) if self.evict_for_descriptor(&error).await => {}
                found => return found,
            }
        }
        self.try_open(site, name).await
    }

    async fn try_open(&self, site: &Site, name: &[u8]) -> io::Result<FileKind> {
        let opening = async {
            let _permit = self.concurrency.permit(IoStep::Open).await;
            match self.cached(site, name).await? {
                Some(found) => Ok(found),
                None => open_uncached(site, name).await,
            }
        };
        match laio_rt::time::timeout(self.limits().open_time, opening).await {
            Ok(found) => found.inspect_err(|error| {
                if resource_exhaustion::is_resource_exhaustion(error) {
                    self.exhaustion_warning
                        .warn("files cannot be opened", error);
                }
            }),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Opens a file of the site's configuration, such as an error page. Returns none if it cannot
    /// be opened.
    pub(crate) async fn open_file(&self, site: &Site, name: &[u8]) -> Option<Opened> {
        match self.open(site, name).await {
            Ok(FileKind::File(opened)) => Some(opened),
            _ => None,
        }
    }
}

/// Opens a file without looking in the cache.
pub(crate) async fn open_uncached(site: &Site, name: &[u8]) -> io::Result<FileKind> {
    let begun = observe::begin();
    let file = open_below(site, name, flags(), site.resolve).await;
    observe::end(Stage::Open, begun);
    examine(Descriptor::from(file?)).await
}

/// Determines the kind of an opened file.
pub(crate) async fn examine(file: Descriptor) -> io::Result<FileKind> {
    let begun = observe::begin();
    let status = io_contexts::submit(IoStep::Stat, StatFile::new(file.clone())).await;
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
    if !io_contexts::reads_directly() || rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_err() {
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
        match io_contexts::submit(IoStep::Open, open).await {
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

/// Returns the open flags. Non-blocking, so that opening a FIFO does not wait for a writer.
pub(crate) fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}
