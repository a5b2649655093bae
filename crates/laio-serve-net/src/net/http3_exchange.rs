//! An HTTP/3 request and its response: reading returns the body of the request as in HTTP/1.1, writing takes
//! the head of the response as its fields, and then the body.

use crate::memory::connection::{Held, RequestMemory, piece};
use crate::net::http2_exchange::SentAtOnce;
use crate::net::http3::frames::{kind, put_head};
use crate::net::http3::request::RequestStream;
use crate::net::http3::{Failure, code, qpack};
use crate::net::quic::StreamId;
use crate::net::quic::connection::{QuicConnection, StreamEnd};
use crate::net::tls::session::TlsParameters;
use bytes::Bytes;
use http::HeaderMap;
use laio_http::{Output, Status, is_connection_specific};
use laio_rt::time;
use laio_serve_base::observe;
use laio_serve_base::options::{Limits, Memory};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

/// A request of HTTP/3 and its response.
pub struct Http3Exchange {
    quic: Rc<QuicConnection>,
    id: StreamId,
    request: RefCell<RequestStream>,
    /// The body is presented in chunks, because its length is unknown.
    chunked: bool,
    request_ended: Cell<bool>,
    response: Cell<ResponseState>,
    /// Whether the request is HEAD, so that the response has no body.
    to_head: bool,
    write_time: Duration,
    /// Whether the request is answered before the client has completed the handshake.
    is_early: Cell<bool>,
    /// Frames of the response that [`Http3Exchange::try_send`] has left.
    unsent: RefCell<Bytes>,
    /// Bytes that the present DATA frame still needs.
    frame: Cell<u64>,
    /// Bytes of the next piece: more after each that was admitted as a whole.
    piece: Cell<usize>,
    memory: RequestMemory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseState {
    /// The head is not sent yet.
    Due,
    /// The body is being sent: the remaining length, or none if it is unknown.
    Body(Option<u64>),
    /// The response is sent; the rest of the request may still arrive.
    Sent,
    /// The response was aborted.
    Aborted,
}

/// The most bytes of the type and the length of a frame.
const FRAME_HEAD: usize = 16;

/// Bytes that few sections of fields exceed.
const USUAL_SECTION: usize = 512;

impl Http3Exchange {
    /// `request` has read the head, whose body has no known length if `chunked` is set.
    pub fn new(
        quic: Rc<QuicConnection>,
        id: StreamId,
        request: RequestStream,
        (to_head, chunked): (bool, bool),
        limits: &Limits,
        memory: RequestMemory,
    ) -> Http3Exchange {
        let is_early = Cell::new(quic.is_early());
        Http3Exchange {
            quic,
            id,
            request: RefCell::new(request),
            chunked,
            request_ended: Cell::new(false),
            response: Cell::new(ResponseState::Due),
            to_head,
            write_time: limits.write_time,
            is_early,
            unsent: RefCell::default(),
            frame: Cell::new(0),
            piece: Cell::new(Memory::PIECE_FIRST),
            memory,
        }
    }

    /// Returns the memory of the request.
    pub fn memory(&self) -> &RequestMemory {
        &self.memory
    }

    /// Returns the local and the remote address.
    pub fn endpoints(&self) -> [Option<SocketAddr>; 2] {
        [self.quic.local(), self.quic.remote()].map(Some)
    }

    /// Returns the version of TLS. The cipher suite of QUIC is not known.
    pub fn tls(&self) -> Option<TlsParameters> {
        Some(("TLSv1.3", ""))
    }

    /// Returns the version of HTTP.
    pub fn version(&self) -> &'static str {
        "HTTP/3.0"
    }

    /// Whether the request is answered before the client has completed the handshake, so that somebody may
    /// repeat what the client has sent.
    pub fn is_early(&self) -> bool {
        self.is_early.get()
    }

    /// Waits until the client has completed the handshake, if the request is early.
    pub async fn confirmed(&self) -> io::Result<()> {
        if self.is_early.replace(false) {
            observe::quic::count(|quic| quic.early_waits += 1);
            let confirmed = poll_fn(|context| self.quic.poll_confirmed(context, self.id)).await;
            confirmed.map_err(|_| io::ErrorKind::ConnectionAborted)?;
        }
        Ok(())
    }

