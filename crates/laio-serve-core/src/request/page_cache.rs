//! Files sent with `sendfile` from the page cache, without a copy.
//!
//! No flag prevents `sendfile` from blocking on a disk. So the worker calls it only for chunks that were read
//! or sent within `OpenFile::AGE_MAX`: by an earlier request for the same cached file, or by this request,
//! which reads what is in the page cache without keeping the bytes. A helper calls it for the others.

use super::send_buffer::{send_deadline, send_more, would_block};
use super::transfer::{Corked, NonBlocking, corks, is_missing};
use crate::files::contents::{Contents, OpenFile, shorter};
use crate::files::file_system::keeps_what_was_read;
use crate::files::read::cached_bytes;
use crate::services::Services;
use laio::ops::SendFile;
use laio_http::ByteRange;
use laio_rt::Descriptor;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::{IoStep, Limits, Transfer};
use laio_serve_net::stream::Stream;
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::io;
use std::time::Instant;

/// Sends `out` and the first part of a range from the page cache. Returns the emptied buffer and the
/// number of bytes sent. Sends nothing if the part must go through a buffer, because it is short or the
/// page cache cannot be relied on.
pub(crate) async fn send_from_page_cache(
    services: &Services,
    stream: &Stream,
    out: Vec<u8>,
    contents: &Contents,
    range: ByteRange,
) -> io::Result<(Vec<u8>, u64)> {
    if !uses_page_cache(services) {
        return Ok((out, 0));
    }
    let Some(socket) = stream.plain() else {
        return Ok((out, 0));
    };
    let (file, open) = match contents {
        Contents::Memory(_) => return Ok((out, 0)),
        Contents::File(file) => (file, None),
        Contents::Open(open) => (&open.file, Some(&**open)),
    };
    let mut part = CachedPart { open, loaded: None };
    let now = services.contexts.now();
    if part.end(range, range.start, now) - range.start < Limits::SENDFILE_FROM {
        let chunk = services.chunk as u64 - range.start % services.chunk as u64;
        let chunk = chunk.min(range.len());
        if chunk < Limits::SENDFILE_FROM || !keeps_what_was_read(file) {
            return Ok((out, 0));
        }
        let contexts = &services.contexts;
        let count = cached_bytes(contexts, file, range.start, chunk as usize).await as u64;
        let now = contexts.now();
        if count < chunk.min(Limits::SENDFILE_FROM) {
            let (out, count) =
                send_uncached(services, stream, socket, file, out, range.start, chunk).await?;
            contents.was_read(range.start, range.start + count, contexts.now());
            return Ok((out, count));
        }
        let end = range.start + count;
        contents.was_read(range.start, end, now);
        part.loaded = Some((end, now));
    }
    send_part(services, stream, socket, file, out, &part, range).await
}

/// Whether [`send_resident`] may send a range: all of it was in the page cache a moment ago, and it is so
/// short that other tasks need not run before its end.
pub fn is_resident(services: &Services, contents: &Contents, range: ByteRange) -> bool {
    let Contents::Open(open) = contents else {
        return false;
    };
    let lengths = Limits::SENDFILE_FROM..=Limits::SENDFILE_BYTES_BEFORE_YIELD;
    uses_page_cache(services)
        && !corks(services)
        && lengths.contains(&range.len())
        && open.resident(range.start, range.end, services.contexts.now()) == range.end
}

