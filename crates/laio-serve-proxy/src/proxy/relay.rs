//! Passing on the body of a response chunk by chunk. The next chunk is read when the client has
//! accepted the last, so the client's speed limits the upstream.

use super::cache::Recorder;
use super::compress::Compressing;
use super::exchange::UpstreamBody;
use super::http2_body::Http2Body;
use super::link_body::LinkBody;
use super::trailers::{push_last_chunk, takes_trailers};
use super::upstream_head::UpstreamHead;
use http::HeaderMap;
use laio_http::{Output, Request};
use laio_rt::future::{Either, race};
use laio_serve_base::messages::print;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::request::pace::Pace;
use laio_serve_core::request::send_buffer::{begin_response, send_all, send_deadline};
use laio_serve_core::services::Services;
use laio_serve_core::site::speed::Speed;
use laio_serve_net::client_watch::ClientWatch;
use laio_serve_net::memory::{Loan, copies};
use laio_serve_net::stream::Stream;
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::route::Member;
use std::io;
use std::rc::Rc;

/// The body of a response in transit.
pub struct Relayed {
    body: Body,
    member: Rc<Member>,
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

enum Body {
    Link(LinkBody),
    Http2(Http2Body),
}

impl Relayed {
    pub(super) fn new(
        body: UpstreamBody,
        upstream_head: &UpstreamHead,
        whole: bool,
        chunked: bool,
    ) -> Relayed {
        let member = match &body {
            UpstreamBody::Link(lease) => lease.member(),
            UpstreamBody::Http2(body) => body.member(),
        };
        let member = member.clone();
        let body = match body {
            UpstreamBody::Link(lease) => Body::Link(LinkBody::new(lease, upstream_head, whole)),
            UpstreamBody::Http2(body) => Body::Http2(body),
        };
        Relayed {
            body,
            member,
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
        &self.member
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
        self.take_trailers().filter(|_| self.takes_trailers)
    }

    /// Appends the received content. Returns whether it was the last.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        self.take_some(out, usize::MAX)
    }

    /// Appends at most `most` bytes of the received content. Returns whether they were the last.
    fn take_some(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        let before = out.len();
        let over = match &mut self.body {
            Body::Link(body) => body.take(out, most),
            Body::Http2(body) => body.take(out, most),
        };
        self.content += (out.len() - before) as u64;
        if let Some(recorder) = self.recorder.take() {
            self.recorder = recorder.add(&out[before..]);
        }
        if let Ok(true) = over
            && let Some(recorder) = self.recorder.take()
        {
            recorder.finish();
        }
        over
    }

    /// Whether content was received and not taken.
    fn has_received(&self) -> bool {
        match &self.body {
            Body::Link(body) => body.has_received(),
            Body::Http2(body) => body.has_received(),
        }
    }

    /// Waits until more is received.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        match &mut self.body {
            Body::Link(body) => body.wait().await,
            Body::Http2(body) => body.wait().await,
        }
    }

    /// Passes the fields after the body on to a client that can get them.
    async fn pass_trailers(&mut self, stream: &Stream) -> io::Result<()> {
        match self.take_trailers() {
            Some(trailers) => stream.send_trailers(trailers).await,
            None => Ok(()),
        }
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        match &mut self.body {
            Body::Http2(body) => body.take_trailers(),
            Body::Link(body) => body.take_trailers(),
        }
    }

    /// Reports that the upstream has broken the response off.
    fn report(&self, error: &io::Error) {
        let fault = UpstreamError::bad_gateway(format_args!("the response is incomplete: {error}"));
        let name = match &self.body {
            Body::Link(body) => {
                body.failed(&fault);
                body.name().unwrap_or_default()
            }
            Body::Http2(body) => {
                body.failed(&fault);
                body.name()
            }
        };
        print(format_args!("{name}: {}", fault.why));
    }
}

/// Placeholder for a chunk size, which is filled in later.
const SIZE: &[u8] = b"00000\r\n";

/// Sends the output, and then the body.
///
/// # Errors
/// Returns the errors of the client and of the upstream: the connection must end.
pub async fn relay(
    services: &Services,
    stream: &Stream,
    output: Output,
    body: &mut Relayed,
    speed: Option<Speed>,
) -> io::Result<Vec<u8>> {
    let mut pace = Pace::new(speed);
    let framed = body.chunked && !stream.is_multiplexed();
    // The body waits for flow control, and the head does not.
    let mut out = begin_response(services, stream, output).await?;
    let client = ClientWatch::new(stream, false);
    loop {
        let before = body.content();
        let (most, _loan) = if body.has_received() {
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
    body.report(&error);
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
