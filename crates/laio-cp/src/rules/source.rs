//! Opens the source of a file.

use crate::io::Io;
use crate::outcome::{Failure, failure};
use crate::session::Session;
use crate::tree::{Entry, Handle, StorageClass, identity};
use laio::ops::{Open, StatFile, StatPath};
use laio_rt::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// An open source.
#[derive(Debug)]
pub(crate) struct OpenedSource {
    pub(crate) file: Handle,
    pub(crate) status: Metadata,
}

/// Opens the source and checks that it is the examined file, or a regular file if none was
/// examined.
pub(crate) async fn open(
    io: &Io,
    session: &Session,
    entry: &Entry,
    expected: Option<&Metadata>,
) -> Result<OpenedSource, Failure> {
    let mut flags = libc::O_RDONLY | libc::O_NOCTTY;
    if !session.follows(entry) {
        flags |= libc::O_NOFOLLOW;
    }
    let failed = entry.source_failure("cannot open", " for reading");
    let waits = expected.is_some_and(|expected| !expected.is_file());
    let opened = if waits {
        // A FIFO whose data is copied. As in GNU cp, the copy waits here for a writer, and with it
        // all files of this worker.
        io.call_blocking(Open::new(entry.source(), flags))
    } else {
        open_lazily(io, entry, flags | libc::O_NONBLOCK).await.0
    };
    let file = Arc::new(opened.map_err(failed)?);
    let status = StatFile::new(file.clone());
    // The inode of an open file is cached, unless a remote file system keeps it.
    let is_local = entry.storage_class() != StorageClass::Unknown;
    let status = io.maybe_inline(status, is_local).await;
    let status = status.map_err(entry.source_failure("cannot fstat", ""))?;
    let is_expected = match expected {
        Some(expected) => identity(expected) == identity(&status),
        None => status.is_file(),
    };
    if !is_expected {
        let name = entry.quoted_source();
        return Err(failure!(
            "skipping file {name}, as it was replaced while being copied"
        ));
    }
    Ok(OpenedSource { file, status })
}

/// A source directory, if it can be read.
pub(crate) struct SourceDirectory {
    /// The open directory, or why it cannot be read.
    pub(crate) opened: io::Result<Handle>,
    pub(crate) status: Metadata,
    /// Whether `open` was done inline.
    pub(crate) inline: bool,
}

/// Opens a source directory.
pub(crate) async fn open_directory(
    io: &Io,
    entry: &Entry,
    follows: bool,
) -> Result<SourceDirectory, Failure> {
    let mut flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NONBLOCK;
    if !follows {
        flags |= libc::O_NOFOLLOW;
    }
    let (opened, inline) = open_lazily(io, entry, flags).await;
    let opened = opened.map(Arc::new);
    let status = match &opened {
        Ok(handle) => {
            let status = io.call_backend(StatFile::new(handle.clone())).await;
            status.map_err(entry.source_failure("cannot stat", ""))?
        }
        Err(_) => stat(io, entry, follows).await?,
    };
    if opened.is_err() && !status.is_dir() {
        let name = entry.quoted_source();
        let text = format!("skipping {name}, as it was replaced while being copied");
        return Err(Failure::from_message(text));
    }
    Ok(SourceDirectory {
        opened,
        status,
        inline,
    })
}

/// Opens a source; also returns whether the call was done inline: by an attempt, or by a
/// blocking call, which may have waited for the device. On a fast device, a blocking call is
/// cheaper than one in the background.
async fn open_lazily(io: &Io, entry: &Entry, flags: i32) -> (io::Result<OwnedFd>, bool) {
    let prefers_blocking = match entry.storage_class() {
        StorageClass::Memory => true,
        StorageClass::Device => io.latency.next_open_blocks(),
        StorageClass::Unknown => false,
    };
    if prefers_blocking && !io.avoids_blocking {
        // A name below may cross into a network mount: leave that to the backend call (EXDEV).
        let open = Open::new(entry.source(), flags).resolve(libc::RESOLVE_NO_XDEV);
        let started = (entry.storage_class() == StorageClass::Device).then(Instant::now);
        let opened = io.call_blocking(open);
        if let Some(started) = started {
            io.latency.record_open(started.elapsed());
        }
        if opened.is_ok() {
            return (opened, true);
        }
        // EXDEV (a mount) and any other error: let the back end decide.
    }
    io.call_backend_observed(Open::new(entry.source(), flags))
        .await
}

/// The status of a source; of a symbolic link itself unless `follows`.
pub(crate) async fn stat(io: &Io, entry: &Entry, follows: bool) -> Result<Metadata, Failure> {
    let stat = StatPath::new(entry.source());
    let status = io.call_backend(if follows { stat } else { stat.no_follow() });
    status
        .await
        .map_err(entry.source_failure("cannot stat", ""))
}
