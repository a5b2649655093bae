//! Accepting connections.

use crate::connection::Connection;
use crate::connection::proxy_header;
use crate::connection::running::Connections;
use crate::connection::state::ConnectionState;
use laio_serve_base::addresses::Addresses;
use laio_serve_base::messages::print;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::{IoStep, Limits};
use laio_serve_core::request::redirect_to_https::RedirectToHttps;
use laio_serve_core::services::Services;
use laio_serve_net::resource_exhaustion::ExhaustionWarning;
use laio_serve_net::stream::Stream;
use laio_serve_net::tls::session::Session;

use laio::ops::{Accept, Readiness};
use laio_rt::Descriptor;
use laio_rt::future::{Either, race};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustls::ServerConfig;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long to stop accepting when descriptors or memory are exhausted.
const EXHAUSTION_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket of a worker, and what its connections need.
pub(crate) struct Acceptor {
    pub(crate) services: Rc<Services>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) listener: Descriptor,
    /// Connections begin with the header of a trusted proxy, which names the client.
    pub(crate) proxy_header: bool,
    /// The TLS configuration, if the connections are encrypted.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Redirects the requests of unencrypted connections to https.
    pub(crate) to_https: Option<Rc<RedirectToHttps>>,
    /// The value of `Alt-Svc` in the responses.
    pub(crate) alt_svc: Option<Rc<str>>,
}

/// Accepts connections until the worker stops.
///
/// The socket is non-blocking except with the back end sync. So one loop drains the listen queue,
/// and `accept` never blocks on a connection that another worker took.
pub(crate) async fn accept(acceptor: Acceptor) {
    let Acceptor {
        services,
        connections,
        listener,
        ..
    } = &acceptor;
    // `warned`: resource exhaustion was logged; log the recovery too.
    let (exhaustion_warning, mut warned) = (ExhaustionWarning::default(), false);
    let mut accepts_left = Limits::ACCEPTS_AFTER_STOP;
    loop {
        race(
            connections.wait_for_slot(listener),
            connections.wait_until_draining(),
        )
        .await;
        if connections.is_draining() {
            if accepts_left == 0 {
                return;
            }
            accepts_left -= 1;
        }
        let accepted = services
            .contexts
            .submit(IoStep::Accept, Accept::new(listener.clone()))
            .await;
        match accepted {
            Ok((socket, peer)) => {
                #[cfg(test)]
                tests::panic_if_asked();
                if std::mem::take(&mut warned) {
                    print("accepting connections again");
                }
                let peer = peer.and_then(|peer| peer.inet()).map(|peer| peer.ip());
                start(&acceptor, socket, peer).await;
            }
            Err(error) if connections.is_draining() => {
                let aborted = is(&error, Errno::CONNABORTED);
                if !aborted && !services.slots.evict_for_descriptor(&error).await {
                    return;
                }
            }
            Err(error) if is(&error, Errno::AGAIN) => {
                let readable = Readiness::readable(listener.clone());
                let readable = services.contexts.submit(IoStep::Accept, readable);
                let readable = race(readable, connections.wait_until_draining()).await;
                // No thread can be started that would wait.
                if let Either::Left(Err(error)) = readable {
                    warned |= pause(connections, &exhaustion_warning, &error).await;
                }
            }
            // The client has closed the connection already.
            Err(error) if is(&error, Errno::CONNABORTED) => {}
            // Descriptors or memory are exhausted until connections end.
            Err(error) => {
                if services.slots.evict_for_descriptor(&error).await {
                    continue;
                }
                warned |= pause(connections, &exhaustion_warning, &error).await;
            }
        }
    }
}

/// Waits a moment after an error that other connections may end. Returns whether it printed a warning.
async fn pause(connections: &Connections, warning: &ExhaustionWarning, error: &io::Error) -> bool {
    let warned = warning.warn("cannot accept connections for now", error);
    let moment = laio_rt::time::sleep(EXHAUSTION_PAUSE);
    race(moment, connections.wait_until_draining()).await;
    warned
}

