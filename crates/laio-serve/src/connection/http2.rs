//! HTTP/2: several requests at the same time on one connection. The `h2` crate implements the
//! frames. Each request is then handled by the same code as one of HTTP/1.1.

mod request;
mod windows;

use super::state::{ConnectionState, DrainState};
use super::streams::{AtOnce, BegunResponse, Streams};
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use laio_http::{Output, RequestFields};
use laio_rt::future::{Either, race};
use laio_rt::time;
use laio_rt::{Descriptor, JoinHandle};
use laio_serve_base::options::{Http2, Limits};
use laio_serve_core::request::receive::linger;
use laio_serve_net::http2_exchange::Exchange;
use laio_serve_net::http2_io::{Io, Stalled, Wire};
use laio_serve_net::multiplexed::Multiplexed;
use laio_serve_net::stream::Stream;
use laio_serve_net::tls::session::TlsParameters;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use windows::Windows;

/// The part of the client's connection preface that forms a request line (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

type Incoming = (Request<RecvStream>, SendResponse<Bytes>);

/// Whether a connection begins with the HTTP/2 preface.
pub(super) fn begins(input: &[u8]) -> bool {
    input.starts_with(PREFACE)
}

/// Whether a connection begins with a request line of three words whose target and version are
/// malformed. That is an invalid HTTP/2 preface (RFC 9113, section 3.4); its sender does not
/// understand an HTTP/1.1 response.
pub(super) fn is_invalid_preface(input: &[u8]) -> bool {
    let end = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let mut words = input[..end.unwrap_or(input.len())].split(|&byte| byte == b' ');
    let (Some(_), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let is_word = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_alphabetic);
    is_word(target) && is_word(version) && !b"HTTP".starts_with(version)
}

/// Serves a connection until the client closes, violates the protocol or reaches a limit. `input`
/// was received before; `connection_state` shows when the connection is idle.
pub(super) async fn serve(
    streams: Rc<Streams>,
    stream: Stream,
    input: Vec<u8>,
    connection_state: Rc<ConnectionState>,
) {
    let (services, connections) = (streams.services.clone(), streams.connections.clone());
    let Some(limits) = connections.http2.clone() else {
        return;
    };
    let Some(socket) = stream.socket() else {
        return;
    };
    let (state, tls) = (
        Rc::new(Http2State::new(connection_state.clone())),
        stream.tls(),
    );
    let (stalled, windows) = (state.stalled.clone(), state.windows.clone());
    let inspect = move |bytes: &[u8]| windows.borrow_mut().pass(bytes);
    let memory = Some(streams.memory.clone());
    let Some(io) = Io::new(stream, input, stalled, inspect, memory) else {
        return;
    };
    let wire = io.wire();
    let handshake = builder(&limits, &services.limits).handshake::<_, Bytes>(io);
    let Ok(Ok(connection)) = time::timeout(services.limits.head_time, handshake).await else {
        return;
    };
    let connection = Http2Connection {
        streams,
        limits,
        connection,
        wire,
        state,
        accepted: 0,
        tls,
        socket: socket.clone(),
    };
    connection_state.set_closes_itself(true);
    let end = connection.serve().await;
    connection_state.set_closes_itself(false);
    if end == End::Linger {
        connection_state.mark_evictable();
        linger(&services, &Stream::Plain(socket)).await;
    }
}

fn builder(limits: &Http2, common: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(common.head_bytes.try_into().unwrap_or(u32::MAX))
        .initial_window_size(Http2::WINDOW)
        .initial_connection_window_size(Http2::WINDOW)
        .max_send_buffer_size(Http2::SEND_BUFFER)
        .max_pending_accept_reset_streams(Http2::PENDING_RESETS)
        .max_concurrent_reset_streams(Http2::KEPT_RESETS)
        .reset_stream_duration(Http2::RESET_TIME);
    builder
}

/// An HTTP/2 connection.
struct Http2Connection {
    streams: Rc<Streams>,
    limits: Http2,
    connection: h2::server::Connection<Io, Bytes>,
    wire: Rc<Wire>,
    state: Rc<Http2State>,
    /// The number of requests so far.
    accepted: u32,
    tls: Option<TlsParameters>,
    socket: Descriptor,
}

/// State shared by the connection and the tasks of its requests.
struct Http2State {
    connection_state: Rc<ConnectionState>,
    tasks: RefCell<HashMap<u32, RunningRequest>>,
    windows: Rc<RefCell<Windows>>,
    /// The number of requests that the client has reset.
    resets: Cell<u32>,
    /// When the last request ended, or the connection began.
    last_ended: Cell<Instant>,
    stalled: Stalled,
    waker: Cell<Option<Waker>>,
}

