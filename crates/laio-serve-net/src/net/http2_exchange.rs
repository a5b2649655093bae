//! An HTTP/2 request and its response: reading returns the body of the request as in HTTP/1.1, writing takes
//! the head of the response as its fields, and then the body.

use crate::memory::connection::{Held, RequestMemory, piece};
use crate::net::socket::endpoints;
use crate::net::tls::session::TlsParameters;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, ETAG, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use laio_http::{Output, is_connection_specific};
use laio_rt::{Descriptor, time};
use laio_serve_base::options::{Limits, Memory};
use std::cell::RefCell;
use std::future::{Ready, poll_fn, ready};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::task::{self, Context, Poll};
use std::time::Duration;

/// A request of HTTP/2 and its response.
pub struct Exchange {
    response: RefCell<ResponseState>,
    body: RefCell<RequestBody>,
    /// Whether the request is HEAD, so that the response has no body.
    to_head: bool,
    /// The version and the cipher suite of TLS, if the connection is encrypted.
    tls: Option<TlsParameters>,
    /// The socket of the connection.
    socket: Descriptor,
    write_time: Duration,
    /// The fields after the body.
    trailers: RefCell<Option<HeaderMap>>,
    /// The part of a short body that [`Exchange::try_send`] has left.
    unsent: RefCell<Bytes>,
    memory: RequestMemory,
}

/// How much of a response was sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentAtOnce {
    /// All of it.
    Whole,
    /// The head, and this many bytes of the content; [`Exchange::flush`] sends the rest of a short body.
    Part(usize),
}

enum ResponseState {
    /// The head is not sent yet.
    Due(SendResponse<Bytes>),
    /// The body is being sent: the remaining length, or none if it is unknown.
    Body(SendStream<Bytes>, Option<u64>),
    /// The response is sent; the rest of the request may still arrive.
    Sent(SendStream<Bytes>),
    /// The response was aborted.
    Aborted,
}

struct RequestBody {
    stream: RecvStream,
    /// The length is unknown, so the body is presented in chunks.
    chunked: bool,
    ended: bool,
}

impl Exchange {
    /// Returns the exchange of a request, of which `h2` has read the head.
    pub fn new(
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        tls: Option<TlsParameters>,
        socket: Descriptor,
        limits: &Limits,
        memory: RequestMemory,
    ) -> Exchange {
        let chunked = !request.headers().contains_key(CONTENT_LENGTH);
        Exchange {
            to_head: request.method() == http::Method::HEAD,
            response: RefCell::new(ResponseState::Due(respond)),
            body: RefCell::new(RequestBody {
                stream: request.into_body(),
                chunked,
                ended: false,
            }),
            tls,
            socket,
            write_time: limits.write_time,
            trailers: RefCell::default(),
            unsent: RefCell::default(),
            memory,
        }
    }

    /// Returns the memory of the request.
    pub fn memory(&self) -> &RequestMemory {
        &self.memory
    }

    /// Returns the version and the cipher suite of TLS, if the connection is encrypted.
    pub fn tls(&self) -> Option<TlsParameters> {
        self.tls
    }

    /// Returns the local and the remote internet address, where there are any.
    pub fn endpoints(&self) -> [Option<SocketAddr>; 2] {
        endpoints(&self.socket)
    }

