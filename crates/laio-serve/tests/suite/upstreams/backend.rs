//! An upstream server that a test controls, connection by connection.

use crate::common;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) struct Backend {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A connection that the backend has accepted.
pub(crate) struct Peer {
    stream: BufReader<TcpStream>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Backend {
    /// Handles each connection on a thread of its own.
    pub(crate) fn start(handle: impl Fn(&mut Peer) + Send + Sync + 'static) -> Backend {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, heads) = (Arc::<AtomicUsize>::default(), Arc::default());
        let stop = Arc::<AtomicBool>::default();
        let handle = Arc::new(handle);
        let thread = std::thread::spawn({
            let (connections, heads, stop) =
                (connections.clone(), Arc::clone(&heads), stop.clone());
            move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    connections.fetch_add(1, Ordering::SeqCst);
                    let (handle, heads) = (handle.clone(), Arc::clone(&heads));
                    let stream = stream.unwrap();
                    stream
                        .set_read_timeout(Some(Duration::from_secs(60)))
                        .unwrap();
                    let mut peer = Peer {
                        stream: BufReader::new(stream),
                        heads,
                    };
                    std::thread::spawn(move || handle(&mut peer));
                }
            }
        });
        Backend {
            address,
            connections,
            heads,
            stop,
            thread: Some(thread),
        }
    }

    /// Answers every request with the same text.
    pub(crate) fn answering(answer: &'static str) -> Backend {
        Backend::start(move |peer| {
            while peer.request().is_some() {
                peer.send(answer);
            }
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Compares the head of the last request with items of an answer as in a table: its fields, and what its
    /// text has and lacks.
    #[track_caller]
    pub(crate) fn got(&self, items: &str) {
        let head = self.heads().pop().expect("a request");
        let body = head.clone().into_bytes();
        let status = 0;
        common::Response { status, head, body }.is(items);
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Formats an address as in `/proc/net/tcp`.
fn shown(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else {
        unreachable!("the backend listens at an address of IPv4");
    };
    let number = u32::from_ne_bytes(address.ip().octets());
    format!("{number:08X}:{:04X}", address.port())
}

impl Peer {
    /// Returns the head of the next request, or none when the connection has ended.
    pub(crate) fn request(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match self.stream.read_line(&mut head) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
        self.heads.lock().unwrap().push(head.clone());
        Some(head)
    }

    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Returns none when the connection ends first.
    pub(crate) fn try_read(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Whether the peer has closed the connection; waits for it.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// Shuts down the sending side, and waits until the peer's kernel has acknowledged it.
    pub(crate) fn finish(&mut self) {
        let stream = self.stream.get_mut();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let ends = [stream.local_addr(), stream.peer_addr()];
        let [own, other] = ends.map(|end| shown(end.unwrap()));
        common::until("the end has arrived", || {
            let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
            let states = table.lines().filter_map(|line| {
                let mut fields = line.split_whitespace().skip(1);
                let ends = [fields.next()?, fields.next()?];
                (ends == [&*own, &*other]).then(|| fields.next())?
            });
            // Until it is acknowledged the state is FIN_WAIT1.
            states.into_iter().all(|state| state != "04")
        });
    }

    /// Sends as much as the socket buffer accepts, and returns the number of bytes.
    pub(crate) fn send_some(&mut self, bytes: &[u8]) -> usize {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let sent = stream.write(bytes);
        stream.set_nonblocking(false).unwrap();
        match sent {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            sent => sent.unwrap(),
        }
    }

    /// Ignores errors, because the reader may have closed.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes);
    }

    /// Whether sending succeeded.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.get_mut().write_all(bytes.as_ref()).is_ok()
    }
}
