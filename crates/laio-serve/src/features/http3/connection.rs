//! HTTP/3: the requests of a QUIC connection, several at the same time. Each is then
//! handled by the same code as one of HTTP/1.1.

use crate::connection::state::{ConnectionState, DrainState};
use crate::connection::streams::{AtOnce, BegunResponse, Streams};
use bytes::Bytes;
use laio_http::{Output, RequestFields};
use laio_rt::JoinHandle;
use laio_rt::future::{Either, race};
use laio_rt::time::{self, Sleep, sleep_until};
use laio_serve_base::options::Http3;
use laio_serve_net::http3::frames::{kind, put_head, put_integer};
use laio_serve_net::http3::request::{Head, RequestStream};
use laio_serve_net::http3::unidirectional::Unidirectional;
use laio_serve_net::http3::{Failure, code};
use laio_serve_net::http3_exchange::Http3Exchange;
use laio_serve_net::memory::connection::RequestMemory;
use laio_serve_net::multiplexed::Multiplexed;
use laio_serve_net::quic::connection::QuicConnection;
use laio_serve_net::quic::{Dir, StreamId};
use laio_serve_net::stream::Stream;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The type of the control stream, and the setting that limits the size of a head.
const CONTROL_STREAM: u64 = 0x0;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;

/// Serves a connection until the client closes it, violates the protocol or reaches a limit.
pub(crate) async fn serve(
    streams: Rc<Streams>,
    quic: Rc<QuicConnection>,
    limits: Http3,
    connection_state: Rc<ConnectionState>,
) {
    let connection = Http3Connection {
        streams,
        quic,
        limits,
        state: Rc::new(Http3State {
            tasks: RefCell::default(),
            resets: Cell::new(0),
            last_ended: Cell::new(Instant::now()),
            waker: Cell::new(None),
        }),
        connection_state,
        control: None,
        unidirectional: Unidirectional::default(),
        accepted: 0,
        began: Instant::now(),
        pinged: Instant::now(),
        received: (0, Instant::now()),
        timer: sleep_until(Instant::now()),
    };
    connection.serve().await;
}

/// An HTTP/3 connection.
struct Http3Connection {
    streams: Rc<Streams>,
    quic: Rc<QuicConnection>,
    limits: Http3,
    state: Rc<Http3State>,
    connection_state: Rc<ConnectionState>,
    control: Option<Control>,
    unidirectional: Unidirectional,
    /// The number of requests so far.
    accepted: u64,
    /// When the connection began.
    began: Instant,
    /// When the client was last asked whether it is still there, or the last request began.
    pinged: Instant,
    /// The number of datagrams received, and when the last one was noticed.
    received: (u64, Instant),
    /// Ends when a time limit is reached.
    timer: Sleep,
}

/// What a connection waits for.
enum Wait {
    /// The end of the handshake.
    Handshake,
    Request,
    Response,
    /// The last requests of a connection that will end.
    LastRequest,
    /// Requests that are rejected, before the connection ends.
    Rejected,
    /// The client's acknowledgement of the last response, before the connection closes.
    Acknowledgement,
}

/// The control stream of the server.
struct Control {
    id: StreamId,
    unsent: Bytes,
    /// When a GOAWAY has announced that the connection will end. Requests that were sent before it arrived are still
    /// accepted.
    announced: Option<Instant>,
    /// Until when the connection rejects requests before it ends. Some clients learn from the last GOAWAY only that they
    /// need another connection, and lose a request that crosses the end.
    rejects_until: Option<Instant>,
    /// The last GOAWAY is sent: the connection takes no more requests, and ends after its last response.
    goes_away: bool,
}

impl Control {
    fn push_goaway(&mut self, first_refused: u64) {
        let mut payload = Vec::new();
        put_integer(first_refused, &mut payload);
        let mut output = self.unsent.to_vec();
        put_head(kind::GOAWAY, payload.len(), &mut output);
        output.extend_from_slice(&payload);
        self.unsent = output.into();
    }
}

