//! Passing on the body of a response chunk by chunk. The next chunk is read when the client has
//! accepted the last, so the client's speed limits the upstream.

use super::cache::Recorder;
use super::compress::Compressing;
use super::trailers::{push_last_chunk, takes_trailers};
use super::upstream_response::UpstreamBody;
use http::HeaderMap;
use laio_http::Request;
use laio_rt::future::{Either, race};
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::request::pace::Pace;
use laio_serve_core::request::send_buffer::{send_all, send_deadline};
use laio_serve_core::services::Services;
use laio_serve_core::site::speed::Speed;
use laio_serve_net::client_watch::ClientWatch;
use laio_serve_net::memory::{Loan, copies};
use laio_serve_net::stream::Stream;
use laio_serve_upstream::route::Member;
use std::io;
use std::rc::Rc;

/// The body of a response in transit.
pub struct Relayed {
    body: UpstreamBody,
    /// Whether the body is sent to the client in chunks.
    chunked: bool,
    /// Whether a client that gets chunks takes the fields after the body.
    takes_trailers: bool,
    content: u64,
    /// What stores the content.
    recorder: Option<Recorder>,
    /// What compresses the content for the client.
    compressing: Option<Compressing>,
}

impl Relayed {
    pub(super) fn new(body: UpstreamBody, chunked: bool) -> Relayed {
        Relayed {
            body,
            chunked,
            takes_trailers: false,
            content: 0,
            recorder: None,
            compressing: None,
        }
    }

    /// Stores the response while it is passed on.
    pub(super) fn recorded(self, recorder: Option<Recorder>) -> Relayed {
        Relayed { recorder, ..self }
    }

    /// Compresses the response while it is passed on.
    pub(super) fn compressed(self, compressing: Option<Compressing>) -> Relayed {
        Relayed {
            compressing,
            ..self
        }
    }

    /// Passes the fields after the body on to the client of a request, if it takes them.
    pub(super) fn with_trailers(self, request: &Request<'_>) -> Relayed {
        Relayed {
            takes_trailers: takes_trailers(request),
            ..self
        }
    }

    /// Returns the upstream that answers.
    pub fn member(&self) -> &Rc<Member> {
        self.body.member()
    }

    /// Returns the number of content bytes so far, as the client gets them.
    pub fn content(&self) -> u64 {
        self.content
    }

    /// Replaces the number of content bytes: they are others when they are compressed.
    pub(super) fn set_content(&mut self, content: u64) {
        self.content = content;
    }

    /// Returns the fields for behind the last chunk.
    pub(super) fn trailers_of_chunks(&mut self) -> Option<HeaderMap> {
        self.body.take_trailers().filter(|_| self.takes_trailers)
    }

    /// Appends the received content. Returns whether it was the last.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        self.take_some(out, usize::MAX)
    }

    /// Appends at most `most` bytes of the received content. Returns whether they were the last.
    fn take_some(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        let before = out.len();
        let over = self.body.take(out, most);
        self.content += (out.len() - before) as u64;
        if let Some(recorder) = self.recorder.take() {
            self.recorder = recorder.record(&out[before..], matches!(over, Ok(true)));
        }
        over
    }

    /// Passes the fields after the body on to a client that can get them.
    async fn pass_trailers(&mut self, stream: &Stream) -> io::Result<()> {
        match self.body.take_trailers() {
            Some(trailers) => stream.send_trailers(trailers).await,
            None => Ok(()),
        }
    }
}

/// Placeholder for a chunk size, which is filled in later.
const SIZE: &[u8] = b"00000\r\n";

/// Sends `out`, and then the body.
///
/// # Errors
/// Returns the errors of the client and of the upstream: the connection must end.
pub async fn relay(
    services: &Services,
    stream: &Stream,
    mut out: Vec<u8>,
    body: &mut Relayed,
    speed: Option<Speed>,
) -> io::Result<Vec<u8>> {
    let mut pace = Pace::new(speed);
    let framed = body.chunked && !stream.is_multiplexed();
    if stream.is_multiplexed() {
        // The body waits for flow control, and the head does not.
        out = send_all(services, stream, out).await?;
    }
    let client = ClientWatch::new(stream, false);
    loop {
        let before = body.content();
        let (most, _loan) = if body.body.has_received() {
            room(services, stream).await?
        } else {
            (UpstreamLimits::CHUNK, None)
        };
        let last = match body.compressing.take() {
            Some(mut compressing) => {
                let last = compressing.next(services, body, &mut out, framed).await;
                body.compressing = Some(compressing);
                last
            }
            None if framed => chunk(body, &mut out, most),
            None => body.take_some(&mut out, most),
        };
        // Send the bytes received before an error, so that the client sees what is wrong.
        if !out.is_empty() {
            out = send_all(services, stream, out).await?;
            pace.add(body.content() - before);
        }
        match last {
            Ok(true) => {
                body.pass_trailers(stream).await?;
                return Ok(out);
            }
            Ok(false) => pace.wait().await,
            Err(error) => return Err(broken(body, error)),
        }
        if body.body.has_received() {
            continue;
        }
        match race(client.left(), body.body.wait()).await {
            Either::Left(()) => return Err(io::ErrorKind::ConnectionAborted.into()),
            Either::Right(Ok(())) => {}
            Either::Right(Err(error)) => return Err(broken(body, error)),
        }
    }
}

/// Waits until the client takes more. Returns how many bytes of the body may be held for it, and their memory if the
/// stream does not count it.
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

fn broken(body: &Relayed, error: io::Error) -> io::Error {
    body.body.report(&error);
    error
}

/// Appends the received content as a chunk, and the last chunk at the end. Returns whether it was
/// the end.
fn chunk(body: &mut Relayed, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let start = out.len();
    out.extend_from_slice(SIZE);
    let last = body.take_some(out, most);
    let length = out.len() - start - SIZE.len();
    if length == 0 {
        out.truncate(start);
    } else {
        let digits = format!("{length:05x}");
        out[start..][..digits.len()].copy_from_slice(digits.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let Ok(true) = last {
        push_last_chunk(out, body.trailers_of_chunks().as_ref());
    }
    last
}
