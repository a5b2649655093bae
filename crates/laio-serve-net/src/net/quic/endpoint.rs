//! The connections of a worker at one address: receives their packets.

use super::super::arrivals;
use super::connection::QuicConnection;
use super::connection_id::{begins_connection, has_early_data};
use super::routes::{Datagram, Route, Routes};
use super::socket::{ReceiveBuffers, UdpSocket};
use crate::io_contexts::IoContexts;
use laio_rt::future::{Either, race};
use laio_serve_base::options::Http3;
pub use quinn_proto::Incoming;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, ServerConfig, Transmit,
};
use rustix::net::sockopt;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to stop receiving after an error, which an exhausted machine may cause.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// The connections of QUIC on a socket.
pub struct Endpoint {
    socket: UdpSocket,
    route: Route,
    protocol: RefCell<quinn_proto::Endpoint>,
    connections: RefCell<HashMap<ConnectionHandle, Weak<QuicConnection>>>,
    /// The number of handshakes in progress.
    handshakes: Rc<Cell<usize>>,
    /// Whether the datagram in progress has early data.
    has_early_data: Cell<bool>,
}

/// What an endpoint asks and tells its worker.
struct Handlers<HandsOver, NewConnection> {
    /// Whether other endpoints accept the connections.
    hands_over: HandsOver,
    incoming: NewConnection,
}

/// Counts a handshake until it is dropped.
pub(super) struct Handshake(Rc<Cell<usize>>);

impl Endpoint {
    /// Creates the endpoint of a bound socket.
    ///
    /// # Errors
    /// Those of socket options that every kernel has.
    pub fn new(
        socket: OwnedFd,
        config: Arc<ServerConfig>,
        routes: &Arc<Routes>,
    ) -> io::Result<Rc<Endpoint>> {
        // All connections of the worker share the buffers. The kernel limits them.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, Http3::SOCKET_BUFFER);
        let _ = sockopt::set_socket_send_buffer_size(&socket, Http3::SOCKET_BUFFER);
        let socket = UdpSocket::new(socket)?;
        let route = routes.add(socket.local());
        let whole = socket.sends_whole();
        let protocol = quinn_proto::Endpoint::new(route.config(), Some(config), whole, None);
        Ok(Rc::new(Endpoint {
            socket,
            route,
            protocol: RefCell::new(protocol),
            connections: RefCell::default(),
            handshakes: Rc::default(),
            has_early_data: Cell::new(false),
        }))
    }

    /// Receives packets, and calls `incoming` for each new connection. Does not end. After
    /// `others_receive` it receives only what other endpoints pass on. After `others_end` it receives
    /// everything again. While `hands_over`, it passes new connections to an endpoint that accepts them.
    pub async fn receive(
        self: Rc<Self>,
        contexts: &IoContexts,
        (others_receive, others_end): (impl Future<Output = ()>, impl Future<Output = ()>),
        hands_over: impl Fn() -> bool,
        incoming: impl Fn(&Rc<Endpoint>, Incoming),
    ) {
        let handlers = Handlers {
            hands_over,
            incoming,
        };
        // In this order, because the endpoint takes no packet from the socket once others receive.
        race(
            others_receive,
            self.receive_from_socket(contexts, &handlers),
        )
        .await;
        self.route.retire();
        let passed = async {
            loop {
                let passed = self.route.passed().await;
                self.handle_all(passed, &handlers);
            }
        };
        race(passed, others_end).await;
        self.route.resume();
        self.receive_from_socket(contexts, &handlers).await;
    }

    async fn receive_from_socket(
        self: &Rc<Self>,
        contexts: &IoContexts,
        handlers: &Handlers<impl Fn() -> bool, impl Fn(&Rc<Endpoint>, Incoming)>,
    ) {
        let mut buffers = ReceiveBuffers::new();
        let mut datagrams = Vec::new();
        loop {
            for _ in 0..Http3::RECEIVES_BEFORE_YIELD {
                let received = self.socket.receive(&mut buffers, |datagram| {
                    datagrams.extend(self.route.pass(datagram));
                });
                self.handle_all(datagrams.drain(..), handlers);
                match received {
                    Ok(()) => arrivals::note(laio_rt::turn()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        let readable = self.socket.readable(contexts);
                        if let Either::Right(passed) = race(readable, self.route.passed()).await {
                            self.handle_all(passed, handlers);
                        }
                    }
                    Err(_) => laio_rt::time::sleep(ERROR_PAUSE).await,
                }
            }
            self.handle_all(self.route.passed_now(), handlers);
            laio_rt::yield_now().await;
        }
    }

