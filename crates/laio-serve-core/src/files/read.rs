//! Reading a file.

use super::contents::{Contents, shorter};
use laio::ops::{Limit, Load, ReadAt, Sink};
use laio_rt::Descriptor;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::{IoStep, Limits};
use laio_serve_net::io_contexts::IoContexts;
use rustix::fs::OFlags;
use std::io;

/// Appends at most `most` bytes of a file to the buffer.
///
/// # Errors
/// Returns the errors of reading; `TimedOut` when it takes too long, `UnexpectedEof` at the end
/// of the file.
pub async fn read(
    contexts: &IoContexts,
    limits: &Limits,
    contents: &Contents,
    mut out: Vec<u8>,
    most: usize,
    offset: u64,
) -> io::Result<Vec<u8>> {
    let file = match contents {
        Contents::File(file) => file,
        Contents::Open(open) => &open.file,
        Contents::Memory(bytes) => {
            let start = bytes.len().min(offset as usize);
            let end = bytes.len().min(start.saturating_add(most));
            if start == end {
                return Err(shorter());
            }
            out.extend_from_slice(&bytes[start..end]);
            return Ok(out);
        }
    };
    let limited = Limit::new(out, most);
    Ok(read_into(contexts, limits, file, limited, offset)
        .await?
        .into_inner())
}

/// Reads from a file into the free space of a buffer.
///
/// # Errors
/// Like [`read`].
pub(crate) async fn read_into<B: Sink>(
    contexts: &IoContexts,
    limits: &Limits,
    file: &Descriptor,
    mut buffer: B,
    offset: u64,
) -> io::Result<B> {
    let mut direct = contexts.reads_directly;
    loop {
        let begun = observe::begin();
        let permit = contexts.permit(IoStep::FileRead).await;
        let read = ReadAt::new(file.clone(), buffer, offset);
        let read = contexts.submit(IoStep::FileRead, read);
        let read = laio_rt::time::timeout(limits.read_time, read).await;
        drop(permit);
        observe::end(Stage::Read, begun);
        let (result, filled) = read.map_err(|_| io::ErrorKind::TimedOut)?;
        match result {
            Ok(0) => return Err(shorter()),
            Ok(_) => return Ok(filled),
            // Linux AIO would have blocked (for example on pages under writeback), and a helper
            // can bypass the page cache for aligned reads only. Read through the page cache.
            Err(error) if direct && error.kind() == io::ErrorKind::InvalidInput => {
                rustix::fs::fcntl_setfl(file, OFlags::empty())?;
                (buffer, direct) = (filled, false);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns how many bytes of a part of a file the page cache holds from its start, or 0 if that cannot be known without
/// waiting. The kernel has then begun to read the part from the disk.
pub(crate) async fn cached_bytes(
    contexts: &IoContexts,
    file: &Descriptor,
    offset: u64,
    most: usize,
) -> usize {
    let begun = observe::begin();
    let load = Load::new(file.clone(), offset, most).without_waiting();
    let loaded = contexts.submit(IoStep::FileRead, load).await;
    observe::end(Stage::Read, begun);
    loaded.unwrap_or(0)
}
