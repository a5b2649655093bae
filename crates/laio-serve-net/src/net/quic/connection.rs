//! A QUIC connection: its packets, and its streams as poll methods.

use super::congestion;
use super::endpoint::{Endpoint, Handshake};
use crate::net::http3::code;
use bytes::Bytes;
use laio::ops::Readiness;
use laio_rt::time::{Sleep, sleep_until};
use laio_rt::{Descriptor, Submission};
use laio_serve_base::observe;
use laio_serve_base::options::Http3;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, Dir, Event, ReadError, StreamEvent, StreamId, Transmit,
    VarInt, WriteError,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A connection. One task polls it ([`QuicConnection::poll`]), which moves the packets; others use its
/// streams.
pub struct QuicConnection {
    endpoint: Rc<Endpoint>,
    handle: ConnectionHandle,
    state: RefCell<State>,
    /// The number of datagrams received.
    received: Cell<u64>,
    /// The waker of the task that polls the connection.
    driver: Cell<Option<Waker>>,
}

struct State {
    protocol: quinn_proto::Connection,
    /// Tasks that wait to read, to write, or for the end of a stream.
    readers: HashMap<StreamId, Waker>,
    writers: HashMap<StreamId, Waker>,
    watchers: HashMap<StreamId, Waker>,
    /// Tasks that wait for the end of the handshake.
    early: HashMap<StreamId, Waker>,
    /// Counts the handshake until it is complete.
    handshake: Option<Handshake>,
    /// Whether the client has completed the handshake.
    is_confirmed: bool,
    is_lost: bool,
    early_data: EarlyPackets,
    output: Output,
    timer: Sleep,
    send_buffer: u64,
}

/// What became of the early data of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlyPackets {
    /// None has arrived.
    None,
    /// Some has arrived, perhaps before the packets that decide about it.
    Arrived,
    Counted,
}

/// Packets to send.
#[derive(Default)]
struct Output {
    packets: Vec<u8>,
    /// What `packets` has, if it could not be sent yet.
    transmit: Option<Transmit>,
    /// Waits for space in the buffer of the socket.
    writable: Option<Submission<Readiness<Descriptor>>>,
}

/// Why a stream cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client has reset the stream, or wants nothing more of it.
    Reset,
    /// The connection is lost.
    Lost,
}

impl QuicConnection {
    pub(super) fn new(
        endpoint: Rc<Endpoint>,
        handle: ConnectionHandle,
        protocol: quinn_proto::Connection,
        handshake: Handshake,
        has_early_data: bool,
    ) -> Rc<QuicConnection> {
        Rc::new(QuicConnection {
            endpoint,
            handle,
            state: RefCell::new(State {
                protocol,
                readers: HashMap::new(),
                writers: HashMap::new(),
                watchers: HashMap::new(),
                early: HashMap::new(),
                handshake: Some(handshake),
                is_confirmed: false,
                is_lost: false,
                early_data: if has_early_data {
                    EarlyPackets::Arrived
                } else {
                    EarlyPackets::None
                },
                output: Output::default(),
                timer: sleep_until(Instant::now()),
                send_buffer: Http3::SEND_BUFFER,
            }),
            received: Cell::new(0),
            driver: Cell::new(None),
        })
    }

    /// Returns the present address of the client.
    pub fn remote(&self) -> SocketAddr {
        self.state.borrow().protocol.remote_address()
    }

    /// Returns the address that the client uses.
    pub fn local(&self) -> SocketAddr {
        let mut local = self.endpoint.local();
        if let Some(ip) = self.state.borrow().protocol.local_ip() {
            local.set_ip(ip);
        }
        local
    }