    fn handle_all(
        self: &Rc<Self>,
        datagrams: impl IntoIterator<Item = Datagram>,
        handlers: &Handlers<impl Fn() -> bool, impl Fn(&Rc<Endpoint>, Incoming)>,
    ) {
        let mut response = Vec::new();
        for datagram in datagrams {
            response.clear();
            let may_pass = begins_connection(&datagram.data)
                && (self.route.is_retired() || (handlers.hands_over)());
            let kept = may_pass.then(|| datagram.clone());
            self.has_early_data.set(has_early_data(&datagram.data));
            let Datagram {
                remote,
                local,
                ecn,
                data,
            } = datagram;
            let now = Instant::now();
            let event =
                self.protocol
                    .borrow_mut()
                    .handle(now, remote, local, ecn, data, &mut response);
            match event {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    let connection = self.connections.borrow().get(&handle).cloned();
                    if let Some(connection) = connection.and_then(|it| it.upgrade()) {
                        connection.handle_event(event, self.has_early_data.get());
                    }
                }
                Some(DatagramEvent::NewConnection(new)) => {
                    if kept.is_some_and(|datagram| self.route.pass_to_successor(datagram)) {
                        self.ignore(new);
                    } else {
                        (handlers.incoming)(self, new);
                    }
                }
                Some(DatagramEvent::Response(transmit)) => self.respond(&transmit, &response),
                None => {}
            }
        }
    }

    /// Sends a packet that belongs to no connection. It is lost if the socket's buffer is full.
    fn respond(&self, transmit: &Transmit, packet: &[u8]) {
        self.socket.send(transmit, packet);
    }

    /// Accepts a connection. Returns `None` if its first packet is invalid.
    pub fn accept(self: &Rc<Self>, incoming: Incoming) -> Option<Rc<QuicConnection>> {
        let mut response = Vec::new();
        let now = Instant::now();
        let accepted = self
            .protocol
            .borrow_mut()
            .accept(incoming, now, &mut response, None);
        match accepted {
            Ok((handle, protocol)) => {
                self.handshakes.set(self.handshakes.get() + 1);
                let handshake = Handshake(self.handshakes.clone());
                let has_early_data = self.has_early_data.get();
                let connection =
                    QuicConnection::new(self.clone(), handle, protocol, handshake, has_early_data);
                let entry = Rc::downgrade(&connection);
                self.connections.borrow_mut().insert(handle, entry);
                Some(connection)
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.respond(&transmit, &response);
                }
                None
            }
        }
    }

    /// Refuses a connection.
    pub fn refuse(&self, incoming: Incoming) {
        let mut response = Vec::new();
        let transmit = self.protocol.borrow_mut().refuse(incoming, &mut response);
        self.respond(&transmit, &response);
    }

    /// Lets the client show that it receives at its address. Ignores it if it has shown that already.
    pub fn retry(&self, incoming: Incoming) {
        let mut response = Vec::new();
        let retried = self.protocol.borrow_mut().retry(incoming, &mut response);
        match retried {
            Ok(transmit) => self.respond(&transmit, &response),
            Err(error) => self.ignore(error.into_incoming()),
        }
    }

    /// Does not answer a connection.
    pub fn ignore(&self, incoming: Incoming) {
        self.protocol.borrow_mut().ignore(incoming);
    }

    /// Returns the number of handshakes in progress.
    pub fn handshakes(&self) -> usize {
        self.handshakes.get()
    }

    /// Returns the address of the socket.
    pub(super) fn local(&self) -> SocketAddr {
        self.socket.local()
    }

    pub(super) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether another process reads the packets.
    pub(super) fn is_left(&self) -> bool {
        self.route.are_left()
    }

    /// Passes an event of a connection to the protocol, which may answer.
    pub(super) fn handle_event(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        if event.is_drained() {
            self.connections.borrow_mut().remove(&handle);
        }
        self.protocol.borrow_mut().handle_event(handle, event)
    }

    /// Forgets a connection that ends without the usual pause, if it is not forgotten yet.
    pub(super) fn forget(&self, handle: ConnectionHandle) {
        if self.connections.borrow().contains_key(&handle) {
            self.handle_event(handle, EndpointEvent::drained());
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
