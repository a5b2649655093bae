//! Step 1: connections.

use crate::connection::Connection;
use crate::stream::Stream;
use crate::worker::Worker;
use laio::ops::Accept;
use laio_rt::Descriptor;
use rustix::net::sockopt::{self, Timeout};
use std::cell::Cell;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// How long to leave the kernel's queue alone when descriptors or memory have run out.
const BREATHER: Duration = Duration::from_millis(100);

/// Takes connections until it is aborted, or, if it waits in the kernel itself, until the worker stops.
pub(crate) async fn accept(worker: Rc<Worker>, listener: Descriptor) {
    while !worker.is_stopping() {
        worker.room().await;
        match laio_rt::submit(Accept::new(listener.clone())).await {
            Ok((socket, peer)) => {
                let peer = peer.and_then(|peer| peer.inet()).map(|peer| peer.ip());
                start(&worker, socket, peer).await;
            }
            // The client is gone already; or descriptors or memory have run out, which gets better when
            // connections end.
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::CONNABORTED.raw_os_error()) => {}
            Err(_) if worker.is_stopping() => return,
            Err(_) => laio_rt::time::sleep(BREATHER).await,
        }
    }
}

async fn start(worker: &Rc<Worker>, socket: OwnedFd, peer: Option<IpAddr>) {
    let entered = match peer.zip(worker.limits().connections_per_address) {
        Some((peer, most)) => match worker.addresses.enter(peer, most) {
            Some(entered) => Some(entered),
            None => return, // closes it
        },
        None => None,
    };
    // Answers are written whole: waiting to merge them would only delay the last piece.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    let peer = peer.map_or_else(|| "-".into(), |peer| peer.to_string());
    let peer = peer.into_boxed_str();
    let idle = Rc::new(Cell::new(true));
    if !worker.is_sync() {
        let stream = Stream::Plain(Descriptor::from(socket));
        let connection = Connection::new(worker.clone(), stream, peer, idle.clone(), entered);
        worker.spawn(connection, idle);
        return;
    }
    // Each call waits in the kernel, so this connection is served before the next is taken, and the time-outs
    // are the socket's.
    let limits = worker.limits();
    let receive = limits
        .idle_time
        .min(limits.head_time)
        .max(Duration::from_millis(1));
    let send = limits.write_time.max(Duration::from_millis(1));
    let _ = sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(receive));
    let _ = sockopt::set_socket_timeout(&socket, Timeout::Send, Some(send));
    let _interruptible = worker.interruptible(&socket);
    worker.count();
    let stream = Stream::Plain(Descriptor::from(socket));
    Connection::new(worker.clone(), stream, peer, idle, entered)
        .serve()
        .await;
}