    /// Appends received bytes of the request body. After the response, returns the end without
    /// waiting for the rest.
    pub async fn receive(&self, input: &mut Vec<u8>) -> io::Result<usize> {
        let response_ended = matches!(
            self.response.get(),
            ResponseState::Sent | ResponseState::Aborted
        );
        if response_ended || self.request_ended.get() {
            return Ok(0);
        }
        let before = input.len();
        let next = poll_fn(|context| self.request.borrow_mut().poll_data(context, &*self.quic));
        match next.await {
            Ok(Some(bytes)) => {
                if self.chunked {
                    input.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                }
                input.extend_from_slice(&bytes);
                if self.chunked {
                    input.extend_from_slice(b"\r\n");
                }
            }
            Ok(None) => {
                self.request_ended.set(true);
                if self.chunked {
                    input.extend_from_slice(b"0\r\n\r\n");
                }
            }
            Err(failure) => return Err(self.fail(failure)),
        }
        Ok(input.len() - before)
    }

    /// Reports a violation of the protocol to the client.
    fn fail(&self, failure: Failure) -> io::Error {
        match failure {
            Failure::Gone => return io::ErrorKind::ConnectionReset.into(),
            Failure::Stream(code) => {
                self.quic.reset(self.id, code);
                self.quic.stop(self.id, code);
                self.response.set(ResponseState::Aborted);
            }
            Failure::Connection(code, reason) => self.quic.close(code, reason),
        }
        io::ErrorKind::InvalidData.into()
    }

    /// Sends a head, and what follows it in the output. Returns an empty buffer.
    pub async fn send_output(&self, output: Output) -> (io::Result<usize>, Vec<u8>) {
        let sent = match self.send_head(&output).await {
            Ok(()) => self.send_all(&output.bytes[output.body_start()..]).await,
            failed => failed,
        };
        (sent.map(|()| output.bytes.len()), Vec::new())
    }

    /// Sends bytes of the body. Returns an empty buffer.
    pub async fn send(&self, out: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let sent = self.send_all(&out).await;
        (sent.map(|()| out.len()), Vec::new())
    }

