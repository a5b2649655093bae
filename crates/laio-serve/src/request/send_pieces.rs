//! Sends a file over HTTP/2 or HTTP/3: reads a piece once flow control allows it, and the memory of the connection.

use super::send_buffer::{send_all, send_deadline};
use crate::files::contents::Contents;
use crate::files::read::read;
use crate::net::stream::Stream;
use crate::options::Limits;
use crate::services::Services;
use laio_http::ByteRange;
use std::io;

/// What direct reads begin at a multiple of.
const ALIGNMENT: u64 = 4096;

/// Sends `out` and a range of a file.
///
/// # Errors
/// Like [`crate::request::send_response::send_response`].
pub(super) async fn send_in_pieces(
    services: &Services,
    stream: &Stream,
    out: Vec<u8>,
    contents: &Contents,
    range: ByteRange,
) -> io::Result<()> {
    if !out.is_empty() {
        send_all(services, stream, out).await?;
    }
    let deadline = send_deadline(services);
    let (mut offset, mut sent) = (range.start, 0);
    while offset < range.end {
        let chunk = services.chunk as u64;
        let most = (chunk - offset % chunk).min(range.end - offset) as usize;
        let held = deadline.wait(stream.room(most)).await?;
        let piece = read_piece(services, contents, offset, held.bytes()).await?;
        let count = stream.send_piece(piece, held)? as u64;
        deadline.add_sent(count);
        offset += count;
        sent += count;
        if sent >= Limits::BYTES_BEFORE_YIELD && offset < range.end {
            sent = 0;
            laio_rt::give_way().await;
        }
    }
    Ok(())
}

/// Reads at most `most` bytes.
async fn read_piece(
    services: &Services,
    contents: &Contents,
    offset: u64,
    most: usize,
) -> io::Result<Vec<u8>> {
    let (contexts, limits) = (&services.contexts, &services.limits);
    if !contexts.reads_directly {
        let buffer = Vec::with_capacity(most);
        return read(contexts, limits, contents, buffer, most, offset).await;
    }
    let before = (offset % ALIGNMENT) as usize;
    let whole = (before + most).next_multiple_of(ALIGNMENT as usize);
    let buffer = Vec::with_capacity(whole);
    let start = offset - before as u64;
    let mut piece = read(contexts, limits, contents, buffer, whole, start).await?;
    piece.drain(..before.min(piece.len()));
    piece.truncate(most);
    if piece.is_empty() {
        Err(crate::files::contents::shorter())
    } else {
        Ok(piece)
    }
}
