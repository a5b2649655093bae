//! Sends a response.

use super::pace::Pace;
use super::page_cache::send_from_page_cache;
use super::response::Body;
use super::send_buffer::{begin_response, send_all, send_deadline, send_more};
use super::send_pieces::send_in_pieces;
use super::transfer::{Corked, corks, send_by_kernel, transfer_descriptors};
use crate::files::contents::Contents;
use crate::files::read::read;
use crate::services::Services;
use crate::site::speed::Speed;
use laio_http::{ByteRange, Multipart, Output, Request};
use laio_serve_base::options::Limits;
use laio_serve_net::memory::{Loan, copies};
use laio_serve_net::stream::Stream;
use rustix::net::SendFlags;
use std::io;

/// What follows a response on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    ByRequest,
    /// The connection ends at once, as the client has asked. The last bytes wait in the socket
    /// (`MSG_MORE`) for the close, which sends them in one packet with its FIN, so that the client wakes
    /// up once. If the server decided to end the connection, another request might arrive before the
    /// close, which then would reset the connection and discard what waits.
    ByEnd,
}

impl Followed {
    pub fn after(request: &Request<'_>) -> Followed {
        if request.keep_alive {
            Followed::ByRequest
        } else {
            Followed::ByEnd
        }
    }

    /// Returns the flags of the response's last send.
    pub fn flags(self) -> SendFlags {
        match self {
            Followed::ByRequest => SendFlags::empty(),
            Followed::ByEnd => SendFlags::MORE,
        }
    }
}

/// Sends the output and then the body, and returns the emptied buffer. Except over HTTP/2 and HTTP/3, the head is sent
/// together with the first bytes of the file.
///
/// # Errors
/// Returns the errors of reading and sending. `UnexpectedEof` if the file has become shorter than
/// the announced length: the connection must end, so that the client notices the truncation.
pub async fn send_response(
    services: &Services,
    stream: &Stream,
    output: Output,
    body: Body,
    followed: Followed,
    speed: Option<Speed>,
) -> io::Result<Vec<u8>> {
    let mut out = begin_response(services, stream, output).await?;
    let mut pace = Pace::new(speed);
    // What waits in the buffer, until this function ends.
    let mut held = None;
    let with_file = matches!(body, Body::File(..) | Body::Parts(..));
    let corks = with_file && !pace.limits() && corks(services);
    let _corked = stream.plain().filter(|_| corks).and_then(Corked::new);
    match body {
        Body::Nothing => send_last(services, stream, out, followed).await,
        Body::File(contents, range) => {
            let out = (out, &mut held);
            let out = send_paced(services, stream, out, &contents, range, &mut pace).await?;
            send_last(services, stream, out, followed).await
        }
        Body::Parts(contents, parts) => {
            let out = (out, &mut held);
            send_parts(services, stream, out, &contents, &parts, &mut pace).await
        }
        Body::Generated(mut body) => {
            let framed = !stream.is_multiplexed();
            loop {
                wait_for_window(services, stream).await?;
                let last = body.next_piece(services, &mut out, framed).await?;
                let length = out.len() as u64;
                out = send_all(services, stream, out).await?;
                if last {
                    return Ok(out);
                }
                pace.add(length);
                pace.wait().await;
                laio_rt::give_way().await;
            }
        }
    }
}

/// Waits until flow control allows a part of a body, before it is made.
async fn wait_for_window(services: &Services, stream: &Stream) -> io::Result<()> {
    if stream.is_multiplexed() {
        let window = stream.window(services.chunk);
        send_deadline(services).wait(window).await?;
    }
    Ok(())
}

/// Sends the last bytes of a response, if they were not sent with the body.
async fn send_last(
    services: &Services,
    stream: &Stream,
    out: Vec<u8>,
    followed: Followed,
) -> io::Result<Vec<u8>> {
    match followed {
        _ if out.is_empty() => Ok(out),
        Followed::ByRequest => send_all(services, stream, out).await,
        Followed::ByEnd => send_more(services, stream, out).await,
    }
}

/// Like [`send_range`], no faster than the limit allows.
async fn send_paced(
    services: &Services,
    stream: &Stream,
    (mut out, held): (Vec<u8>, &mut Option<Loan>),
    contents: &Contents,
    range: ByteRange,
    pace: &mut Pace,
) -> io::Result<Vec<u8>> {
    if !pace.limits() {
        return send_range(services, stream, (out, held), contents, range).await;
    }
    let mut start = range.start;
    while start < range.end {
        pace.wait().await;
        let end = start + pace.piece(range.end - start);
        let piece = ByteRange { start, end };
        out = send_range(services, stream, (out, held), contents, piece).await?;
        if !out.is_empty() {
            out = send_all(services, stream, out).await?;
        }
        pace.add(piece.len());
        start = end;
    }
    Ok(out)
}

/// Sends `out` and a range of a file; leaves the last bytes unsent in `out`, and their memory in `held`.
async fn send_range(
    services: &Services,
    stream: &Stream,
    (mut out, held): (Vec<u8>, &mut Option<Loan>),
    contents: &Contents,
    range: ByteRange,
) -> io::Result<Vec<u8>> {
    if stream.is_multiplexed() {
        send_in_pieces(services, stream, out, contents, range).await?;
        return Ok(Vec::new());
    }
    if range.len() > Limits::SENDFILE_BYTES_BEFORE_YIELD {
        // The first chunk is long, and many requests may start at once.
        laio_rt::give_way().await;
    }
    if let Some(ends) = transfer_descriptors(services, stream, contents) {
        let (rest, is_sent) = send_by_kernel(services, stream, ends, out, range).await?;
        if is_sent {
            return Ok(rest);
        }
        out = rest;
    }
    let (mut offset, mut sent) = (range.start, 0);
    let copies = copies(stream.is_secure());
    while offset < range.end {
        let left = ByteRange {
            start: offset,
            end: range.end,
        };
        let (buffer, mut count) =
            send_from_page_cache(services, stream, out, contents, left).await?;
        out = buffer;
        if count == 0 {
            let chunk = (services.chunk as u64 - offset % services.chunk as u64).min(left.len());
            if out.len() > services.chunk {
                out = send_all(services, stream, out).await?;
            }
            *held = None;
            let loan = held.insert(services.memory.piece(chunk as usize, copies));
            let chunk = loan.bytes() as u64;
            let before = out.len();
            out.reserve_exact(chunk as usize);
            out = read(
                &services.contexts,
                &services.limits,
                contents,
                out,
                chunk as usize,
                offset,
            )
            .await?;
            count = (out.len() - before) as u64;
            contents.was_read(offset, offset + count, services.contexts.now());
            if count < left.len() {
                out = send_all(services, stream, out).await?;
            }
        }
        offset += count;
        sent += count;
        if sent >= Limits::BYTES_BEFORE_YIELD && offset < range.end {
            sent = 0;
            laio_rt::give_way().await;
        }
    }
    Ok(out)
}

async fn send_parts(
    services: &Services,
    stream: &Stream,
    (mut out, held): (Vec<u8>, &mut Option<Loan>),
    contents: &Contents,
    parts: &Multipart,
    pace: &mut Pace,
) -> io::Result<Vec<u8>> {
    for (number, &range) in parts.ranges().iter().enumerate() {
        parts.push_head(number, &mut out);
        out = send_paced(services, stream, (out, held), contents, range, pace).await?;
    }
    parts.push_end(&mut out);
    send_all(services, stream, out).await
}