/// Sends as much of a range as the socket has space for. Returns the number of bytes: fewer than all if the
/// client is slow, or the kernel does not have the call.
///
/// # Errors
/// Like [`send_response`](super::send_response::send_response).
pub fn send_resident(
    services: &Services,
    socket: &Descriptor,
    contents: &Contents,
    range: ByteRange,
) -> io::Result<u64> {
    let Contents::Open(open) = contents else {
        return Ok(0);
    };
    let begun = observe::begin();
    let _mode = NonBlocking::new(socket)?;
    let mut offset = range.start;
    while offset < range.end {
        let left = (range.end - offset) as usize;
        match sendfile(socket, &open.file, &mut offset, left) {
            Ok(0) => return Err(shorter()),
            Ok(_) => {}
            Err(Errno::AGAIN) => break,
            Err(errno) if offset == range.start && is_missing(&errno.into()) => {
                services.contexts.cannot_transfer.set(true);
                break;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    open.was_read(range.start, offset, services.contexts.now());
    observe::end(Stage::Send, begun);
    Ok(offset - range.start)
}

/// Whether files are sent from the page cache. Direct reads do not fill it.
fn uses_page_cache(services: &Services) -> bool {
    let contexts = &services.contexts;
    let elsewhere = contexts.sync || contexts.reads_directly;
    services.io.transfer == Transfer::PageCache && !elsewhere && !contexts.cannot_transfer.get()
}

/// The part of a file that the page cache holds.
struct CachedPart<'a> {
    open: Option<&'a OpenFile>,
    /// The end of what this request has read, and when.
    loaded: Option<(u64, Instant)>,
}

impl CachedPart<'_> {
    /// Returns the end of what may be sent with one call from `start`, which is `start` if nothing may
    /// be sent.
    fn end(&self, range: ByteRange, start: u64, now: Instant) -> u64 {
        let most = range.end.min(start + Limits::SENDFILE_BYTES_BEFORE_YIELD);
        let recorded = self
            .open
            .map_or(start, |open| open.resident(start, most, now));
        match self.loaded {
            Some((end, at)) if now.saturating_duration_since(at) < OpenFile::AGE_MAX => {
                recorded.max(end.min(most))
            }
            _ => recorded,
        }
        .max(start)
    }
}

async fn send_part(
    services: &Services,
    stream: &Stream,
    socket: &Descriptor,
    file: &Descriptor,
    mut out: Vec<u8>,
    part: &CachedPart<'_>,
    range: ByteRange,
) -> io::Result<(Vec<u8>, u64)> {
    if !out.is_empty() {
        out = send_more(services, stream, out).await?;
    }
    let begun = observe::begin();
    // Operations need the socket in blocking mode. Until this function ends, nothing else is in flight
    // on it.
    let _mode = NonBlocking::new(socket)?;
    let (mut offset, mut given_way_at) = (range.start, range.start);
    let deadline = send_deadline(services);
    loop {
        // After a wait, the reads may be too long ago.
        let end = part.end(range, offset, services.contexts.now());
        if offset == end {
            break;
        }
        let most = (end - offset) as usize;
        match sendfile(socket, file, &mut offset, most) {
            Ok(0) => return Err(shorter()),
            Ok(count) => {
                deadline.add_sent(count as u64);
                if let Some(open) = part.open {
                    open.was_read(offset - count as u64, offset, services.contexts.now());
                }
            }
            Err(Errno::AGAIN) => {
                deadline.wait_until_writable(services, socket).await?;
                given_way_at = offset;
            }
            Err(errno) if offset == range.start && is_missing(&errno.into()) => {
                services.contexts.cannot_transfer.set(true);
                return Ok((out, 0));
            }
            Err(errno) => return Err(errno.into()),
        }
        if offset - given_way_at >= Limits::SENDFILE_BYTES_BEFORE_YIELD && offset < range.end {
            given_way_at = offset;
            laio_rt::give_way().await;
        }
    }
    observe::end(Stage::Send, begun);
    Ok((out, offset - range.start))
}

/// Sends `out` and at least one byte, at most `most`, of a part of a file that is not in the page cache: the call is made
/// by a helper, which waits for the disk but not for the client.
async fn send_uncached(
    services: &Services,
    stream: &Stream,
    socket: &Descriptor,
    file: &Descriptor,
    mut out: Vec<u8>,
    offset: u64,
    most: u64,
) -> io::Result<(Vec<u8>, u64)> {
    if !out.is_empty() {
        out = send_more(services, stream, out).await?;
    }
    let begun = observe::begin();
    let mode = NonBlocking::new(socket)?;
    // The helper sends what has arrived from the disk, in pieces, each of which would wake the client up.
    let _corked = (!corks(services)).then(|| Corked::new(socket));
    let deadline = send_deadline(services);
    loop {
        let permit = services.contexts.permit(IoStep::Sendfile).await;
        let send = SendFile::new(socket.clone(), file.clone(), Some(offset), most as usize);
        let send = services.contexts.submit(IoStep::Sendfile, send);
        let sent = laio_rt::time::timeout(services.limits.read_time, send).await;
        drop(permit);
        let Ok(sent) = sent else {
            // The helper still waits for the disk. It must not wait for the client after that.
            std::mem::forget(mode);
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
            return Err(io::ErrorKind::TimedOut.into());
        };
        match sent {
            Ok(0) => return Err(shorter()),
            Ok(count) => {
                observe::end(Stage::Send, begun);
                return Ok((out, count as u64));
            }
            Err(error) if would_block(&error) => {
                deadline.wait_until_writable(services, socket).await?;
            }
            Err(error) if is_missing(&error) => {
                services.contexts.cannot_transfer.set(true);
                return Ok((out, 0));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sends at most `count` bytes, if the socket buffer has space.
fn sendfile(
    socket: &Descriptor,
    file: &Descriptor,
    offset: &mut u64,
    count: usize,
) -> Result<usize, Errno> {
    loop {
        match rustix::fs::sendfile(socket, file, Some(offset), count) {
            Err(Errno::INTR) => {}
            sent => return sent,
        }
    }
}
