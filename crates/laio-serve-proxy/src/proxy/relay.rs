//! Passing on the body of an upstream's response, chunk by chunk. The next chunk is read when the client has
//! accepted the last, so the client's speed limits the upstream.

use super::cache::Recorder;
use super::compress::Compressing;
use super::exchange::UpstreamBody;
use super::trailers::push_last_chunk;
use laio_http::Output;
use laio_rt::future::{Either, race};
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::request::pace::Pace;
use laio_serve_core::request::send_buffer::{begin_response, send_all, send_deadline};
use laio_serve_core::services::Services;
use laio_serve_core::site::speed::Speed;
use laio_serve_net::client_watch::ClientWatch;
use laio_serve_net::memory::{Loan, copies};
use laio_serve_net::stream::Stream;
use std::cell::Cell;
use std::io;

/// How a client gets the body of a response, as the head has announced it.
pub(super) struct Delivery {
    /// Whether it is sent in chunks.
    pub(super) chunked: bool,
    /// Whether a client that gets chunks takes the fields after the body.
    pub(super) takes_trailers: bool,
    /// What stores the content.
    pub(super) recorder: Option<Recorder>,
    /// What compresses the content.
    pub(super) compressing: Option<Compressing>,
    /// Whether another request may follow.
    pub(super) keep_alive: bool,
}

/// Sends the output, and then the body. Counts the bytes of the content in `sent`, as the client gets them.
///
/// # Errors
/// Returns the errors of the client and of the upstream: the connection must end.
pub(super) async fn relay(
    services: &Services,
    stream: &Stream,
    output: Output,
    body: &mut UpstreamBody,
    mut delivery: Delivery,
    speed: Option<Speed>,
    sent: &Cell<u64>,
) -> io::Result<Vec<u8>> {
    let mut pace = Pace::new(speed);
    let framed = delivery.chunked && !stream.is_multiplexed();
    // The body waits for flow control, and the head does not.
    let mut out = begin_response(services, stream, output).await?;
    let client = ClientWatch::new(stream, false);
    loop {
        let (most, _loan) = if body.has_received() {
            room(services, stream).await?
        } else {
            (UpstreamLimits::CHUNK, None)
        };
        let (last, length) = push(services, body, &mut delivery, &mut out, most, framed).await;
        sent.set(sent.get() + length);
        if framed && matches!(last, Ok(true)) {
            let trailers = body.take_trailers().filter(|_| delivery.takes_trailers);
            push_last_chunk(&mut out, trailers.as_ref());
        }
        // Send the bytes received before an error, so that the client sees what is wrong.
        if !out.is_empty() {
            out = send_all(services, stream, out).await?;
            pace.add(length);
        }
        match last {
            Ok(true) => {
                if let Some(trailers) = body.take_trailers() {
                    stream.send_trailers(trailers).await?;
                }
                return Ok(out);
            }
            Ok(false) => pace.wait().await,
            Err(error) => return Err(broken(body, error)),
        }
        if body.has_received() {
            continue;
        }
        match race(client.left(), body.wait()).await {
            Either::Left(()) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Either::Right(Ok(())) => {}
            Either::Right(Err(error)) => return Err(broken(body, error)),
        }
    }
}

/// Appends the received content in the form of the client. Returns whether it was the last, and the length of
/// what the client gets of it.
async fn push(
    services: &Services,
    body: &mut UpstreamBody,
    delivery: &mut Delivery,
    out: &mut Vec<u8>,
    most: usize,
    framed: bool,
) -> (io::Result<bool>, u64) {
    let recorder = &mut delivery.recorder;
    match &mut delivery.compressing {
        Some(compressing) => {
            let mut plain = compressing.buffer();
            let last = take(body, recorder, &mut plain, usize::MAX);
            compressing.push(services, plain, last, out, framed).await
        }
        None if framed => push_chunk(out, |out| take(body, recorder, out, most)),
        None => {
            let before = out.len();
            let last = take(body, recorder, out, most);
            (last, (out.len() - before) as u64)
        }
    }
}

/// Appends at most `most` bytes of the received content, and records them. Returns whether they were
/// the last.
fn take(
    body: &mut UpstreamBody,
    recorder: &mut Option<Recorder>,
    out: &mut Vec<u8>,
    most: usize,
) -> io::Result<bool> {
    let before = out.len();
    let over = body.take(out, most);
    if let Some(present) = recorder.take() {
        *recorder = present.record(&out[before..], matches!(over, Ok(true)));
    }
    over
}

/// Placeholder for a chunk size, which is filled in later.
const SIZE: &[u8] = b"00000\r\n";

/// Appends what `take` appends as a chunk. Returns its result, and the length of the content.
fn push_chunk(
    out: &mut Vec<u8>,
    take: impl FnOnce(&mut Vec<u8>) -> io::Result<bool>,
) -> (io::Result<bool>, u64) {
    let start = out.len();
    out.extend_from_slice(SIZE);
    let last = take(out);
    let length = out.len() - start - SIZE.len();
    if length == 0 {
        out.truncate(start);
    } else {
        let digits = format!("{length:05x}");
        out[start..][..digits.len()].copy_from_slice(digits.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    (last, length as u64)
}

/// Waits until the client takes more. Returns how many bytes of the body may be held for it, and their
/// memory if the stream does not count it.
async fn room(services: &Services, stream: &Stream) -> io::Result<(usize, Option<Loan>)> {
    if stream.is_multiplexed() {
        let window = stream.window(UpstreamLimits::CHUNK);
        let window = send_deadline(services).wait(window).await?;
        return Ok((window, None));
    }
    let copies = copies(stream.is_secure());
    let loan = services.memory.piece(UpstreamLimits::CHUNK, copies);
    Ok((loan.bytes(), Some(loan)))
}

fn broken(body: &UpstreamBody, error: io::Error) -> io::Error {
    body.report(&error);
    error
}