/// Prepares a worker's share of a listening socket.
///
/// # Errors
/// None are known for listening sockets.
pub(crate) fn prepare(listener: &OwnedFd, sync: bool) -> io::Result<()> {
    // Connections inherit it. Responses are written whole, so Nagle's algorithm would only delay the
    // last segment.
    let _ = sockopt::set_tcp_nodelay(listener, true);
    Ok(rustix::io::ioctl_fionbio(listener, !sync)?)
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

async fn start(acceptor: &Acceptor, socket: OwnedFd, peer: Option<IpAddr>) {
    observe::connected();
    let begun = observe::begin();
    let Acceptor {
        services,
        connections,
        ..
    } = acceptor;
    let limits = &services.limits;
    let peer = services.trusted_proxies.peer(peer);
    if acceptor.proxy_header && !peer.is_trusted {
        let why = "its network is not one of --trust-proxy";
        proxy_header::refuse::<()>(services, &peer, why);
        return;
    }
    // The connections of a trusted proxy are those of many clients.
    let address = peer.client.address.filter(|_| !peer.is_trusted);
    let address_permit = match address.zip(limits.connections_per_address) {
        Some((address, most)) => match acceptor.addresses.acquire(address, most) {
            Some(address_permit) => Some(address_permit),
            None => return, // closes it
        },
        None => None,
    };
    if let Some(bytes) = limits.send_buffer {
        let _ = sockopt::set_socket_send_buffer_size(&socket, bytes);
    }
    let connection = |socket, connection_state| {
        let stream = stream(socket, acceptor.tls.as_ref())?;
        let (services, connections) = (services.clone(), connections.clone());
        io::Result::Ok(
            Connection::new(
                services,
                connections,
                stream,
                peer,
                connection_state,
                acceptor.to_https.clone(),
                address_permit,
            )
            .with_alt_svc(acceptor.alt_svc.clone()),
        )
    };
    if !services.contexts.sync {
        let connection_state = ConnectionState::new(Some(services.slots.admit(socket.as_raw_fd())));
        let Ok(connection) = connection(socket, connection_state.clone()) else {
            return;
        };
        let socket = connection.socket();
        match acceptor.proxy_header.then(|| acceptor.addresses.clone()) {
            None => connections.spawn(connection_state, socket, connection.serve()),
            Some(addresses) => {
                let serve = connection.serve_behind_proxy(addresses);
                connections.spawn(connection_state, socket, serve);
            }
        }
        observe::end(Stage::Accept, begun);
        return;
    }
    // Each call blocks, so this connection is served before the next is accepted, and the socket's
    // own timeouts apply.
    let receive = limits
        .idle_time
        .min(limits.head_time)
        .max(Duration::from_millis(1));
    let send = limits.write_time.max(Duration::from_millis(1));
    let _ = sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(receive));
    let _ = sockopt::set_socket_timeout(&socket, Timeout::Send, Some(send));
    let _interruptible = connections.interruptible(&socket);
    connections.next_number();
    let Ok(connection) = connection(socket, ConnectionState::new(None)) else {
        return;
    };
    match acceptor.proxy_header.then(|| acceptor.addresses.clone()) {
        None => connection.serve().await,
        Some(addresses) => connection.serve_behind_proxy(addresses).await,
    }
    observe::publish();
}

/// Returns the stream of a connection, encrypted if there is a TLS configuration.
fn stream(socket: OwnedFd, tls: Option<&Arc<ServerConfig>>) -> io::Result<Stream> {
    let socket = Descriptor::from(socket);
    match tls {
        Some(config) => Ok(Stream::encrypted(Session::new(socket, config.clone())?)),
        None => Ok(Stream::Plain(socket)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{LogTarget, Options, Server};
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    static PANIC: AtomicBool = AtomicBool::new(false);

    pub(super) fn panic_if_asked() {
        assert!(!PANIC.swap(false, Ordering::SeqCst), "as the test asks");
    }

    #[test]
    fn a_worker_that_panics_is_started_again() {
        let options = Options {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0)).into()],
            workers: Some(1),
            log: LogTarget::Off,
            ..Options::default()
        };
        let server = Server::start(options).unwrap();
        let get = || {
            let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let mut answer = String::new();
            let request = b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let answered = stream.write_all(request);
            answered
                .and_then(|()| stream.read_to_string(&mut answer))
                .map(|_| answer)
        };
        assert!(get().unwrap().starts_with("HTTP/1.1 404"));
        for _ in 0..2 {
            PANIC.store(true, Ordering::SeqCst);
            // The server closes or resets the connection on which the worker panics.
            assert!(get().map_or(true, |answer| answer.is_empty()));
            assert!(get().unwrap().starts_with("HTTP/1.1 404"));
        }
        server.control().stop();
        server.wait().unwrap();
    }
}