/// State shared by the connection and the tasks of its requests.
struct Http3State {
    tasks: RefCell<HashMap<StreamId, JoinHandle<()>>>,
    /// The number of requests that the client has given up.
    resets: Cell<u32>,
    /// When the last request ended, or the connection began.
    last_ended: Cell<Instant>,
    waker: Cell<Option<Waker>>,
}

impl Http3Connection {
    async fn serve(mut self) {
        let streams = self.streams.clone();
        self.connection_state.set_closes_itself(true);
        let mut draining = pin!(streams.connections.wait_until_draining());
        let mut drains = false;
        poll_fn(|context| {
            drains = drains || draining.as_mut().poll(context).is_ready();
            self.poll(context, drains)
        })
        .await;
    }

    /// Does everything that can be done now. Ready when nothing of the connection is left.
    fn poll(&mut self, context: &mut Context<'_>, drains: bool) -> Poll<()> {
        let quic = self.quic.clone();
        self.state.waker.set(Some(context.waker().clone()));
        if quic.poll(context).is_ready() {
            return Poll::Ready(());
        }
        if quic.is_lost() {
            // QUIC answers late packets for a while. No request depends on that.
            self.connection_state.set_drain_state(DrainState::Between);
            return Poll::Pending;
        }
        if self.connection_state.is_evicted() {
            self.streams.connections.note_eviction();
            quic.close(code::NO_ERROR, "the server is full");
        } else if drains && quic.is_left() {
            quic.close(code::NO_ERROR, "the server is replaced");
        } else if (!quic.is_handshaking() || quic.accepts_early_data())
            && let Err(failure) = self.advance(context, drains)
        {
            self.fail(failure);
        }
        self.watch(context);
        let drain_state = self.drain_state();
        self.connection_state.set_drain_state(drain_state);
        if drain_state == DrainState::InRequest {
            self.connection_state.mark_not_evictable();
        }
        Poll::Pending
    }

    /// Sends control frames, reads those of the client, and accepts requests.
    fn advance(&mut self, context: &mut Context<'_>, drains: bool) -> Result<(), Failure> {
        let quic = self.quic.clone();
        self.open_control()?;
        while let Some(id) = quic.accept(Dir::Uni) {
            self.unidirectional.add(id);
        }
        self.unidirectional.read(context, &*quic)?;
        if self.state.resets.get() > self.limits.resets {
            let reason = "too many requests were reset";
            return Err(Failure::Connection(code::EXCESSIVE_LOAD, reason));
        }
        let ends = self.accepted >= self.streams.services.limits.requests.into();
        let hands_over = self.streams.connections.hands_over();
        if ends || (drains && !hands_over) {
            self.go_away();
        } else if drains && self.accepted > 0 {
            // As over TCP, the first request of a connection that began before a reload is answered.
            self.announce_end();
        }
        // A request that the client has reset no longer counts for the protocol, but its task is
        // still running.
        while self.state.tasks.borrow().len() < self.limits.streams as usize
            && let Some(id) = quic.accept(Dir::Bi)
        {
            if self.goes_away() {
                reject(&quic, id);
                continue;
            }
            self.accepted += 1;
            self.pinged = Instant::now();
            self.answer(id, context);
        }
        self.send_control(context);
        if self.goes_away() && !self.is_busy() && self.rejects_until().is_none() {
            quic.close(code::NO_ERROR, "");
        }
        Ok(())
    }

    fn fail(&self, failure: Failure) {
        if let Failure::Connection(code, reason) = failure {
            self.quic.close(code, reason);
        }
    }

    /// Opens the control stream.
    fn open_control(&mut self) -> Result<(), Failure> {
        if self.control.is_some() {
            return Ok(());
        }
        let mut settings = Vec::new();
        put_integer(MAX_FIELD_SECTION_SIZE, &mut settings);
        let most = self.streams.services.limits.head_bytes as u64;
        put_integer(most.min((1 << 62) - 1), &mut settings);
        let mut output = Vec::new();
        put_integer(CONTROL_STREAM, &mut output);
        put_head(kind::SETTINGS, settings.len(), &mut output);
        output.extend_from_slice(&settings);
        let id = self.quic.open().ok_or_else(|| {
            let reason = "the client allows no control stream";
            Failure::Connection(code::STREAM_CREATION_ERROR, reason)
        })?;
        self.control = Some(Control {
            id,
            unsent: output.into(),
            announced: None,
            rejects_until: None,
            goes_away: false,
        });
        Ok(())
    }

