//! A connection to an upstream, and the pool of connections of a worker.

use super::encryption::Encryption;
use super::error::{Progress, UpstreamError};
use super::resolver::ResolvedAddress;
use laio::ops::{Address, Connect, Limit, Recv, Send};
use laio_http::Status;
use laio_rt::Descriptor;
use laio_rt::sync::{Permit, Semaphore};
use laio_serve_base::options::UpstreamLimits;
use laio_serve_net::socket::{Expect, is_quiet};
use laio_serve_net::stream::{Stream, encrypt};
use laio_serve_net::tls::session::Session;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

/// A connection to an upstream, with its input buffer.
pub struct Link {
    transport: Transport,
    /// Bytes received and not yet consumed.
    pub input: Vec<u8>,
    /// The connection has carried an exchange before.
    pub reused: bool,
    /// The header of the PROXY protocol with which the connection began; empty without it.
    pub proxy_header: Vec<u8>,
}

/// The socket or TLS session of a connection, shared by its sender and its receiver.
#[derive(Clone)]
pub enum Transport {
    /// A socket without encryption.
    Plain(Descriptor),
    /// A socket with TLS.
    Tls(Rc<RefCell<Session>>),
}

/// The time limit of a whole exchange.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns the deadline of an exchange that begins now, if it has one.
    pub fn new(limits: &UpstreamLimits) -> Deadline {
        Deadline(limits.whole_time.map(|time| Instant::now() + time))
    }

    /// Whether no time is left.
    pub fn is_over(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }

    /// Returns the time for a step: its own limit, or what is left of the exchange's.
    pub fn within(self, time: Duration) -> Duration {
        self.0.map_or(time, |end| {
            time.min(end.saturating_duration_since(Instant::now()))
        })
    }
}

impl Link {
    /// Connects to the first address that accepts, and sends it the header of the PROXY protocol.
    pub(super) async fn connect(
        address: &ResolvedAddress,
        encryption: Option<&Encryption>,
        proxy_header: Vec<u8>,
        time: Duration,
        limits: &UpstreamLimits,
    ) -> Result<Link, UpstreamError> {
        let addresses = match address {
            ResolvedAddress::Tcp(addresses) => {
                addresses.get().into_iter().map(Address::Inet).collect()
            }
            ResolvedAddress::Unix(path) => vec![Address::unix(path).map_err(|e| explain(&e))?],
        };
        let connecting = async {
            let mut last = UpstreamError::bad_gateway("the upstream has no address");
            for address in addresses {
                match connect(address, limits).await {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = explain(&error),
                }
            }
            Err(last)
        };
        let connecting = async {
            let socket = connecting.await?;
            if !proxy_header.is_empty() {
                let plain = Transport::Plain(socket.clone());
                let sent = send(&plain, proxy_header.clone(), limits.between_time).await;
                sent.map_err(|error| explain(&error))?;
            }
            let transport = Transport::start(socket, encryption).await?;
            Ok(Link {
                transport,
                input: Vec::new(),
                reused: false,
                proxy_header,
            })
        };
        let connected = laio_rt::time::timeout(time, connecting).await;
        let late = |_| Err(UpstreamError::timed_out("connecting took too long"));
        connected
            .unwrap_or_else(late)
            .map_err(|error| error.at(Progress::NotConnected))
    }

    /// Returns the connection for HTTP/2.
    ///
    /// # Errors
    /// When the upstream has not chosen HTTP/2 during the TLS handshake.
    pub(super) fn into_http2(self) -> Result<Stream, UpstreamError> {
        let other = "the upstream has not chosen HTTP/2 (ALPN)";
        match self.transport {
            Transport::Plain(socket) => Ok(Stream::Plain(socket)),
            Transport::Tls(session) => {
                let session = Rc::into_inner(session).map(RefCell::into_inner);
                let chosen = session.filter(Session::speaks_http2).map(Stream::encrypted);
                chosen.ok_or_else(|| UpstreamError::bad_gateway(other).at(Progress::NotConnected))
            }
        }
    }

    /// Returns what carries the bytes.
    pub fn transport(&self) -> Transport {
        self.transport.clone()
    }

