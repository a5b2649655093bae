//! A connection to an upstream, as bytes.

use super::Trouble;
use super::encryption::Encryption;
use super::names::Place;
use super::target::Target;
use crate::options::UpstreamLimits;
use crate::tls::Session;
use laio::ops::{Address, Connect, Limit, Recv, Send};
use laio_http::Status;
use laio_rt::Descriptor;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// One connection.
pub(crate) struct Link {
    line: Line,
    /// Received and not yet used up.
    pub(super) input: Vec<u8>,
    /// It has carried an exchange before.
    pub(super) reused: bool,
}

/// What carries the bytes, for who sends while another receives.
#[derive(Clone)]
pub(super) enum Line {
    Plain(Descriptor),
    Tls(Rc<RefCell<Session>>),
}

/// Until when an exchange may take, at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub(super) fn new(limits: &UpstreamLimits) -> Deadline {
        Deadline(limits.whole_time.map(|time| Instant::now() + time))
    }

    /// A step's time, or what is left of the whole.
    pub(super) fn within(self, time: Duration) -> Duration {
        self.0.map_or(time, |end| {
            time.min(end.saturating_duration_since(Instant::now()))
        })
    }
}

impl Link {
    /// Connects, to the first address that takes it.
    pub(super) async fn connect(
        target: &Target,
        time: Duration,
        limits: &UpstreamLimits,
    ) -> Result<Link, Trouble> {
        let addresses = match &target.place {
            Place::Tcp(addresses) => addresses.get().into_iter().map(Address::Inet).collect(),
            Place::Unix(path) => vec![Address::unix(path).map_err(|e| explain(&e))?],
        };
        let connecting = async {
            let mut last = Trouble::gateway("it has no address");
            for address in addresses {
                match connect(address, limits).await {
                    Ok(socket) => return Ok(socket),
                    Err(error) => last = explain(&error),
                }
            }
            Err(last)
        };
        let connecting = async {
            let line = Line::begin(connecting.await?, target.encryption.as_ref()).await?;
            Ok(Link {
                line,
                input: Vec::new(),
                reused: false,
            })
        };
        match laio_rt::time::timeout(time, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(Trouble::late("it takes too long to connect")),
        }
    }

    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Nothing to read: not its end, and nothing that nobody has asked for.
    pub(super) fn is_quiet(&self) -> bool {
        match &self.line {
            Line::Plain(socket) => is_quiet(socket),
            Line::Tls(session) => {
                let session = session.borrow();
                !session.has_unread() && is_quiet(session.socket())
            }
        }
    }

    /// Appends what has come, waiting for it; 0 at the end.
    pub(super) async fn receive(&mut self, time: Duration) -> io::Result<usize> {
        let socket = match &self.line {
            Line::Plain(socket) => socket.clone(),
            Line::Tls(session) => {
                let input = &mut self.input;
                let receive = poll_fn(|context| session.borrow_mut().poll_receive(context, input));
                return match laio_rt::time::timeout(time, receive).await {
                    Ok(received) => received.map_err(late),
                    Err(_) => Err(io::ErrorKind::TimedOut.into()),
                };
            }
        };
        let mut input = std::mem::take(&mut self.input);
        let room = UpstreamLimits::PIECE.saturating_sub(input.len()).max(1);
        if input.capacity() - input.len() < 8192.min(room) {
            // A small answer needs no large buffer; one that fills it gets the whole.
            let more = if input.capacity() == 0 { 8192 } else { room };
            input.reserve(more);
        }
        let receive = Recv::new(socket, Limit::new(input, room));
        match laio_rt::time::timeout(time, laio_rt::submit(receive)).await {
            Ok((result, input)) => {
                self.input = input.into_inner();
                result.map_err(late)
            }
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Sends a whole buffer and gives it back empty.
pub(super) async fn send(line: &Line, out: Vec<u8>, time: Duration) -> io::Result<Vec<u8>> {
    let length = out.len();
    let sent = async {
        match line {
            Line::Plain(socket) => laio_rt::submit(Send::new(socket.clone(), out)).await,
            Line::Tls(session) => (crate::stream::encrypt(session, &out).await, out),
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

/// Whether there is nothing to read from a socket, not even its end.
pub(crate) fn is_quiet(socket: &Descriptor) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = rustix::net::recv(socket, &mut [0_u8; 1][..], flags);
    peeked.err() == Some(rustix::io::Errno::AGAIN)
}

/// Whether the other end of a socket has ended it, behind all that is left to read or without that.
pub(crate) fn has_ended(socket: &Descriptor) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(socket, &mut [0_u8; 1][..], flags) {
        Ok((_, count)) => count == 0,
        Err(errno) => errno != rustix::io::Errno::AGAIN,
    }
}

/// With the back end sync, the time-out is the socket's own.
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
    if laio_rt::with_context(|context| context.backend()) == laio::BackendKind::Sync {
        let receive = limits.first_byte_time.max(Duration::from_millis(1));
        let send = limits.between_time.max(Duration::from_millis(1));
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(receive))?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(send))?;
    }
    let socket = Descriptor::from(socket);
    laio_rt::submit(Connect::new(socket.clone(), address)).await?;
    Ok(socket)
}

impl Line {
    /// Over a socket that is connected, in secret if that is asked for.
    async fn begin(socket: Descriptor, encryption: Option<&Encryption>) -> Result<Line, Trouble> {
        let Some(encryption) = encryption else {
            return Ok(Line::Plain(socket));
        };
        let wrong = |error: io::Error| match late(error) {
            error if error.kind() == io::ErrorKind::TimedOut => {
                Trouble::late("it takes too long to agree on TLS")
            }
            error => Trouble::gateway(format_args!("no TLS with it: {error}")),
        };
        let mut session = encryption.session(socket).map_err(wrong)?;
        let agreed = poll_fn(|context| session.poll_handshake(context)).await;
        agreed.map_err(wrong)?;
        Ok(Line::Tls(Rc::new(RefCell::new(session))))
    }

    /// Says that nothing more will come.
    pub(super) async fn finish(&self) -> io::Result<()> {
        match self {
            Line::Plain(socket) => Ok(rustix::net::shutdown(socket, Shutdown::Write)?),
            Line::Tls(session) => {
                poll_fn(|context| session.borrow_mut().poll_finish(context)).await
            }
        }
    }
}

/// What a connection that cannot be made means.
fn explain(error: &io::Error) -> Trouble {
    use rustix::io::Errno;
    let status = match error.raw_os_error().map(Errno::from_raw_os_error) {
        // Ours are used up, or the queue of a Unix socket is full.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::ADDRNOTAVAIL) => {
            Status::SERVICE_UNAVAILABLE
        }
        Some(Errno::TIMEDOUT) => Status::GATEWAY_TIMEOUT,
        _ => Status::BAD_GATEWAY,
    };
    Trouble::new(status, format_args!("cannot connect: {error}"))
}