    fn send_control(&mut self, context: &mut Context<'_>) {
        let Some(control) = &mut self.control else {
            return;
        };
        while !control.unsent.is_empty() {
            let quic = &self.quic;
            let written = quic.poll_write(context, control.id, &mut control.unsent);
            match written {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    let reason = "the client wants no control stream";
                    return quic.close(code::CLOSED_CRITICAL_STREAM, reason);
                }
                Poll::Pending => return,
            }
        }
    }

    /// Tells the client once that the server takes no more requests.
    fn go_away(&mut self) {
        // Each fourth stream is of a request.
        let first_refused = 4 * self.accepted;
        let connections = &self.streams.connections;
        let stops = connections.is_draining() && !connections.hands_over();
        // A server that stops has no other connection for them.
        let rejects_until = (!stops).then(|| Instant::now() + Http3::REJECTS_BEFORE_END);
        if let Some(control) = self.control.as_mut().filter(|it| !it.goes_away) {
            control.goes_away = true;
            control.rejects_until = rejects_until;
            control.push_goaway(first_refused);
        }
    }

    /// Tells the client once that it should use another connection (RFC 9114, section 5.2). So no request is lost that
    /// it sends at this moment.
    fn announce_end(&mut self) {
        let control = self.control.as_mut();
        if let Some(control) = control.filter(|it| !it.goes_away && it.announced.is_none()) {
            control.announced = Some(Instant::now());
            control.push_goaway((1 << 62) - 4);
        }
    }

    /// Returns when a connection whose end was announced takes no more requests.
    fn last_request(&self) -> Option<Instant> {
        let control = self.control.as_ref().filter(|it| !it.goes_away)?;
        Some(control.announced? + Http3::ACCEPTS_AFTER_ANNOUNCEMENT)
    }

    /// Returns until when the connection rejects requests before it ends.
    fn rejects_until(&self) -> Option<Instant> {
        self.control.as_ref()?.rejects_until
    }

    fn goes_away(&self) -> bool {
        self.control.as_ref().is_some_and(|it| it.goes_away)
    }

    /// Whether requests are in progress, or responses not acknowledged.
    fn is_busy(&self) -> bool {
        let own = usize::from(self.control.is_some());
        !self.state.tasks.borrow().is_empty() || self.quic.sending_streams() > own
    }

    fn drain_state(&self) -> DrainState {
        if self.is_busy() || self.rejects_until().is_some() {
            DrainState::InRequest
        } else if self.accepted > 0 {
            DrainState::Between
        } else {
            DrainState::New
        }
    }

    /// Enforces the time limits of the connection.
    fn watch(&mut self, context: &mut Context<'_>) {
        let (quic, limits) = (&self.quic, &self.streams.services.limits);
        let received = quic.received();
        if self.received.0 != received {
            self.received = (received, Instant::now());
        }
        let ends = self.goes_away() && self.state.tasks.borrow().is_empty();
        let (due, wait) = if quic.is_handshaking() {
            (self.began + limits.head_time, Wait::Handshake)
        } else if ends {
            (self.received.1 + Http3::LAST_TIME, Wait::Acknowledgement)
        } else if self.is_busy() {
            (self.pinged + Http3::PING_INTERVAL, Wait::Response)
        } else {
            (
                self.state.last_ended.get() + limits.idle_time,
                Wait::Request,
            )
        };
        let (due, wait) = match (self.last_request(), self.rejects_until()) {
            (Some(last), _) if last < due => (last, Wait::LastRequest),
            (_, Some(end)) => (end, Wait::Rejected),
            _ => (due, wait),
        };
        self.timer.reset(due);
        if Pin::new(&mut self.timer).poll(context).is_pending() {
            return;
        }
        match wait {
            Wait::Handshake => quic.close(code::NO_ERROR, "the handshake took too long"),
            Wait::Acknowledgement => quic.close(code::NO_ERROR, ""),
            Wait::Response => {
                quic.ping();
                self.pinged = Instant::now();
            }
            Wait::Request | Wait::LastRequest => self.go_away(),
            Wait::Rejected => {
                if let Some(control) = &mut self.control {
                    control.rejects_until = None;
                }
            }
        }
        context.waker().wake_by_ref();
    }

    /// Answers the request of a stream: at once, or in a new task.
    fn answer(&self, id: StreamId, context: &mut Context<'_>) {
        let limits = &self.streams.services.limits;
        let mut request = RequestStream::new(id, limits.head_bytes);
        let (quic, head) = (&self.quic, request.poll_head(context, &*self.quic));
        let head = match head {
            Poll::Ready(Ok(Head::Whole(head)))
                if head.length.is_none()
                    && is_safe(&head.fields)
                    && request.poll_is_over(context, &**quic)
                    && !quic.is_given_up(id) =>
            {
                head
            }
            head => {
                let head = match head {
                    Poll::Ready(head) => Some(head),
                    Poll::Pending => None,
                };
                // The head is complete, or may become as long as a head may be.
                let Some(memory) = self.streams.memory.admit(limits.head_bytes) else {
                    return reject(quic, id);
                };
                return self.start(id, Progress::Receiving(request, head, memory));
            }
        };
        let head = head.fields;
        let to_head = head.method() == b"HEAD";
        let Some(memory) = self.streams.memory.admit(head.size()) else {
            return reject(quic, id);
        };
        let exchange =
            Http3Exchange::new(quic.clone(), id, request, (to_head, true), limits, memory);
        let exchange = Rc::new(exchange);
        let stream = Stream::Multiplexed(Multiplexed::Http3(exchange.clone()));
        let send = |output: &mut Output, content: Option<&[u8]>| exchange.try_send(output, content);
        let begun = match self.streams.answer_at_once(&stream, &head, send) {
            AtOnce::Answered(whole) => {
                exchange.end(whole);
                self.state.last_ended.set(Instant::now());
                return;
            }
            AtOnce::Begun(begun) => Some(begun),
            AtOnce::NotPossible => None,
        };
        let received = ReceivedRequest {
            exchange,
            head,
            may_be_early: true,
        };
        self.start(id, Progress::Received(received, begun));
    }

    /// Answers a request, or continues to, in a new task.
    fn start(&self, id: StreamId, progress: Progress) {
        let (streams, quic, state) = (self.streams.clone(), self.quic.clone(), self.state.clone());
        let task = laio_rt::spawn(async move {
            let (received, begun) = match progress {
                Progress::Received(received, begun) => (Some(received), begun),
                Progress::Receiving(request, head, memory) => {
                    let receive = receive(&streams, &quic, &state, id, request, head, memory);
                    (receive.await, None)
                }
            };
            if let Some(received) = received {
                respond(&streams, &quic, &state, id, received, begun).await;
            }
            quic.forget(id);
            state.ended(id);
        });
        self.state.tasks.borrow_mut().insert(id, task);
    }
}

