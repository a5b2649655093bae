//! The admin server: on an address and a thread of its own, so that it answers while the workers
//! are busy, and its paths do not collide with the site's.

use super::{Observer, page, prometheus};
use laio_http::{Limits, Method, Output, Parsed, ResponseHead, Status, parse};
use rustix::net::Shutdown;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for receiving a request, and for sending the response. One client is served at a time.
const TIME: Duration = Duration::from_secs(5);

/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers `/metrics` (Prometheus), `/` (a page) and `/status.json`, until dropped.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    listener: Arc<TcpListener>,
}

impl Admin {
    /// Listens at an address and serves the observer's statistics.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn start(address: SocketAddr, observer: Observer) -> io::Result<Admin> {
        let listener = TcpListener::bind(address).map_err(|error| {
            let text = format!("cannot listen on {address} for --admin: {error}");
            io::Error::new(error.kind(), text)
        })?;
        let address = listener.local_addr()?;
        let listener = Arc::new(listener);
        let listening = listener.clone();
        laio::thread::start("laio-admin", "the thread that serves --admin", move || {
            for client in listening.incoming() {
                match client {
                    // A client that disconnects or times out gets no response.
                    Ok(client) => drop(serve(client, &observer)),
                    // `drop` has shut the listener down.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                    // Descriptors may be exhausted for the moment.
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        })?;
        Ok(Admin { address, listener })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        // Ends the thread, and frees the address.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
    }
}

fn serve(mut client: TcpStream, observer: &Observer) -> io::Result<()> {
    let end = Instant::now() + TIME;
    let mut input = Vec::new();
    loop {
        match parse(&input, &Limits::DEFAULT) {
            Ok(Parsed::Complete { request, .. }) => {
                let sends = request.method != Method::Head;
                let reads = matches!(request.method, Method::Get | Method::Head);
                let path = match &request.path {
                    Ok(path) if reads => path.as_str(),
                    _ => "",
                };
                return client.write_all(&answer(path, sends, observer));
            }
            Ok(Parsed::Partial) => {}
            Err(rejection) => return client.write_all(&error(rejection.status())),
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left))?;
        client.set_write_timeout(Some(TIME))?;
        let mut chunk = [0; 2048];
        match client.read(&mut chunk)? {
            0 => return Ok(()),
            count => input.extend_from_slice(&chunk[..count]),
        }
    }
}

fn answer(path: &str, sends: bool, observer: &Observer) -> Vec<u8> {
    let (seen, age) = (observer.seen(), observer.age());
    let (content_type, body) = match path {
        "/metrics" => (
            "text/plain; version=0.0.4; charset=utf-8",
            prometheus::text(&seen, age),
        ),
        "/" => ("text/html; charset=utf-8", page::html(&seen, age)),
        "/status.json" => ("application/json", page::json(&seen, age)),
        "" => return error(Status::METHOD_NOT_ALLOWED),
        _ => return error(Status::NOT_FOUND),
    };
    let mut out = Output::default();
    ResponseHead::new(&mut out, Status::OK)
        .header("Content-Type", content_type.as_bytes())
        .content_length(body.len() as u64)
        .cache_control("no-store")
        .header("Connection", b"close")
        .finish();
    if sends {
        out.bytes.extend_from_slice(body.as_bytes());
    }
    out.bytes
}

fn error(status: Status) -> Vec<u8> {
    let mut out = Output::default();
    let head = ResponseHead::new(&mut out, status).content_length(0);
    let head = match status {
        Status::METHOD_NOT_ALLOWED => head.allow("GET, HEAD"),
        _ => head,
    };
    head.header("Connection", b"close").finish();
    out.bytes
}
