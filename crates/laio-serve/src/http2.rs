//! HTTP/2: several requests at the same time on one connection. The `h2` crate implements the
//! frames. Each request is translated to HTTP/1.1 and then handled by the same code as others.

mod exchange;
mod io;
mod request;
mod windows;

pub(crate) use exchange::Exchange;

use crate::connection::Connection;
use crate::options::{Http2, Limits};
use crate::stream::Stream;
use crate::worker::{Idle, Presence, Worker};
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use io::{Io, Stalled};
use laio_rt::future::{Either, race};
use laio_rt::time;
use laio_rt::{Descriptor, JoinHandle};
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
pub(crate) fn begins(input: &[u8]) -> bool {
    input.starts_with(PREFACE)
}

/// Whether a connection begins with a request line of three words whose target and version are
/// malformed. That is an invalid HTTP/2 preface (RFC 9113, section 3.4); its sender does not
/// understand an HTTP/1.1 answer.
pub(crate) fn is_invalid_preface(input: &[u8]) -> bool {
    let end = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let mut words = input[..end.unwrap_or(input.len())].split(|&byte| byte == b' ');
    let (Some(_), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let is_word = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_alphabetic);
    is_word(target) && is_word(version) && !b"HTTP".starts_with(version)
}

/// Serves a connection until the client closes, violates the protocol or reaches a limit. `input`
/// was received before; `presence` shows when the connection is idle.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    stream: Stream,
    input: Vec<u8>,
    peer: Rc<str>,
    presence: Rc<Presence>,
) {
    let Some(limits) = worker.http2() else { return };
    let Some(socket) = stream.socket() else {
        return;
    };
    let (shared, secure) = (Rc::new(Shared::new(presence.clone())), stream.is_secure());
    let (stalled, windows) = (shared.stalled.clone(), shared.windows.clone());
    let Some(io) = Io::new(stream, input, stalled, windows) else {
        return;
    };
    let handshake = builder(&limits, worker.limits()).handshake::<_, Bytes>(io);
    let Ok(Ok(connection)) = time::timeout(worker.limits().head_time, handshake).await else {
        return;
    };
    let connection = Multiplexed {
        worker: worker.clone(),
        limits,
        connection,
        shared,
        peer,
        secure,
        socket: socket.clone(),
    };
    presence.set_polite(true);
    let end = connection.serve().await;
    presence.set_polite(false);
    if end == End::Said {
        presence.waits();
        worker.linger(&Stream::Plain(socket)).await;
    }
}

fn builder(limits: &Http2, common: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(common.head.head_bytes.try_into().unwrap_or(u32::MAX))
        .initial_window_size(limits.window)
        .initial_connection_window_size(limits.window)
        .max_send_buffer_size(Http2::SEND_BUFFER)
        .max_pending_accept_reset_streams(Http2::PENDING_RESETS)
        .max_concurrent_reset_streams(Http2::KEPT_RESETS)
        .reset_stream_duration(Http2::RESET_TIME);
    builder
}

/// An HTTP/2 connection.
struct Multiplexed {
    worker: Rc<Worker>,
    limits: Http2,
    connection: h2::server::Connection<Io, Bytes>,
    shared: Rc<Shared>,
    peer: Rc<str>,
    secure: bool,
    socket: Descriptor,
}

/// State shared by the connection and the tasks of its requests.
struct Shared {
    presence: Rc<Presence>,
    tasks: RefCell<HashMap<u32, Answering>>,
    windows: Rc<RefCell<Windows>>,
    /// The number of requests that the client has reset.
    resets: Cell<u32>,
    /// When the last request ended.
    active: Cell<Instant>,
    stalled: Stalled,
    waiting: Cell<Option<Waker>>,
}

/// The task of a request.
struct Answering {
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
    Said,
}

enum Event {
    Request(Box<Incoming>),
    Closed(End),
    /// No request arrived within the time limit.
    Idle,
    /// The client does not read what was sent.
    Stalled,
    /// The client has reset too many requests.
    TooManyResets,
    /// The connection was evicted.
    Leave,
}

impl Event {
    fn closed(result: Result<(), h2::Error>) -> Event {
        let gone = result.is_err_and(|error| error.is_io());
        Event::Closed(if gone { End::Gone } else { End::Said })
    }
}