/// How far a request is when its task starts.
enum Progress {
    /// Its stream, and its head if that has arrived.
    Receiving(RequestStream, Option<Result<Head, Failure>>, RequestMemory),
    Received(ReceivedRequest, Option<BegunResponse>),
}

/// A request whose head has arrived.
struct ReceivedRequest {
    exchange: Rc<Http3Exchange>,
    head: RequestFields,
    /// Whether it may be answered before the client has completed the handshake.
    may_be_early: bool,
}

impl Http3State {
    fn ended(&self, id: StreamId) {
        self.tasks.borrow_mut().remove(&id);
        self.last_ended.set(Instant::now());
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Http3Connection {
    fn drop(&mut self) {
        let tasks = self.state.tasks.take();
        tasks.values().for_each(JoinHandle::abort);
    }
}

/// Rejects a request, which the client may send again (RFC 9114, section 4.1.1).
fn reject(quic: &QuicConnection, id: StreamId) {
    quic.reset(id, code::REQUEST_REJECTED);
    quic.stop(id, code::REQUEST_REJECTED);
}

/// Receives the head of a request, if it is not here yet. Returns `None` if the request has failed.
async fn receive(
    streams: &Streams,
    quic: &Rc<QuicConnection>,
    state: &Http3State,
    id: StreamId,
    mut request: RequestStream,
    head: Option<Result<Head, Failure>>,
    memory: RequestMemory,
) -> Option<ReceivedRequest> {
    let limits = &streams.services.limits;
    let abort = |own: u32, of_client: u32| {
        quic.reset(id, own);
        quic.stop(id, of_client);
        None
    };
    let head = match head {
        Some(head) => Ok(head),
        None => {
            let reading = poll_fn(|context| request.poll_head(context, &**quic));
            time::timeout(limits.head_time, reading).await
        }
    };
    let head = match head {
        Ok(Ok(head)) => head,
        Ok(Err(Failure::Gone)) => {
            state.resets.set(state.resets.get() + 1);
            return abort(code::REQUEST_CANCELLED, code::NO_ERROR);
        }
        Ok(Err(Failure::Stream(code))) => return abort(code, code),
        Ok(Err(Failure::Connection(code, reason))) => {
            quic.close(code, reason);
            return None;
        }
        Err(_) => return abort(code::REQUEST_INCOMPLETE, code::NO_ERROR),
    };
    let (head, to_head, chunked, may_be_early) = match head {
        Head::Whole(mut head) => {
            let has_body = !request_has_ended(&mut request, quic).await;
            let chunked = head.length.is_none();
            if has_body && chunked {
                head.fields.set_chunked();
            }
            let may_be_early = !has_body && is_safe(&head.fields);
            let to_head = head.fields.method() == b"HEAD";
            (head.fields, to_head, chunked, may_be_early)
        }
        // A head of HTTP/1.1 that is as large gets the response, and a line in the access log.
        Head::TooLarge => (RequestFields::too_large(), false, true, true),
    };
    let form = (to_head, chunked);
    let exchange = Http3Exchange::new(quic.clone(), id, request, form, limits, memory);
    Some(ReceivedRequest {
        exchange: Rc::new(exchange),
        head,
        may_be_early,
    })
}

/// Answers a request, or sends the rest of its response.
async fn respond(
    streams: &Streams,
    quic: &QuicConnection,
    state: &Http3State,
    id: StreamId,
    received: ReceivedRequest,
    begun: Option<BegunResponse>,
) {
    let ReceivedRequest {
        exchange,
        head,
        may_be_early,
    } = received;
    let stream = Stream::Multiplexed(Multiplexed::Http3(exchange.clone()));
    let answer = async {
        if let Some(begun) = begun {
            return streams.finish(&stream, &head, begun).await;
        }
        let confirmed = if may_be_early {
            Ok(())
        } else {
            exchange.confirmed().await
        };
        confirmed.is_ok() && streams.answer(stream, head).await
    };
    match race(exchange.given_up(), answer).await {
        Either::Left(()) => {
            state.resets.set(state.resets.get() + 1);
            quic.reset(id, code::REQUEST_CANCELLED);
            quic.stop(id, code::REQUEST_CANCELLED);
        }
        Either::Right(whole) => {
            exchange.end(whole);
            let draining = streams.connections.wait_until_draining();
            race(exchange.read_rest(&streams.services.limits), draining).await;
            quic.stop(id, code::NO_ERROR);
        }
    }
}

/// Whether a request has a method that changes nothing, so that it may be answered in early data, which can be
/// repeated (RFC 8470, section 4).
fn is_safe(head: &RequestFields) -> bool {
    matches!(head.method(), b"GET" | b"HEAD")
}

/// Whether the client has ended the request with its head, as far as it is known now.
async fn request_has_ended(request: &mut RequestStream, quic: &QuicConnection) -> bool {
    poll_fn(|context| Poll::Ready(request.poll_is_over(context, quic))).await
}