    /// Returns the version of HTTP.
    pub fn version(&self) -> &'static str {
        "HTTP/2.0"
    }

    /// Whether the request is in early data, which TLS over TCP has not here.
    pub fn is_early(&self) -> bool {
        false
    }

    /// Waits for nothing: the handshake is complete.
    pub fn confirmed(&self) -> Ready<io::Result<()>> {
        ready(Ok(()))
    }

    /// Appends received bytes of the request body. After the response, returns the end without
    /// waiting for the rest.
    pub async fn receive(&self, input: &mut Vec<u8>) -> io::Result<usize> {
        if matches!(
            *self.response.borrow(),
            ResponseState::Sent(_) | ResponseState::Aborted
        ) {
            return Ok(0);
        }
        poll_fn(|context| self.body.borrow_mut().poll_receive(context, input)).await
    }

    /// Sends a head, and what follows it in the output. Returns an empty buffer.
    pub async fn send_output(&self, output: Output) -> (io::Result<usize>, Vec<u8>) {
        let length = output.bytes.len();
        let sent = self.send_head_and_body(output).await;
        (sent.map(|()| length), Vec::new())
    }

    async fn send_head_and_body(&self, mut output: Output) -> io::Result<()> {
        if output.bytes.len() <= Memory::SHORT_RESPONSE {
            let body = self.take_head(&mut output)?;
            return self.send_short(body).await;
        }
        let (due, start) = (output.body_length(self.to_head), output.body_start());
        let bytes = mem::take(&mut output.bytes);
        // The frame of the head must not hold the memory of the body.
        let head = self.memory.bytes(bytes[..start].to_vec());
        self.send_head(&output, &head, due)?;
        self.send_long(bytes, start).await
    }

    /// Sends bytes of the body. Returns an empty buffer.
    pub async fn send(&self, out: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let length = out.len();
        let sent = if length <= Memory::SHORT_RESPONSE {
            self.send_short(self.memory.bytes(out)).await
        } else {
            self.send_long(out, 0).await
        };
        (sent.map(|()| length), Vec::new())
    }

    /// Sends the bytes of the body from `done` on.
    async fn send_long(&self, out: Vec<u8>, mut done: usize) -> io::Result<()> {
        while done < out.len() {
            let held = self.room(out.len() - done).await?;
            if held.bytes() == out.len() {
                self.send_piece(out, held)?;
                return Ok(());
            }
            let copied = out[done..][..held.bytes()].to_vec();
            done += self.send_piece(copied, held)?;
        }
        Ok(())
    }

    /// Sends bytes that count for the request.
    async fn send_short(&self, mut out: Bytes) -> io::Result<()> {
        while !out.is_empty() {
            let granted = self.window(out.len()).await?;
            self.send_chunk(out.split_to(granted))?;
        }
        Ok(())
    }

    /// Waits until flow control and the send buffer allow a part of the body. Returns its length, at most `most`.
    pub async fn window(&self, most: usize) -> io::Result<usize> {
        let granted = poll_fn(|context| self.poll_capacity(context, most));
        let granted = time::timeout(self.write_time, granted).await;
        Ok(granted.map_err(|_| io::ErrorKind::TimedOut)??.min(most))
    }

    /// Waits until flow control allows a part of the body, and the connection may hold it: at most `most` bytes.
    pub async fn room(&self, most: usize) -> io::Result<Held> {
        let mut place = self.memory.connection.place();
        let room = poll_fn(|context| {
            let granted = task::ready!(self.poll_capacity(context, most))?;
            place.poll_take(context, granted.min(most)).map(Ok)
        });
        let room = time::timeout(self.write_time, room).await;
        room.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Sends a piece of the body, for which [`Exchange::room`] has made room. Returns its length.
    pub fn send_piece(&self, bytes: Vec<u8>, held: Held) -> io::Result<usize> {
        let length = bytes.len();
        self.send_chunk(piece(bytes, held))?;
        Ok(length)
    }

    /// Sends a response as far as flow control and the send buffer allow now. `output` has its head, and the body if it is
    /// short; `content` is the body of another one, of which all or nothing is sent.
    pub fn try_send(&self, output: &mut Output, content: Option<&[u8]>) -> io::Result<SentAtOnce> {
        let mut out = self.take_head(output)?;
        let wanted = content.map_or(out.len(), <[u8]>::len);
        let granted = match &mut *self.response.borrow_mut() {
            ResponseState::Body(stream, _) => {
                stream.reserve_capacity(wanted);
                stream.capacity().min(wanted)
            }
            _ => 0,
        };
        if let Some(content) = content {
            if granted < wanted || wanted == 0 {
                return Ok(SentAtOnce::Part(0));
            }
            let Some(held) = self.memory.take_now(wanted) else {
                return Ok(SentAtOnce::Part(0));
            };
            self.send_piece(content.to_vec(), held)?;
            return Ok(SentAtOnce::Whole);
        }
        if granted > 0 {
            self.send_chunk(out.split_to(granted))?;
        }
        if out.is_empty() {
            return Ok(SentAtOnce::Whole);
        }
        self.unsent.replace(out);
        Ok(SentAtOnce::Part(0))
    }

    /// Sends what [`Exchange::try_send`] has left of a short body.
    pub async fn flush(&self) -> io::Result<()> {
        let unsent = self.unsent.take();
        self.send_short(unsent).await
    }

    /// Sends the head of a short response. Returns its body.
    fn take_head(&self, output: &mut Output) -> io::Result<Bytes> {
        let (due, start) = (output.body_length(self.to_head), output.body_start());
        let mut bytes = self.memory.bytes(mem::take(&mut output.bytes));
        let head = bytes.split_to(start);
        self.send_head(output, &head, due)?;
        Ok(bytes)
    }

    /// Sends a head as a HEADERS frame. `bytes` has the bytes of the output, and the body has the length `due`.
    fn send_head(&self, output: &Output, bytes: &Bytes, due: Option<u64>) -> io::Result<()> {
        let mut state = self.response.borrow_mut();
        let ResponseState::Due(respond) = &mut *state else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        if output.begins_with_continue() {
            let mut interim = Response::new(());
            *interim.status_mut() = StatusCode::CONTINUE;
            respond
                .send_informational(interim)
                .map_err(io::Error::other)?;
        }
        let response = self.response(output, bytes)?;
        if response.status().is_informational() {
            let sent = respond.send_informational(response);
            return sent.map_err(io::Error::other);
        }
        let sent = respond.send_response(response, due == Some(0));
        let stream = sent.map_err(io::Error::other)?;
        *state = match due {
            Some(0) => ResponseState::Sent(stream),
            due => ResponseState::Body(stream, due),
        };
        Ok(())
    }

    /// Returns a head as `h2` has it.
    fn response(&self, output: &Output, bytes: &Bytes) -> io::Result<Response<()>> {
        let status = output.status.ok_or(io::ErrorKind::InvalidData)?;
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status.code()).map_err(io::Error::other)?;
        let fields = response.headers_mut();
        let count = output.fields_in(bytes).count();
        fields.try_reserve(count).map_err(io::Error::other)?;
        let mut holds = false;
        let all = output.fields_in(bytes);
        for (name, value) in all.filter(|(name, _)| !is_connection_specific(name)) {
            let name = HeaderName::from_bytes(name).map_err(io::Error::other)?;
            let value = if name == CONTENT_LENGTH || name == ETAG {
                held_value(bytes.slice_ref(value))
            } else {
                HeaderValue::from_bytes(value)
            };
            let value = value.map_err(io::Error::other)?;
            holds |= value.is_sensitive();
            fields.try_append(name, value).map_err(io::Error::other)?;
        }
        if let Some(value) = fields.values_mut().next().filter(|_| !holds) {
            let bytes = self.memory.bytes(value.as_bytes().to_vec());
            *value = held_value(bytes).map_err(io::Error::other)?;
        }
        Ok(response)
    }

    /// Waits until flow control and the send buffer allow some of `length` bytes.
    fn poll_capacity(&self, context: &mut Context<'_>, length: usize) -> Poll<io::Result<usize>> {
        let mut state = self.response.borrow_mut();
        let ResponseState::Body(stream, _) = &mut *state else {
            let text = "the body is longer than its head announced";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        };
        stream.reserve_capacity(length);
        loop {
            if stream.capacity() > 0 {
                return Poll::Ready(Ok(stream.capacity()));
            }
            match task::ready!(stream.poll_capacity(context)) {
                Some(granted) => drop(granted.map_err(io::Error::other)?),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
    }

    fn send_chunk(&self, chunk: Bytes) -> io::Result<()> {
        let mut state = self.response.borrow_mut();
        let ResponseState::Body(stream, due) = &mut *state else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        if let Some(due) = due {
            let length = chunk.len() as u64;
            let left = due.checked_sub(length);
            *due = left.ok_or(io::ErrorKind::InvalidData)?;
        }
        let last = *due == Some(0);
        stream.send_data(chunk, last).map_err(io::Error::other)?;
        if last
            && let ResponseState::Body(stream, _) =
                mem::replace(&mut *state, ResponseState::Aborted)
        {
            *state = ResponseState::Sent(stream);
        }
        Ok(())
    }

    /// Sets the fields after the body, which [`Exchange::end`] sends.
    pub(crate) fn send_trailers(&self, mut trailers: HeaderMap) -> Ready<io::Result<()>> {
        let is_specific = |name: &&HeaderName| is_connection_specific(name.as_str().as_bytes());
        let names: Vec<_> = trailers.keys().filter(is_specific).cloned().collect();
        for name in names {
            trailers.remove(name);
        }
        self.trailers.replace(Some(trailers));
        ready(Ok(()))
    }

    /// Ends the response. Resets the stream if the response is not `whole`, so that the client notices.
    pub fn end(&self, whole: bool) {
        let mut state = self.response.borrow_mut();
        *state = match mem::replace(&mut *state, ResponseState::Aborted) {
            ResponseState::Due(mut respond) => {
                respond.send_reset(Reason::INTERNAL_ERROR);
                ResponseState::Aborted
            }
            ResponseState::Body(mut stream, None) if whole => {
                let _ = match self.trailers.take() {
                    Some(trailers) => stream.send_trailers(trailers),
                    None => stream.send_data(Bytes::new(), true),
                };
                ResponseState::Sent(stream)
            }
            ResponseState::Body(mut stream, _) => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                ResponseState::Aborted
            }
            ended => ended,
        };
    }

    /// Reads the rest of a request after its response, within the limits of a discarded body.
    ///
    /// Without a reader the `h2` crate would reset the stream at once and ignore later errors of
    /// the stream: a second head, a wrong length, or malformed trailers (RFC 9113, section 8.1).
    pub async fn read_rest(&self, limits: &Limits) {
        if !matches!(*self.response.borrow(), ResponseState::Sent(_)) {
            return;
        }
        let mut read = 0;
        let rest = poll_fn(|context| {
            let mut body = self.body.borrow_mut();
            while let Some(length) = task::ready!(body.poll_skip(context)) {
                read += length;
                if read > limits.body_bytes {
                    break;
                }
            }
            Poll::Ready(())
        });
        let _ = time::timeout(limits.body_time, rest).await;
    }

    /// Resets the stream of a response that is sent, because the client violated the protocol.
    pub fn reset_sent(&self, reason: Reason) {
        if let ResponseState::Sent(stream) = &mut *self.response.borrow_mut() {
            stream.send_reset(reason);
        }
    }

    /// Waits until the client resets the request.
    pub fn poll_reset(&self, context: &mut Context<'_>) -> Poll<()> {
        match &mut *self.response.borrow_mut() {
            ResponseState::Due(respond) => respond.poll_reset(context).map(drop),
            ResponseState::Body(stream, _) => stream.poll_reset(context).map(drop),
            ResponseState::Sent(_) | ResponseState::Aborted => Poll::Pending,
        }
    }
}