impl Multiplexed {
    async fn serve(mut self) -> End {
        let (worker, shared) = (self.worker.clone(), self.shared.clone());
        let mut watch = pin!(watch(worker.limits(), &shared));
        let mut count = 0u32;
        loop {
            let event = poll_fn(|context| match watch.as_mut().poll(context) {
                Poll::Ready(event) => Poll::Ready(event),
                Poll::Pending => self.poll_event(context),
            })
            .await;
            match event {
                Event::Request(incoming) => {
                    count += 1;
                    if count >= worker.limits().requests {
                        self.connection.graceful_shutdown();
                    }
                    self.start(*incoming);
                }
                Event::Idle => {
                    self.connection.graceful_shutdown();
                    self.close(worker.limits().linger_time).await;
                    return End::Said;
                }
                Event::TooManyResets => {
                    self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                    self.close(worker.limits().linger_time).await;
                    return End::Said;
                }
                Event::Leave => {
                    worker.made_room();
                    self.connection.abrupt_shutdown(Reason::NO_ERROR);
                    self.close(Limits::LEAVE_TIME).await;
                    return End::Gone;
                }
                Event::Closed(end) => return end,
                Event::Stalled => return End::Gone,
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        self.shared.waiting.set(Some(context.waker().clone()));
        if self.shared.resets.get() > self.limits.resets {
            return Poll::Ready(Event::TooManyResets);
        }
        if self.shared.presence.leaves() {
            return Poll::Ready(Event::Leave);
        }
        if self.worker.is_stopping() {
            self.connection.graceful_shutdown();
        }
        // A request that the client has reset no longer counts for the protocol, but its task is
        // still running.
        let full = self.shared.tasks.borrow().len() >= self.limits.streams as usize;
        let event = match full {
            true => self.connection.poll_closed(context).map(Event::closed),
            false => self.connection.poll_accept(context).map(|next| match next {
                Some(Ok(incoming)) => Event::Request(Box::new(incoming)),
                Some(Err(error)) => Event::closed(Err(error)),
                None => Event::closed(Ok(())),
            }),
        };
        if self.reset_overflown() {
            // Poll again, to send the reset.
            context.waker().wake_by_ref();
        }
        event
    }

    /// Answers a request in a new task.
    fn start(&self, (request, respond): Incoming) {
        let id = respond.stream_id().as_u32();
        let head = request::head(&request);
        let exchange = Rc::new(Exchange::new(
            request,
            respond,
            self.secure,
            self.socket.clone(),
            self.worker.limits(),
        ));
        let stream = Stream::Http2(exchange.clone());
        let connection =
            Connection::of_exchange(self.worker.clone(), stream, head, self.peer.clone());
        let (shared, worker) = (self.shared.clone(), self.worker.clone());
        shared.presence.set(Idle::No);
        shared.presence.works();
        let answering = exchange.clone();
        let task = laio_rt::spawn(async move {
            match race(exchange.taken_back(), connection.answer_one()).await {
                Either::Left(()) => shared.resets.set(shared.resets.get() + 1),
                Either::Right(whole) => {
                    exchange.end(whole);
                    shared.windows.borrow_mut().watch(id);
                    race(exchange.read_rest(worker.limits()), worker.stopped()).await;
                }
            }
            shared.ended(id);
        });
        let exchange = answering;
        let answering = Answering { task, exchange };
        self.shared.tasks.borrow_mut().insert(id, answering);
    }

    /// Resets streams whose flow-control window has overflowed. Returns whether there were any.
    fn reset_overflown(&self) -> bool {
        let overflown = self.shared.windows.borrow_mut().take_overflown();
        let tasks = self.shared.tasks.borrow();
        let mut found = false;
        for answering in overflown.iter().filter_map(|stream| tasks.get(stream)) {
            answering.exchange.reset_sent(Reason::FLOW_CONTROL_ERROR);
            found = true;
        }
        found
    }

    /// Closes the connection gracefully, within a time limit.
    async fn close(mut self, within: Duration) {
        let closed = poll_fn(|context| self.connection.poll_closed(context));
        let _ = time::timeout(within, closed).await;
    }
}

impl Shared {
    fn new(presence: Rc<Presence>) -> Shared {
        presence.set(Idle::New);
        Shared {
            presence,
            tasks: RefCell::default(),
            windows: Rc::new(RefCell::new(Windows::new())),
            resets: Cell::new(0),
            active: Cell::new(Instant::now()),
            stalled: Stalled::default(),
            waiting: Cell::new(None),
        }
    }

    fn ended(&self, id: u32) {
        self.tasks.borrow_mut().remove(&id);
        self.windows.borrow_mut().forget(id);
        self.active.set(Instant::now());
        let idle = match self.tasks.borrow().is_empty() {
            true => Idle::Between,
            false => Idle::No,
        };
        self.presence.set(idle);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

impl Drop for Multiplexed {
    fn drop(&mut self) {
        let tasks = self.shared.tasks.take();
        tasks.values().for_each(|answering| answering.task.abort());
    }
}

/// Waits until an idle or write timeout of the connection.
async fn watch(limits: &Limits, shared: &Shared) -> Event {
    loop {
        let quiet = shared.tasks.borrow().is_empty();
        let quiet = quiet.then(|| shared.active.get());
        let left = |since: Option<Instant>, most: Duration| {
            most.saturating_sub(since.map_or(Duration::ZERO, |since| since.elapsed()))
        };
        let until_idle = left(quiet, limits.idle_time);
        let until_stalled = left(shared.stalled.get(), limits.write_time);
        if until_stalled.is_zero() {
            return Event::Stalled;
        }
        if until_idle.is_zero() {
            return Event::Idle;
        }
        time::sleep(until_idle.min(until_stalled)).await;
    }
}