    async fn send_all(&self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            let held = self.room(rest.len()).await?;
            let copied = rest[..held.bytes()].to_vec();
            rest = &rest[self.send_piece(copied, held)?..];
        }
        Ok(())
    }

    /// Waits until flow control may allow a part of the body. Returns the length of a piece, at most `most`.
    pub async fn window(&self, most: usize) -> io::Result<usize> {
        let unsent = self.unsent.take();
        self.write(unsent).await?;
        let writable = poll_fn(|context| self.quic.poll_writable(context, self.id));
        let writable = time::timeout(self.write_time, writable).await;
        writable.map_err(|_| io::ErrorKind::TimedOut)?;
        Ok(self.piece.get().min(most))
    }

    /// Begins a DATA frame of `most` bytes, unless one is incomplete. Then waits until flow control may allow a piece of
    /// it, and the connection may hold that. The head of the frame is sent first, so that flow control has allowed some
    /// bytes before anything is held.
    pub async fn room(&self, most: usize) -> io::Result<Held> {
        let unsent = self.unsent.take();
        self.write(unsent).await?;
        let ResponseState::Body(due) = self.response.get() else {
            let text = "the body is longer than its head announced";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        if self.frame.get() == 0 {
            if due.is_some_and(|due| due < most as u64) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut head = Vec::with_capacity(FRAME_HEAD);
            put_head(kind::DATA, most, &mut head);
            self.write(self.memory.bytes(head)).await?;
            self.frame.set(most as u64);
        }
        let left = usize::try_from(self.frame.get()).unwrap_or(usize::MAX);
        let most = most.min(left).min(self.piece.get());
        let mut place = self.memory.connection.place();
        let room = poll_fn(|context| {
            ready!(self.quic.poll_writable(context, self.id));
            place.poll_take(context, most)
        });
        let room = time::timeout(self.write_time, room).await;
        Ok(room.map_err(|_| io::ErrorKind::TimedOut)?)
    }

    /// Sends a piece of a DATA frame, for which [`Http3Exchange::room`] has made room, as far as flow control admits it.
    /// Returns the number of bytes: the rest is dropped, so that nothing is held while the client makes no room.
    pub fn send_piece(&self, bytes: Vec<u8>, held: Held) -> io::Result<usize> {
        let length = bytes.len();
        let mut rest = piece(bytes, held);
        self.quic.write_now(self.id, &mut rest).map_err(error_of)?;
        let sent = length - rest.len();
        self.piece.set(if rest.is_empty() {
            (2 * self.piece.get()).min(Limits::CHUNK)
        } else {
            (2 * sent).clamp(Memory::PIECE_MIN, Memory::PIECE_FIRST)
        });
        self.frame.set(self.frame.get() - sent as u64);
        if let ResponseState::Body(Some(due)) = self.response.get() {
            let due = due.checked_sub(sent as u64);
            let due = due.ok_or(io::ErrorKind::InvalidData)?;
            self.response.set(ResponseState::Body(Some(due)));
            self.finish_if_whole();
        }
        Ok(sent)
    }

    /// Sends a response as far as flow control allows now. `output` has its head, and the body if it is short; `content` is
    /// the body of another one. [`Http3Exchange::flush`] sends the rest of that.
    pub fn try_send(&self, output: &Output, content: Option<&[u8]>) -> io::Result<SentAtOnce> {
        let (mut frames, body) = (head_frame(output)?, &output.bytes[output.body_start()..]);
        let length = content.map_or(body.len(), <[u8]>::len);
        if output.body_length(self.to_head) != Some(length as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if length > 0 {
            put_head(kind::DATA, length, &mut frames);
            frames.extend_from_slice(body);
        }
        self.note_early();
        let rest = content.map_or(0, <[u8]>::len) as u64;
        self.response.set(ResponseState::Body(Some(rest)));
        self.frame.set(rest);
        let mut frames = self.memory.bytes(frames);
        self.quic
            .write_now(self.id, &mut frames)
            .map_err(error_of)?;
        if !frames.is_empty() {
            self.unsent.replace(frames);
            return Ok(SentAtOnce::Part(0));
        }
        if let Some(content) = content.filter(|content| !content.is_empty()) {
            let Some(held) = self.memory.take_now(content.len()) else {
                return Ok(SentAtOnce::Part(0));
            };
            let sent = self.send_piece(content.to_vec(), held)?;
            return Ok(if sent == content.len() {
                SentAtOnce::Whole
            } else {
                SentAtOnce::Part(sent)
            });
        }
        self.finish_if_whole();
        Ok(SentAtOnce::Whole)
    }

    /// Sends what [`Http3Exchange::try_send`] has left of a short body.
    pub async fn flush(&self) -> io::Result<()> {
        let unsent = self.unsent.take();
        self.write(unsent).await?;
        self.finish_if_whole();
        Ok(())
    }

    /// Sends a head as a HEADERS frame.
    async fn send_head(&self, output: &Output) -> io::Result<()> {
        if self.response.get() != ResponseState::Due {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if output.begins_with_continue() {
            let mut interim = Output::default();
            interim.push_continue();
            self.write(self.memory.bytes(head_frame(&interim)?)).await?;
        }
        self.write(self.memory.bytes(head_frame(output)?)).await?;
        if output.status.is_some_and(|it| it.code() >= 200) {
            self.note_early();
            let due = output.body_length(self.to_head);
            self.response.set(ResponseState::Body(due));
            self.finish_if_whole();
        }
        Ok(())
    }

    /// Counts a response that is sent before the client has completed the handshake.
    fn note_early(&self) {
        if self.is_early() {
            observe::quic::count(|quic| quic.early_requests += 1);
        }
    }

    /// Sends the fields after the body of a response of unknown length.
    pub async fn send_trailers(&self, trailers: HeaderMap) -> io::Result<()> {
        if self.response.get() != ResponseState::Body(None) {
            return Ok(());
        }
        let fields = trailers.iter();
        let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let frame = headers_frame(None, fields, 0);
        self.write(self.memory.bytes(frame)).await
    }

    fn finish_if_whole(&self) {
        if self.response.get() == ResponseState::Body(Some(0)) {
            self.quic.finish(self.id);
            self.response.set(ResponseState::Sent);
        }
    }

    /// Writes all bytes to the stream. Fails if the client takes none of them for too long.
    async fn write(&self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|context| self.quic.poll_write(context, self.id, &mut bytes));
            let written = time::timeout(self.write_time, written).await;
            let written = written.map_err(|_| io::ErrorKind::TimedOut)?;
            written.map_err(error_of)?;
        }
        Ok(())
    }

    /// Ends the response. Resets the stream if the response is not `whole`, so that the client notices.
    pub fn end(&self, whole: bool) {
        match self.response.get() {
            ResponseState::Body(None) if whole => {
                self.quic.finish(self.id);
                self.response.set(ResponseState::Sent);
            }
            ResponseState::Due | ResponseState::Body(_) => {
                self.quic.reset(self.id, code::INTERNAL_ERROR);
                self.response.set(ResponseState::Aborted);
            }
            ResponseState::Sent | ResponseState::Aborted => {}
        }
    }

    /// Reads the rest of a request after its response, within the limits of a discarded body, and then
    /// tells the client to send nothing more.
    pub async fn read_rest(&self, limits: &Limits) {
        if self.response.get() == ResponseState::Sent {
            let mut read = 0;
            let rest = poll_fn(|context| {
                let mut request = self.request.borrow_mut();
                loop {
                    match request.poll_data(context, &*self.quic) {
                        Poll::Ready(Ok(Some(bytes))) if read <= limits.body_bytes => {
                            read += bytes.len() as u64;
                        }
                        Poll::Ready(Ok(_)) => return Poll::Ready(Ok(())),
                        Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            });
            if let Ok(Err(failure)) = time::timeout(limits.body_time, rest).await {
                self.fail(failure);
            }
        }
        self.quic.stop(self.id, code::NO_ERROR);
    }

    /// Waits until the client gives the request up.
    pub async fn given_up(&self) {
        poll_fn(|context| match self.response.get() {
            ResponseState::Due | ResponseState::Body(_) => {
                self.quic.poll_given_up(context, self.id)
            }
            ResponseState::Sent | ResponseState::Aborted => Poll::Pending,
        })
        .await;
    }
}

/// Returns the head of a response as a HEADERS frame, with room for a short body.
fn head_frame(output: &Output) -> io::Result<Vec<u8>> {
    let status = output.status.ok_or(io::ErrorKind::InvalidData)?;
    let body = (output.bytes.len() - output.body_start()).min(Memory::SHORT_RESPONSE);
    Ok(headers_frame(
        Some(status),
        output.fields(),
        body + FRAME_HEAD,
    ))
}

/// Returns the HEADERS frame of these fields, with room for as many bytes more.
fn headers_frame<'f>(
    status: Option<Status>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    room: usize,
) -> Vec<u8> {
    let mut section = Vec::with_capacity(USUAL_SECTION);
    qpack::begin(&mut section);
    if let Some(status) = status {
        qpack::encode(
            b":status",
            status.code().to_string().as_bytes(),
            &mut section,
        );
    }
    let mut lower = Vec::new();
    for (name, value) in fields.filter(|(name, _)| !is_connection_specific(name)) {
        lower.clear();
        lower.extend_from_slice(name);
        lower.make_ascii_lowercase();
        qpack::encode(&lower, value, &mut section);
    }
    let mut frame = Vec::with_capacity(section.len() + FRAME_HEAD + room);
    put_head(kind::HEADERS, section.len(), &mut frame);
    frame.extend_from_slice(&section);
    frame
}

fn error_of(end: StreamEnd) -> io::ErrorKind {
    match end {
        StreamEnd::Reset => io::ErrorKind::BrokenPipe,
        StreamEnd::Lost => io::ErrorKind::ConnectionAborted,
    }
}