/// Returns the value of a field whose bytes count for the request until its frame is written. `h2` keeps the values of
/// other fields for later frames of the connection (HPACK), for as long as it lasts, and so those are copies.
fn held_value(bytes: Bytes) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_maybe_shared(bytes)?;
    value.set_sensitive(true);
    Ok(value)
}

impl RequestBody {
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Ok(0));
        }
        let before = input.len();
        match task::ready!(self.stream.poll_data(context)) {
            Some(Ok(bytes)) if bytes.is_empty() => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Some(Ok(bytes)) => {
                let flow = self.stream.flow_control();
                flow.release_capacity(bytes.len())
                    .map_err(io::Error::other)?;
                self.push(&bytes, input);
            }
            Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            None => {
                self.ended = true;
                if self.chunked {
                    input.extend_from_slice(b"0\r\n\r\n");
                }
            }
        }
        Poll::Ready(Ok(input.len() - before))
    }

    /// Discards a chunk of the body and returns its length. Returns none at the end, after reading
    /// trailers, and after an error, which the `h2` crate reports to the client.
    fn poll_skip(&mut self, context: &mut Context<'_>) -> Poll<Option<u64>> {
        let Some(Ok(bytes)) = task::ready!(self.stream.poll_data(context)) else {
            return self.stream.poll_trailers(context).map(|_| None);
        };
        let _ = self.stream.flow_control().release_capacity(bytes.len());
        Poll::Ready(Some(bytes.len() as u64))
    }

    fn push(&self, bytes: &[u8], input: &mut Vec<u8>) {
        if self.chunked {
            input.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        }
        input.extend_from_slice(bytes);
        if self.chunked {
            input.extend_from_slice(b"\r\n");
        }
    }
}
