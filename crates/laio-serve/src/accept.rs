//! Accepting connections.

use crate::connection::Connection;
use crate::io_contexts;
use crate::messages::print;
use crate::observe::{self, Stage};
use crate::options::{IoStep, Limits};
use crate::resource_exhaustion::ExhaustionWarning;
use crate::worker::{ConnectionState, Worker};
use laio::ops::{Accept, Readiness};
use laio_rt::Descriptor;
use laio_rt::future::race;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// How long to stop accepting when descriptors or memory are exhausted.
const EXHAUSTION_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the worker stops.
///
/// The socket is non-blocking except with the back end sync. So one loop drains the listen queue,
/// and `accept` never blocks on a connection that another worker took.
pub(crate) async fn accept(worker: Rc<Worker>, listener: Descriptor, tls: bool) {
    // `warned`: resource exhaustion was logged; log the recovery too.
    let (exhaustion_warning, mut warned) = (ExhaustionWarning::default(), false);
    let mut last = Limits::ACCEPTS_AFTER_STOP;
    loop {
        race(
            worker.wait_for_slot(&listener),
            worker.wait_until_draining(),
        )
        .await;
        if worker.is_draining() {
            if last == 0 {
                return;
            }
            last -= 1;
        }
        let accepted = io_contexts::submit(IoStep::Accept, Accept::new(listener.clone())).await;
        match accepted {
            Ok((socket, peer)) => {
                #[cfg(test)]
                tests::panic_if_asked();
                if std::mem::take(&mut warned) {
                    print("accepting connections again");
                }
                let peer = peer.and_then(|peer| peer.inet()).map(|peer| peer.ip());
                start(&worker, socket, peer, tls).await;
            }
            Err(error) if worker.is_draining() => {
                let aborted = is(&error, Errno::CONNABORTED);
                if !aborted && !worker.evict_for_descriptor(&error).await {
                    return;
                }
            }
            Err(error) if is(&error, Errno::AGAIN) => {
                let readable = Readiness::readable(listener.clone());
                let readable = io_contexts::submit(IoStep::Accept, readable);
                race(readable, worker.wait_until_draining()).await;
            }
            // The client has closed the connection already.
            Err(error) if is(&error, Errno::CONNABORTED) => {}
            // Descriptors or memory are exhausted until connections end.
            Err(error) => {
                if worker.evict_for_descriptor(&error).await {
                    continue;
                }
                warned |= exhaustion_warning.warn("cannot accept connections for now", &error);
                let _ = race(
                    laio_rt::time::sleep(EXHAUSTION_PAUSE),
                    worker.wait_until_draining(),
                )
                .await;
            }
        }
    }
}

/// Prepares a worker's share of a listening socket.
///
/// # Errors
/// None are known for listening sockets.
pub(crate) fn prepare(listener: &OwnedFd, sync: bool) -> io::Result<()> {
    // Connections inherit it. Answers are written whole, so Nagle's algorithm would only delay the
    // last segment.
    let _ = sockopt::set_tcp_nodelay(listener, true);
    Ok(rustix::io::ioctl_fionbio(listener, !sync)?)
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

async fn start(worker: &Rc<Worker>, socket: OwnedFd, peer: Option<IpAddr>, tls: bool) {
    observe::connected();
    let begun = observe::begin();
    let address_permit = match peer.zip(worker.limits().connections_per_address) {
        Some((peer, most)) => match worker.addresses.acquire(peer, most) {
            Some(address_permit) => Some(address_permit),
            None => return, // closes it
        },
        None => None,
    };
    if let Some(bytes) = worker.limits().send_buffer {
        let _ = sockopt::set_socket_send_buffer_size(&socket, bytes);
    }
    let peer = peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string());
    let peer = Rc::from(peer);
    if !worker.is_sync() {
        let connection_state = ConnectionState::new(Some(worker.slots.admit(socket.as_raw_fd())));
        let Ok(stream) = worker.stream(socket, tls) else {
            return;
        };
        let connection = Connection::new(
            worker.clone(),
            stream,
            peer,
            connection_state.clone(),
            address_permit,
        );
        worker.spawn(connection, connection_state);
        observe::end(Stage::Accept, begun);
        return;
    }
    // Each call blocks, so this connection is served before the next is accepted, and the socket's
    // own timeouts apply.
    let limits = worker.limits();
    let receive = limits
        .idle_time
        .min(limits.head_time)
        .max(Duration::from_millis(1));
    let send = limits.write_time.max(Duration::from_millis(1));
    let _ = sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(receive));
    let _ = sockopt::set_socket_timeout(&socket, Timeout::Send, Some(send));
    let _interruptible = worker.interruptible(&socket);
    worker.next_number();
    let Ok(stream) = worker.stream(socket, tls) else {
        return;
    };
    let connection_state = ConnectionState::new(None);
    Connection::new(
        worker.clone(),
        stream,
        peer,
        connection_state,
        address_permit,
    )
    .serve()
    .await;
    observe::publish();
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
