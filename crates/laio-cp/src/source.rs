//! Opens the source of a file.

use crate::directory::Entry;
use crate::handles::Handle;
use crate::identity::identity;
use crate::io::Io;
use crate::outcome::Failure;
use crate::session::Session;
use crate::storage_class::StorageClass;
use laio::ops::{Open, StatFile};
use laio_rt::fs::Metadata;
use std::sync::Arc;

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
    if !session.follows(entry.argument.is_some()) {
        flags |= libc::O_NOFOLLOW;
    }
    let failed = entry.source_failure("cannot open", " for reading");
    let waits = expected.is_some_and(|expected| !expected.is_file());
    let opened = if waits {
        // A FIFO whose data is copied. As in GNU cp, the copy waits here for a writer, and with it
        // all files of this worker.
        io.call_blocking(Open::new(entry.source(), flags))
    } else {
        io.open_source(entry, flags | libc::O_NONBLOCK).await.0
    };
    let file = Arc::new(opened.map_err(failed)?);
    let status = StatFile::new(file.clone());
    // The inode of an open file is cached, unless a file server keeps it.
    let is_local = entry.storage_class() != StorageClass::Unknown;
    let status = io.maybe_inline(status, is_local).await;
    let status = status.map_err(entry.source_failure("cannot fstat", ""))?;
    let is_expected = match expected {
        Some(expected) => identity(expected) == identity(&status),
        None => status.is_file(),
    };
    if !is_expected {
        let name = entry.quoted_source();
        return Err(Failure::from_message(format!(
            "skipping file {name}, as it was replaced while being copied"
        )));
    }
    Ok(OpenedSource { file, status })
}