    /// Whether the connection is open and nothing unexpected was received.
    pub fn is_quiet(&self) -> bool {
        match &self.transport {
            Transport::Plain(socket) => is_quiet(socket),
            Transport::Tls(session) => {
                let session = session.borrow();
                !session.has_unread() && is_quiet(session.socket())
            }
        }
    }

    /// Appends received bytes, waiting until there are any. Returns 0 at the end.
    pub async fn receive(&mut self, time: Duration) -> io::Result<usize> {
        let socket = match &self.transport {
            Transport::Plain(socket) => socket.clone(),
            Transport::Tls(session) => {
                let input = &mut self.input;
                let receive = poll_fn(|context| {
                    session
                        .borrow_mut()
                        .poll_receive(context, input, Expect::Arrived)
                });
                return match laio_rt::time::timeout(time, receive).await {
                    Ok(received) => received.map_err(late),
                    Err(_) => Err(io::ErrorKind::TimedOut.into()),
                };
            }
        };
        let mut input = std::mem::take(&mut self.input);
        let space = UpstreamLimits::CHUNK.saturating_sub(input.len()).max(1);
        if input.capacity() - input.len() < 8192.min(space) {
            // Start with a small buffer; grow to the full size when a response fills it.
            let more = if input.capacity() == 0 { 8192 } else { space };
            input.reserve(more);
        }
        let receive = Recv::new(socket, Limit::new(input, space));
        match laio_rt::time::timeout(time, laio_rt::submit(receive)).await {
            Ok((result, input)) => {
                self.input = input.into_inner();
                result.map_err(late)
            }
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Sends a whole buffer, and returns it empty.
pub async fn send(transport: &Transport, out: Vec<u8>, time: Duration) -> io::Result<Vec<u8>> {
    let length = out.len();
    let sent = async {
        match transport {
            Transport::Plain(socket) => laio_rt::submit(Send::new(socket.clone(), out)).await,
            Transport::Tls(session) => (encrypt(session, &out, false).await, out),
        }
    };
    match laio_rt::time::timeout(time, sent).await {
        Ok((Ok(count), _)) if count < length => Err(io::ErrorKind::BrokenPipe.into()),
        Ok((Ok(_), mut out)) => {
            out.clear();
            Ok(out)
        }
        Ok((Err(error), _)) => Err(late(error)),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Converts the socket's own timeout, which ends calls with the back end sync.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

async fn connect(address: Address, limits: &UpstreamLimits) -> io::Result<Descriptor> {
    let family = match &address {
        Address::Inet(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Inet(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if family != AddressFamily::UNIX {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    if laio_rt::with_context(|context| context.info().backend()) == laio::BackendKind::Sync {
        let receive = limits.first_byte_time.max(Duration::from_millis(1));
        let send = limits.between_time.max(Duration::from_millis(1));
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(receive))?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(send))?;
    }
    let socket = Descriptor::from(socket);
    laio_rt::submit(Connect::new(socket.clone(), address)).await?;
    Ok(socket)
}

impl Transport {
    /// Starts TLS on a connected socket, if the upstream uses it.
    async fn start(
        socket: Descriptor,
        encryption: Option<&Encryption>,
    ) -> Result<Transport, UpstreamError> {
        let Some(encryption) = encryption else {
            return Ok(Transport::Plain(socket));
        };
        let wrong = |error: io::Error| match late(error) {
            error if error.kind() == io::ErrorKind::TimedOut => {
                UpstreamError::timed_out("the TLS handshake took too long")
            }
            error => UpstreamError::bad_gateway(format_args!("the TLS handshake failed: {error}")),
        };
        let mut session = encryption.session(socket).map_err(wrong)?;
        let agreed = poll_fn(|context| session.poll_handshake(context)).await;
        agreed.map_err(wrong)?;
        Ok(Transport::Tls(Rc::new(RefCell::new(session))))
    }

    /// Shuts down the sending side.
    pub async fn finish(&self) -> io::Result<()> {
        match self {
            Transport::Plain(socket) => Ok(rustix::net::shutdown(socket, Shutdown::Write)?),
            Transport::Tls(session) => {
                poll_fn(|context| session.borrow_mut().poll_finish(context)).await
            }
        }
    }
}

/// Returns the error for a failed connect.
fn explain(error: &io::Error) -> UpstreamError {
    use rustix::io::Errno;
    let status = match error.raw_os_error().map(Errno::from_raw_os_error) {
        // Local descriptors, memory or ports are exhausted, or the queue of a Unix socket is full.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::ADDRNOTAVAIL) => {
            Status::SERVICE_UNAVAILABLE
        }
        Some(Errno::TIMEDOUT) => Status::GATEWAY_TIMEOUT,
        _ => Status::BAD_GATEWAY,
    };
    UpstreamError::new(status, format_args!("cannot connect: {error}"))
}

/// The connections of a worker to an upstream: a limited number at a time, some kept idle for later, and a
/// limited number of waiting requests.
#[derive(Default)]
pub struct Pool {
    /// Idle connections, the most recently used last.
    idle: RefCell<Vec<(Link, Instant)>>,
    sweeping: Cell<bool>,
    permits: OnceCell<Semaphore>,
    waiting: Cell<usize>,
}

/// Counts a waiting request until dropped.
struct QueuedRequest<'a>(&'a Cell<usize>);

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Pool {
    /// Waits for a permit for a connection.
    ///
    /// With HTTP/2 it is for one of the requests, `each`, that a connection carries at the same time.
    pub async fn permit(
        &self,
        limits: &UpstreamLimits,
        each: usize,
    ) -> Result<Permit, UpstreamError> {
        let all = limits.connections.max(1).saturating_mul(each.max(1));
        let permits = self.permits.get_or_init(|| Semaphore::new(all));
        if let Some(permit) = permits.try_acquire() {
            return Ok(permit);
        }
        if self.waiting.get() >= limits.queue {
            let text = format!(
                "{} requests are already waiting for a connection",
                limits.queue
            );
            return Err(UpstreamError::busy(text).at(Progress::NotConnected));
        }
        self.waiting.set(self.waiting.get() + 1);
        let _queued = QueuedRequest(&self.waiting);
        let permit = laio_rt::time::timeout(limits.queue_time, permits.acquire()).await;
        permit.map_err(|_| {
            UpstreamError::busy("no connection became free in time").at(Progress::NotConnected)
        })
    }

    /// Returns an idle connection that began with this header of the PROXY protocol, is still open, and on
    /// which the upstream has sent nothing.
    pub fn take(&self, limits: &UpstreamLimits, proxy_header: &[u8]) -> Option<Link> {
        loop {
            let mut idle = self.idle.borrow_mut();
            let fitting = |(link, _): &(Link, Instant)| link.proxy_header == proxy_header;
            let index = idle.iter().rposition(fitting)?;
            let (link, since) = idle.remove(index);
            drop(idle);
            if since.elapsed() < limits.idle_time && link.is_quiet() {
                return Some(link);
            }
        }
    }

    /// Puts a connection back for later requests.
    pub fn keep(self: &Rc<Self>, link: Link, limits: &UpstreamLimits) {
        let mut idle = self.idle.borrow_mut();
        if !link.input.is_empty() {
            return;
        }
        if idle.len() >= limits.idle {
            // Only one client can use the connections that begin with its addresses, so a newer one
            // replaces the oldest.
            if link.proxy_header.is_empty() || idle.is_empty() {
                return;
            }
            idle.remove(0);
        }
        idle.push((link, Instant::now()));
        if !self.sweeping.replace(true) {
            let pool = Rc::downgrade(self);
            laio_rt::spawn(sweep(pool, limits.idle_time)).detach();
        }
    }

    /// Closes all idle connections, because the upstream has restarted.
    pub fn forget(&self) {
        let idle = self.idle.take();
        drop(idle);
    }
}

/// Closes connections that have been idle for too long.
async fn sweep(pool: Weak<Pool>, time: Duration) {
    loop {
        laio_rt::time::sleep(time).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle.borrow_mut();
        let (old, young): (Vec<_>, Vec<_>) = std::mem::take(&mut *idle)
            .into_iter()
            .partition(|(_, since)| since.elapsed() >= time);
        *idle = young;
        if idle.is_empty() {
            pool.sweeping.set(false);
        }
        let over = idle.is_empty();
        drop(idle);
        drop(old);
        if over {
            return;
        }
    }
}
