//! Connections of a proxy that names its client in a header before all else, before TLS too (the PROXY protocol).

use super::Connection;
use laio_http::proxy_protocol::{Parsed, parse};
use laio_serve_base::addresses::Addresses;
use laio_serve_base::clients::Peer;
use laio_serve_base::observe;
use laio_serve_core::request::receive::receive;
use laio_serve_core::services::Services;
use laio_serve_net::socket::Expect;
use laio_serve_net::stream::Stream;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// What follows the header, and the client that it names.
struct Begun {
    source: Option<SocketAddr>,
    input: Vec<u8>,
}

impl Connection {
    /// Reads the header of a trusted proxy, and then serves the client that it names. `addresses` counts the
    /// connections of that client.
    pub(crate) async fn serve_behind_proxy(mut self, addresses: Arc<Addresses>) {
        let Some(Begun { source, input }) = self.read_proxy_header().await else {
            return;
        };
        let services = &self.services;
        self.peer = match source {
            Some(source) => services.trusted_proxies.named(source.ip()),
            // The proxy passes on the bytes of a client that it does not name, so these must not name one.
            None => Peer {
                is_trusted: false,
                ..self.peer
            },
        };
        let counted = source.is_some() && !self.peer.is_trusted;
        let address = self.peer.client.address.filter(|_| counted);
        if let Some((address, most)) = address.zip(services.limits.connections_per_address) {
            let Some(address_permit) = addresses.acquire(address, most) else {
                return;
            };
            self._address_permit = Some(address_permit);
        }
        match &self.stream {
            Stream::Tls(session) => session.borrow_mut().begin_with(input),
            _ => self.input = input,
        }
        // Boxed, because this future would contain the connection twice.
        Box::pin(self.serve()).await;
    }

    /// Reads the header, within the time for the head of a request.
    async fn read_proxy_header(&mut self) -> Option<Begun> {
        let services = self.services.clone();
        let clear = Stream::Plain(self.stream.socket()?);
        let deadline = services.contexts.now() + services.limits.head_time;
        self.receive_limit.reset(deadline);
        self.connection_state.mark_evictable();
        let mut input = Vec::new();
        loop {
            match parse(&input) {
                Ok(Parsed::Complete { source, length }) => {
                    self.connection_state.mark_not_evictable();
                    input.drain(..length);
                    return Some(Begun { source, input });
                }
                Ok(Parsed::Partial) => {}
                Err(error) => return refuse(&services, &self.peer, error),
            }
            let (contexts, before) = (&services.contexts, input.len());
            let limit = &mut self.receive_limit;
            input = match receive(contexts, &clear, input, Expect::Arrived, limit).await {
                // A proxy that only checks whether the server accepts connections.
                Ok(input) if input.is_empty() => return None,
                Ok(input) if input.len() == before => {
                    let text = "it ends within the header of the PROXY protocol";
                    return refuse(&services, &self.peer, text);
                }
                Ok(input) => input,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    let text =
                        "its header of the PROXY protocol did not arrive within --header-timeout";
                    return refuse(&services, &self.peer, text);
                }
                Err(_) => return None,
            };
        }
    }
}

/// Counts a connection that is closed because it has no valid header, and warns.
pub(crate) fn refuse<T>(services: &Services, peer: &Peer, why: impl Display) -> Option<T> {
    observe::refused_proxy_header();
    let from = match &*peer.client.name {
        "-" => "a Unix socket",
        name => name,
    };
    let text = format!("closed a connection from {from} to an address with the prefix proxy");
    let error = io::Error::other(why.to_string());
    services.proxy_header_warning.warn(&text, &error);
    None
}
