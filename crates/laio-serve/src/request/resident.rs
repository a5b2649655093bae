//! Files whose pages are known to be cached, sent with `sendfile`.
//!
//! No flag prevents `sendfile` from blocking on a disk. So it is used only for chunks that an
//! earlier request has read within [`Cache::MAX_AGE`](crate::Cache::MAX_AGE), the time that a file
//! stays cached.

use super::send_buffer::{send_deadline, send_more};
use crate::files::contents::{Contents, shorter};
use crate::net::stream::Stream;
use crate::observe::{self, Stage};
use crate::options::Limits;
use crate::services::Services;
use laio_http::ByteRange;
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;

/// Sends `out` and the part of a range that is known to be in the page cache. Returns the
/// emptied buffer and the number of bytes sent. Sends nothing if there is no such part.
pub(crate) async fn send_resident(
    services: &Services,
    stream: &Stream,
    mut out: Vec<u8>,
    contents: &Contents,
    range: ByteRange,
) -> io::Result<(Vec<u8>, u64)> {
    let (Some(socket), Contents::Open(open)) = (stream.plain(), contents) else {
        return Ok((out, 0));
    };
    let most = range
        .end
        .min(range.start + Limits::SENDFILE_BYTES_BEFORE_YIELD);
    let end = open.resident(range.start, most);
    // Direct reads do not fill the page cache.
    let elsewhere = services.contexts.sync || services.contexts.reads_directly;
    if end - range.start < Limits::SENDFILE_FROM || elsewhere {
        return Ok((out, 0));
    }
    if !out.is_empty() {
        out = send_more(services, stream, out).await?;
    }
    let begun = observe::begin();
    let (mut offset, deadline) = (range.start, send_deadline(services));
    while offset < end {
        let left = (end - offset) as usize;
        match sendfile(socket, &open.file, &mut offset, left) {
            Ok(0) => return Err(shorter()),
            Ok(count) => deadline.add_sent(count as u64),
            Err(Errno::AGAIN) => deadline.wait_until_writable(services, socket).await?,
            Err(errno) => return Err(errno.into()),
        }
    }
    observe::end(Stage::Send, begun);
    Ok((out, end - range.start))
}

/// Sends at most `count` bytes, if the socket buffer has space. Operations need the socket in
/// blocking mode, so it is non-blocking only during this call, while nothing else is in flight on
/// it.
fn sendfile(
    socket: &Descriptor,
    file: &Descriptor,
    offset: &mut u64,
    count: usize,
) -> Result<usize, Errno> {
    rustix::fs::fcntl_setfl(socket, OFlags::NONBLOCK)?;
    let sent = loop {
        match rustix::fs::sendfile(socket, file, Some(offset), count) {
            Err(Errno::INTR) => {}
            sent => break sent,
        }
    };
    rustix::fs::fcntl_setfl(socket, OFlags::empty())?;
    sent
}
