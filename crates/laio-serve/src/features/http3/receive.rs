//! Receiving the packets of QUIC connections, and accepting those that are new.

use super::connection;
use super::generations::Http3Generation;
use crate::connection::running::Connections;
use crate::connection::state::ConnectionState;
use crate::connection::streams::Streams;
use crate::features::feature::DatagramSockets;
use laio_rt::JoinHandle;
use laio_serve_base::addresses::Addresses;
use laio_serve_base::observe;
use laio_serve_base::options::Http3;
use laio_serve_core::services::Services;
use laio_serve_net::idle_eviction::ConnectionSlots;
use laio_serve_net::memory::connection::ConnectionMemory;
use laio_serve_net::quic::config::ServerConfig;
use laio_serve_net::quic::endpoint::{Endpoint, Incoming};
use laio_serve_net::quic::routes::Routes;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// What the QUIC connections of a worker need.
#[derive(Clone)]
struct Receiver {
    http3: Http3,
    services: Rc<Services>,
    connections: Rc<Connections>,
    addresses: Arc<Addresses>,
    /// The slots of QUIC connections, which have no descriptors.
    slots: Arc<ConnectionSlots>,
}

/// The number of the descriptor of a QUIC connection, for its slot.
const NO_DESCRIPTOR: i32 = 0;

/// Starts to receive from the sockets of a worker.
///
/// # Errors
/// If a socket option that every kernel has fails.
pub(super) fn receive(
    generation: &Http3Generation,
    worker: DatagramSockets,
) -> io::Result<Vec<JoinHandle<()>>> {
    let receiver = Receiver {
        http3: generation.http3.clone(),
        services: worker.services,
        connections: worker.connections,
        addresses: worker.addresses,
        slots: Arc::default(),
    };
    let sockets = worker.sockets.into_iter();
    let start = |socket| receiver.start(socket, generation.config.clone(), &generation.routes);
    sockets.map(start).collect()
}

impl Receiver {
    /// Starts to receive from a socket. The task does not end, because the connections need it until
    /// the worker ends.
    ///
    /// # Errors
    /// If a socket option that every kernel has fails.
    fn start(
        &self,
        socket: OwnedFd,
        config: Arc<ServerConfig>,
        routes: &Arc<Routes>,
    ) -> io::Result<JoinHandle<()>> {
        let endpoint = Endpoint::new(socket, config, routes)?;
        let receiver = self.clone();
        Ok(laio_rt::spawn(async move {
            let contexts = &receiver.services.contexts;
            let others_receive = receiver.connections.wait_for_hand_over();
            let others_end = receiver.connections.wait_for_stop();
            let others = (others_receive, others_end);
            let hands_over = || receiver.connections.hands_over();
            endpoint
                .receive(contexts, others, hands_over, |endpoint, incoming| {
                    receiver.accept(endpoint, incoming);
                })
                .await;
        }))
    }

    /// Accepts a connection, unless a limit is reached.
    fn accept(&self, endpoint: &Rc<Endpoint>, incoming: Incoming) {
        let (limits, connections) = (&self.services.limits, &self.connections);
        let http3 = &self.http3;
        if connections.hands_over() {
            // Another process accepts connections. It gets the next packet of this client.
            return endpoint.ignore(incoming);
        }
        if connections.is_draining() {
            return endpoint.refuse(incoming);
        }
        let refused = || observe::quic::count(|quic| quic.refused += 1);
        let handshakes = endpoint.handshakes();
        if handshakes >= http3.handshakes {
            refused();
            return endpoint.ignore(incoming);
        }
        // A forged address must neither count for its owner nor take the place of another client.
        let must_show_address = handshakes >= http3.retry_from
            || limits.connections_per_address.is_some()
            || connections.is_full();
        if must_show_address && !incoming.remote_address_validated() {
            observe::quic::count(|quic| quic.retries += 1);
            return endpoint.retry(incoming);
        }
        let peer = incoming.remote_address().ip();
        let peer = self.services.trusted_proxies.peer(Some(peer));
        let address = peer.client.address.filter(|_| !peer.is_trusted);
        let address_permit = match address.zip(limits.connections_per_address) {
            Some((address, most)) => match self.addresses.acquire(address, most) {
                Some(address_permit) => Some(address_permit),
                None => {
                    refused();
                    return endpoint.refuse(incoming);
                }
            },
            None => None,
        };
        if !connections.has_room() {
            refused();
            return endpoint.refuse(incoming);
        }
        let Some(quic) = endpoint.accept(incoming) else {
            return;
        };
        observe::connected();
        observe::quic::count(|quic| quic.connections += 1);
        let connection_state = ConnectionState::new(Some(self.slots.admit(NO_DESCRIPTOR)));
        let memory = ConnectionMemory::new(
            &self.services.memory,
            limits.head_bytes,
            Http3::SEND_BUFFER_MAX,
        );
        let streams = Streams {
            services: self.services.clone(),
            memory,
            connections: connections.clone(),
            peer,
            to_https: None,
            alt_svc: None,
            _address_permit: address_permit,
        };
        let serve = connection::serve(
            Rc::new(streams),
            quic,
            http3.clone(),
            connection_state.clone(),
        );
        connections.spawn(connection_state, None, serve);
    }
}