    /// Whether the TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.state.borrow().handshake.is_some()
    }

    /// Whether requests may be in early data, because the client has not completed the handshake.
    pub fn is_early(&self) -> bool {
        !self.state.borrow().is_confirmed
    }

    /// Whether the server has accepted the early data of the client.
    pub fn accepts_early_data(&self) -> bool {
        self.state.borrow().protocol.has_0rtt()
    }

    /// Waits until the client has completed the handshake. A client that repeats what it has recorded cannot.
    pub(crate) fn poll_confirmed(
        &self,
        context: &mut Context<'_>,
        id: StreamId,
    ) -> Poll<Result<(), StreamEnd>> {
        let mut state = self.state.borrow_mut();
        if state.is_lost || state.protocol.is_closed() {
            return Poll::Ready(Err(StreamEnd::Lost));
        }
        if state.is_confirmed {
            return Poll::Ready(Ok(()));
        }
        state.early.insert(id, context.waker().clone());
        Poll::Pending
    }

    /// Whether the connection is closed or lost, so that its streams are of no use.
    pub fn is_lost(&self) -> bool {
        let state = self.state.borrow();
        state.is_lost || state.protocol.is_closed()
    }

    /// Whether another process reads the packets of the client.
    pub fn is_left(&self) -> bool {
        self.endpoint.is_left()
    }

    pub(super) fn handle_event(&self, event: ConnectionEvent, has_early_data: bool) {
        self.received.set(self.received.get() + 1);
        let mut state = self.state.borrow_mut();
        if has_early_data && state.early_data == EarlyPackets::None {
            state.early_data = EarlyPackets::Arrived;
        }
        state.protocol.handle_event(event);
        drop(state);
        self.wake();
    }

    /// Lets the task that polls the connection send packets.
    fn wake(&self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Processes timeouts and received packets, wakes the tasks of streams, and sends packets. Ready
    /// when nothing of the connection is left.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        self.driver.set(Some(context.waker().clone()));
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        while state.protocol.poll_timeout().is_some_and(|due| due <= now) {
            state.protocol.handle_timeout(now);
        }
        self.exchange_events(&mut state);
        if self.poll_send(&mut state, context, now).is_ready() {
            // Sending may have made events.
            self.exchange_events(&mut state);
        }
        if state.protocol.is_drained() {
            return Poll::Ready(());
        }
        while let Some(due) = state.protocol.poll_timeout() {
            state.timer.reset(due);
            if Pin::new(&mut state.timer).poll(context).is_pending() {
                break;
            }
            // The timer's clock may be behind, but not ahead.
            state.protocol.handle_timeout(Instant::now());
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn exchange_events(&self, state: &mut State) {
        while let Some(event) = state.protocol.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                state.protocol.handle_event(event);
            }
        }
        while let Some(event) = state.protocol.poll() {
            state.note(event);
        }
        state.count_early_data();
        state.adapt_send_buffer();
    }

    /// Sends packets until there are none, the socket's buffer is full, or other tasks should run.
    fn poll_send(&self, state: &mut State, context: &mut Context<'_>, now: Instant) -> Poll<()> {
        let socket = self.endpoint.socket();
        for _ in 0..Http3::SENDS_BEFORE_YIELD {
            let output = &mut state.output;
            if let Some(writable) = &mut output.writable {
                if Pin::new(writable).poll(context).is_pending() {
                    return Poll::Pending;
                }
                output.writable = None;
            }
            let transmit = match output.transmit.take() {
                Some(transmit) => transmit,
                None => {
                    output.packets.clear();
                    let packets = &mut output.packets;
                    let segments = socket.segments();
                    match state.protocol.poll_transmit(now, segments, packets) {
                        Some(transmit) => transmit,
                        None => {
                            // Idle connections keep no buffer.
                            output.packets = Vec::new();
                            return Poll::Ready(());
                        }
                    }
                }
            };
            if !socket.send(&transmit, &output.packets) {
                output.transmit = Some(transmit);
                output.writable = Some(socket.writable());
            }
        }
        context.waker().wake_by_ref();
        Poll::Ready(())
    }

    /// Returns the next stream that the client has opened.
    pub fn accept(&self, direction: Dir) -> Option<StreamId> {
        self.state.borrow_mut().protocol.streams().accept(direction)
    }

    /// Opens a stream in one direction. Returns `None` if the client does not allow it (yet).
    pub fn open(&self) -> Option<StreamId> {
        let mut state = self.state.borrow_mut();
        state.protocol.streams().open(Dir::Uni)
    }

    /// Returns the next bytes of a stream, at most `most`; none at its end.
    pub(crate) fn poll_read(
        &self,
        context: &mut Context<'_>,
        id: StreamId,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, StreamEnd>> {
        let mut state = self.state.borrow_mut();
        let mut stream = state.protocol.recv_stream(id);
        let (chunk, announces) = match stream.read(true) {
            Ok(mut chunks) => {
                let chunk = chunks.next(most);
                (chunk, chunks.finalize().should_transmit())
            }
            Err(_) => return Poll::Ready(Err(StreamEnd::Reset)),
        };
        if announces {
            self.wake();
        }
        Poll::Ready(match chunk {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
            Err(ReadError::Reset(_)) => Err(StreamEnd::Reset),
            Err(ReadError::Blocked) if state.is_lost || state.protocol.is_closed() => {
                Err(StreamEnd::Lost)
            }
            Err(ReadError::Blocked) => {
                state.readers.insert(id, context.waker().clone());
                return Poll::Pending;
            }
        })
    }

    /// Writes some of `bytes`, and removes what is written.
    pub fn poll_write(
        &self,
        context: &mut Context<'_>,
        id: StreamId,
        bytes: &mut Bytes,
    ) -> Poll<Result<(), StreamEnd>> {
        let mut state = self.state.borrow_mut();
        if state.is_lost || state.protocol.is_closed() {
            return Poll::Ready(Err(StreamEnd::Lost));
        }
        let mut stream = state.protocol.send_stream(id);
        match stream.write_chunks(std::slice::from_mut(bytes)) {
            Ok(_) => {
                self.wake();
                Poll::Ready(Ok(()))
            }
            Err(WriteError::Blocked) => {
                state.writers.insert(id, context.waker().clone());
                Poll::Pending
            }
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                Poll::Ready(Err(StreamEnd::Reset))
            }
        }
    }

    /// Writes as much of `bytes` as flow control and the send buffer allow now, and removes that. After less than all,
    /// [`QuicConnection::poll_writable`] waits.
    pub(crate) fn write_now(&self, id: StreamId, bytes: &mut Bytes) -> Result<(), StreamEnd> {
        let mut context = Context::from_waker(Waker::noop());
        while !bytes.is_empty() {
            match self.poll_write(&mut context, id, bytes) {
                Poll::Ready(written) => written?,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    /// Waits until a write that was not admitted may be repeated.
    pub(crate) fn poll_writable(&self, context: &mut Context<'_>, id: StreamId) -> Poll<()> {
        match self.state.borrow_mut().writers.get_mut(&id) {
            Some(waker) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// Waits until the client gives a stream up: it resets its own direction, or wants nothing more of
    /// ours, or the connection is lost.
    pub(crate) fn poll_given_up(&self, context: &mut Context<'_>, id: StreamId) -> Poll<()> {
        if self.is_given_up(id) {
            return Poll::Ready(());
        }
        let mut state = self.state.borrow_mut();
        state.watchers.insert(id, context.waker().clone());
        Poll::Pending
    }

    /// Whether the client has given up a request, or is gone.
    pub fn is_given_up(&self, id: StreamId) -> bool {
        let mut state = self.state.borrow_mut();
        let stopped = state.protocol.send_stream(id).stopped();
        let reset = state.protocol.recv_stream(id).received_reset();
        let stopped = stopped.is_ok_and(|code| code.is_some());
        stopped || reset.is_ok_and(|code| code.is_some()) || state.is_lost
    }

    /// Ends our direction of a stream after what is written.
    pub fn finish(&self, id: StreamId) {
        let _ = self.state.borrow_mut().protocol.send_stream(id).finish();
        self.wake();
    }

    /// Aborts our direction of a stream.
    pub fn reset(&self, id: StreamId, code: u32) {
        let mut state = self.state.borrow_mut();
        let _ = state.protocol.send_stream(id).reset(code.into());
        self.wake();
    }

    /// Asks the client to send nothing more on a stream, and discards what it has sent.
    pub fn stop(&self, id: StreamId, code: u32) {
        let mut state = self.state.borrow_mut();
        let _ = state.protocol.recv_stream(id).stop(code.into());
        self.wake();
    }

    /// Forgets the tasks that wait for a stream.
    pub fn forget(&self, id: StreamId) {
        let mut state = self.state.borrow_mut();
        let State {
            readers,
            writers,
            watchers,
            early,
            ..
        } = &mut *state;
        for waiting in [readers, writers, watchers, early] {
            waiting.remove(&id);
        }
    }

    /// Returns the number of streams on which something is not acknowledged, or not finished.
    pub fn sending_streams(&self) -> usize {
        let mut state = self.state.borrow_mut();
        state.protocol.streams().send_streams()
    }

    /// Returns the number of datagrams received.
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// Lets the client show that it is still there.
    pub fn ping(&self) {
        self.state.borrow_mut().protocol.ping();
        self.wake();
    }

    /// Closes the connection. Later calls have no effect.
    pub fn close(&self, code: u32, reason: &'static str) {
        let mut state = self.state.borrow_mut();
        let code = VarInt::from_u32(code);
        let reason = Bytes::from_static(reason.as_bytes());
        congestion::open(&state.protocol);
        state.protocol.close(Instant::now(), code, reason);
        state.wake_all();
        self.wake();
    }
}

/// Closes the connection, as far as one packet can.
impl Drop for QuicConnection {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let now = Instant::now();
        let no_error = code::NO_ERROR.into();
        congestion::open(&state.protocol);
        state.protocol.close(now, no_error, Bytes::new());
        let packets = &mut state.output.packets;
        packets.clear();
        if let Some(transmit) = state.protocol.poll_transmit(now, 1, packets) {
            self.endpoint.socket().send(&transmit, packets);
        }
        self.endpoint.forget(self.handle);
    }
}

impl State {
    /// Wakes the tasks that an event concerns.
    fn note(&mut self, event: Event) {
        match event {
            Event::Connected => {
                (self.is_confirmed, self.handshake) = (true, None);
                self.early.drain().for_each(|(_, waker)| waker.wake());
            }
            Event::ConnectionLost { .. } => {
                (self.is_lost, self.handshake) = (true, None);
                self.wake_all();
            }
            Event::Stream(StreamEvent::Readable { id }) => {
                wake(&mut self.readers, id);
                wake(&mut self.watchers, id);
            }
            Event::Stream(StreamEvent::Writable { id }) => wake(&mut self.writers, id),
            Event::Stream(StreamEvent::Stopped { id, .. }) => {
                wake(&mut self.writers, id);
                wake(&mut self.watchers, id);
            }
            // The task that polls the connection accepts and opens streams after each event.
            Event::Stream(StreamEvent::Opened { .. } | StreamEvent::Available { .. }) => {}
            Event::Stream(StreamEvent::Finished { .. }) => {}
            Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
        }
    }

    /// Counts early data once it is known whether it was accepted.
    fn count_early_data(&mut self) {
        if self.early_data != EarlyPackets::Arrived {
            return;
        }
        let accepted = self.protocol.has_0rtt();
        // Known with the hello of the client.
        if accepted || self.protocol.crypto_session().handshake_data().is_some() {
            self.early_data = EarlyPackets::Counted;
            observe::quic::count(|quic| {
                if accepted {
                    quic.early_accepted += 1
                } else {
                    quic.early_rejected += 1
                }
            });
        }
    }

    fn wake_all(&mut self) {
        let readers = self.readers.drain();
        let all = readers.chain(self.writers.drain());
        all.chain(self.watchers.drain())
            .chain(self.early.drain())
            .for_each(|(_, waker)| waker.wake());
    }

    /// Lets as much of the responses wait for acknowledgement as the path takes, and twice that, so
    /// that the congestion window can grow.
    fn adapt_send_buffer(&mut self) {
        let window = self.protocol.congestion_state().window().saturating_mul(2);
        let window = window.clamp(Http3::SEND_BUFFER, Http3::SEND_BUFFER_MAX);
        if window != self.send_buffer {
            self.send_buffer = window;
            self.protocol.set_send_window(window);
            self.writers.drain().for_each(|(_, waker)| waker.wake());
        }
    }
}

fn wake(waiting: &mut HashMap<StreamId, Waker>, id: StreamId) {
    if let Some(waker) = waiting.remove(&id) {
        waker.wake();
    }
}
