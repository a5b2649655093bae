//! Step 1: connections.

use crate::connection::Connection;
use crate::worker::Worker;
use laio::ops::Accept;
use laio_rt::Descriptor;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// How long to leave the kernel's queue alone when descriptors or memory have run out.
const BREATHER: Duration = Duration::from_millis(100);

/// Takes connections until it is aborted.
pub(crate) async fn accept(worker: Rc<Worker>, listener: Descriptor) {
    loop {
        worker.room().await;
        match laio_rt::submit(Accept::new(listener.clone())).await {
            Ok((socket, peer)) => {
                // Answers are written whole: waiting to merge them would only delay the last piece.
                let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                let peer = peer.and_then(|peer| peer.inet());
                let peer = peer.map_or_else(|| "-".into(), |peer| peer.ip().to_string());
                let idle = Rc::new(Cell::new(true));
                let connection =
                    Connection::new(worker.clone(), socket, peer.into_boxed_str(), idle.clone());
                worker.spawn(connection, idle);
            }
            // The client is gone already; or descriptors or memory have run out, which gets better when
            // connections end.
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::CONNABORTED.raw_os_error()) => {}
            Err(_) => laio_rt::time::sleep(BREATHER).await,
        }
    }
}