/// The task of a request.
struct RunningRequest {
    task: JoinHandle<()>,
    exchange: Rc<Exchange>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client has closed the connection, or does not read.
    Gone,
    /// The client may still be sending, at least window updates. Input that arrives after the
    /// socket is closed would make the kernel reset the connection and discard unsent output.
    Linger,
}

enum Event {
    Requests(Vec<Incoming>),
    Closed(End),
    /// No request arrived within the time limit.
    Idle,
    /// The client does not read what was sent.
    Stalled,
    /// The client has reset too many requests.
    TooManyResets,
    /// The connection was evicted.
    Evicted,
}

impl Event {
    fn closed(result: Result<(), h2::Error>) -> Event {
        let gone = result.is_err_and(|error| error.is_io());
        Event::Closed(if gone { End::Gone } else { End::Linger })
    }
}

impl Http2Connection {
    async fn serve(mut self) -> End {
        let (services, state) = (self.streams.services.clone(), self.state.clone());
        let limits = &services.limits;
        let mut watch = pin!(watch(limits, &state));
        self.wire.defer_flushes(true);
        let mut since_yield = 0;
        loop {
            let event = poll_fn(|context| match watch.as_mut().poll(context) {
                Poll::Ready(event) => Poll::Ready(event),
                Poll::Pending => self.poll_event(context),
            })
            .await;
            match event {
                Event::Requests(mut requests) => {
                    since_yield += requests.len();
                    poll_fn(|context| {
                        for incoming in requests.drain(..) {
                            self.answer(incoming, context);
                        }
                        Poll::Ready(())
                    })
                    .await;
                    if since_yield >= Limits::STREAMS_BEFORE_YIELD {
                        since_yield = 0;
                        laio_rt::yield_now().await;
                    }
                }
                Event::Idle => {
                    self.connection.graceful_shutdown();
                    self.close(limits.linger_time).await;
                    return End::Linger;
                }
                Event::TooManyResets => {
                    self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                    self.close(limits.linger_time).await;
                    return End::Linger;
                }
                Event::Evicted => {
                    self.streams.connections.note_eviction();
                    self.connection.abrupt_shutdown(Reason::NO_ERROR);
                    self.close(Limits::GOAWAY_TIME).await;
                    return End::Gone;
                }
                Event::Closed(end) => return end,
                Event::Stalled => return End::Gone,
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        self.state.waker.set(Some(context.waker().clone()));
        if self.state.resets.get() > self.limits.resets {
            return Poll::Ready(Event::TooManyResets);
        }
        if self.state.connection_state.is_evicted() {
            return Poll::Ready(Event::Evicted);
        }
        if self.streams.connections.is_draining() {
            self.connection.graceful_shutdown();
        }
        let event = self.poll_accept(context);
        if event.is_pending() {
            let sent = self.wire.poll_send(context);
            if let Poll::Ready(Err(_)) = sent {
                return Poll::Ready(Event::Closed(End::Gone));
            }
            self.update_drain_state(sent.is_ready());
        }
        if self.reset_overflown() {
            // Poll again, to send the reset.
            context.waker().wake_by_ref();
        }
        event
    }

    /// Notes whether the connection may be closed without losing a response. `is_sent` is false while the socket takes no
    /// more bytes.
    fn update_drain_state(&self, is_sent: bool) {
        let is_idle = is_sent && self.state.tasks.borrow().is_empty();
        let drain_state = if !is_idle {
            DrainState::InRequest
        } else if self.accepted > 0 {
            DrainState::Between
        } else {
            DrainState::New
        };
        let connection_state = &self.state.connection_state;
        if connection_state.drain_state.get() == drain_state {
            return;
        }
        connection_state.set_drain_state(drain_state);
        if !is_idle {
            connection_state.mark_not_evictable();
        }
    }

    /// Accepts the requests that have arrived. They are answered together, so that one send carries their responses.
    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        // A request that the client has reset no longer counts for the protocol, but its task is
        // still running.
        let free = (self.limits.streams as usize).saturating_sub(self.state.tasks.borrow().len());
        if free == 0 {
            return self.connection.poll_closed(context).map(Event::closed);
        }
        let mut requests = Vec::new();
        while requests.len() < free
            && let Poll::Ready(next) = self.connection.poll_accept(context)
        {
            match next {
                Some(Ok(incoming)) => requests.push(incoming),
                Some(Err(error)) => return Poll::Ready(Event::closed(Err(error))),
                None => return Poll::Ready(Event::closed(Ok(()))),
            }
            self.accepted += 1;
            if self.accepted >= self.streams.services.limits.requests {
                self.connection.graceful_shutdown();
            }
        }
        if requests.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(Event::Requests(requests))
        }
    }

    /// Answers a request: at once, or in a new task.
    fn answer(&self, (request, mut respond): Incoming, context: &mut Context<'_>) {
        let id = respond.stream_id().as_u32();
        let head = request::fields(&request);
        let Some(memory) = self.streams.memory.admit(head.size()) else {
            // The client may send the request again (RFC 9113, section 8.7).
            return respond.send_reset(Reason::REFUSED_STREAM);
        };
        let has_body = !request.body().is_end_stream();
        let exchange = Rc::new(Exchange::new(
            request,
            respond,
            self.tls,
            self.socket.clone(),
            &self.streams.services.limits,
            memory,
        ));
        let stream = Stream::Multiplexed(Multiplexed::Http2(exchange.clone()));
        let at_once = if has_body || exchange.poll_reset(context).is_ready() {
            AtOnce::NotPossible
        } else {
            let send =
                |output: &mut Output, content: Option<&[u8]>| exchange.try_send(output, content);
            self.streams.answer_at_once(&stream, &head, send)
        };
        let begun = match at_once {
            AtOnce::Answered(whole) => {
                exchange.end(whole);
                self.state.last_ended.set(Instant::now());
                self.update_drain_state(false);
                return;
            }
            AtOnce::Begun(begun) => Some(begun),
            AtOnce::NotPossible => None,
        };
        self.start(id, exchange, stream, head, begun);
    }

    /// Answers a request, or sends the rest of its response, in a new task.
    fn start(
        &self,
        id: u32,
        exchange: Rc<Exchange>,
        stream: Stream,
        head: RequestFields,
        begun: Option<BegunResponse>,
    ) {
        self.update_drain_state(false);
        let (streams, state) = (self.streams.clone(), self.state.clone());
        let running = exchange.clone();
        let task = laio_rt::spawn(async move {
            let reset = poll_fn(|context| exchange.poll_reset(context));
            let answered = async {
                match begun {
                    None => streams.answer(stream, head).await,
                    Some(begun) => streams.finish(&stream, &head, begun).await,
                }
            };
            match race(reset, answered).await {
                Either::Left(()) => state.resets.set(state.resets.get() + 1),
                Either::Right(whole) => {
                    exchange.end(whole);
                    state.windows.borrow_mut().watch(id);
                    race(
                        exchange.read_rest(&streams.services.limits),
                        streams.connections.wait_until_draining(),
                    )
                    .await;
                }
            }
            state.ended(id);
        });
        let exchange = running;
        let running = RunningRequest { task, exchange };
        self.state.tasks.borrow_mut().insert(id, running);
    }

    /// Resets streams whose flow-control window has overflowed. Returns whether there were any.
    fn reset_overflown(&self) -> bool {
        let overflown = self.state.windows.borrow_mut().take_overflown();
        let tasks = self.state.tasks.borrow();
        let mut found = false;
        for running in overflown.iter().filter_map(|stream| tasks.get(stream)) {
            running.exchange.reset_sent(Reason::FLOW_CONTROL_ERROR);
            found = true;
        }
        found
    }

    /// Closes the connection gracefully, within a time limit.
    async fn close(mut self, within: Duration) {
        self.wire.defer_flushes(false);
        let closed = poll_fn(|context| self.connection.poll_closed(context));
        let _ = time::timeout(within, closed).await;
    }
}

impl Http2State {
    fn new(connection_state: Rc<ConnectionState>) -> Http2State {
        connection_state.set_drain_state(DrainState::New);
        Http2State {
            connection_state,
            tasks: RefCell::default(),
            windows: Rc::new(RefCell::new(Windows::new())),
            resets: Cell::new(0),
            last_ended: Cell::new(Instant::now()),
            stalled: Stalled::default(),
            waker: Cell::new(None),
        }
    }

    fn ended(&self, id: u32) {
        self.tasks.borrow_mut().remove(&id);
        self.windows.borrow_mut().forget(id);
        self.last_ended.set(Instant::now());
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        let tasks = self.state.tasks.take();
        tasks.values().for_each(|running| running.task.abort());
    }
}

/// Waits until an idle or write timeout of the connection.
async fn watch(limits: &Limits, state: &Http2State) -> Event {
    loop {
        let quiet = state.tasks.borrow().is_empty();
        let quiet = quiet.then(|| state.last_ended.get());
        let left = |since: Option<Instant>, most: Duration| {
            most.saturating_sub(since.map_or(Duration::ZERO, |since| since.elapsed()))
        };
        let until_idle = left(quiet, limits.idle_time);
        let until_stalled = left(state.stalled.get(), limits.write_time);
        if until_stalled.is_zero() {
            return Event::Stalled;
        }
        if until_idle.is_zero() {
            return Event::Idle;
        }
        time::sleep(until_idle.min(until_stalled)).await;
    }
}
