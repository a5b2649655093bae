//! The listening sockets of a server.

use laio_serve_base::inherited;
use laio_serve_base::options::{Limits, Listen, ListenAddress, Options, abstract_name};
use rustix::fs::{FileType, Mode};
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// How many ports that the kernel chooses are tried for TCP and UDP.
const PORT_TRIES: u32 = 8;

/// The bound sockets of a server, before workers serve them.
#[derive(Debug)]
pub struct Listening {
    /// Kept while they are served, because dropping them removes the files of Unix sockets.
    listeners: Vec<Listener>,
    addresses: Vec<Listen>,
    /// The sockets of each worker.
    #[doc(hidden)]
    pub shares: Vec<Vec<Share>>,
}

impl Listening {
    /// Binds sockets for workers in this process or in others.
    ///
    /// # Errors
    /// Names the address that cannot be bound, and the reason.
    pub fn open(options: &Options, workers: usize) -> io::Result<Listening> {
        Listening::with(Listener::open_all(options)?, |listeners, number| {
            (number < workers).then(|| Listener::share_all(listeners, number, workers))
        })
    }

    /// Distributes sockets to workers until `share` returns none.
    #[doc(hidden)]
    pub fn with(
        listeners: Vec<Listener>,
        share: impl Fn(&[Listener], usize) -> Option<io::Result<Vec<Share>>>,
    ) -> io::Result<Listening> {
        let shares = (0..).map_while(|number| share(&listeners, number));
        Ok(Listening {
            shares: shares.collect::<io::Result<_>>()?,
            addresses: streams(&listeners).map(|it| it.listen.clone()).collect(),
            listeners,
        })
    }

    /// Returns the addresses, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Removes and returns the sockets of each worker.
    pub fn take_shares(&mut self) -> Vec<Vec<OwnedFd>> {
        let shares = std::mem::take(&mut self.shares).into_iter();
        let sockets = |shares: Vec<Share>| shares.into_iter().map(|it| it.socket).collect();
        shares.map(sockets).collect()
    }

    /// Takes over the files of Unix sockets passed on by the previous server. Called only when this
    /// server can serve, because a server that fails to start would remove the files.
    pub fn adopt(&mut self) {
        if inherited::is_successor() {
            self.listeners.iter_mut().for_each(Listener::adopt_file);
        }
    }

    /// Closes the sockets, including inherited ones, and removes the files of Unix sockets unless
    /// another server uses them. Shares already taken stay open; when the last one is closed, the
    /// kernel refuses connections, and another server can bind the address.
    pub fn close(&mut self) {
        self.shares.clear();
        self.listeners.clear();
        inherited::release();
    }

    /// Keeps the files of Unix sockets, because another server now listens on the same sockets.
    pub fn leave(&mut self) {
        self.listeners.iter_mut().for_each(Listener::keep_file);
    }
}

/// A listening socket, of which each worker has a share.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    kind: Kind,
    /// The configured address, with the port that the kernel chose.
    listen: Listen,
    /// Workers may bind sockets of their own to the address (`SO_REUSEPORT`).
    spreads: bool,
    /// For an inherited socket: its index and the number of sockets with its address.
    passed: Option<(usize, usize)>,
    /// Removed when the listener is dropped.
    file: Option<SocketFile>,
}

/// What clients use a socket for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Connections: TCP, or Unix.
    Stream,
    /// What a feature receives over UDP.
    Datagram,
}

impl Listener {
    /// Binds and listens on all addresses, and for HTTP/3 on the same addresses with UDP.
    ///
    /// # Errors
    /// Names the address that cannot be bound, and the reason.
    pub fn open_all(options: &Options) -> io::Result<Vec<Listener>> {
        if options.http3.is_none() {
            return Listener::open_streams(&options.listen);
        }
        let is_chosen = |listen: &Listen| listen.inet().is_some_and(|it| it.port() == 0);
        let mut tries = PORT_TRIES;
        loop {
            let mut listeners = Listener::open_streams(&options.listen)?;
            tries -= 1;
            match open_datagrams(&options.listen, &mut listeners) {
                Ok(()) => return Ok(listeners),
                // The kernel chose a port that is free for TCP alone.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && tries > 0
                        && options.listen.iter().any(is_chosen) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn open_streams(addresses: &[Listen]) -> io::Result<Vec<Listener>> {
        if addresses.is_empty() {
            let text = "there is no address to listen on";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let addresses = &with_inherited_ports(addresses)?;
        let mut listeners = Vec::new();
        let mut new = Vec::new();
        for listen in addresses {
            if !take_inherited(listen, &mut listeners).map_err(|error| explain(&error, listen))? {
                new.push(listen);
            }
        }
        for address in new.iter().filter_map(|listen| listen.inet()) {
            refuse_if_taken(address).map_err(|error| explain(&error, &address))?;
        }
        for listen in new {
            open(listen, addresses, &mut listeners).map_err(|error| explain(&error, listen))?;
        }
        Ok(listeners)
    }

    /// Takes over the file of an inherited Unix socket.
    fn adopt_file(&mut self) {
        if let (None, ListenAddress::Unix { path, .. }) = (&self.file, &self.listen.address) {
            self.file = SocketFile::at(path).ok();
        }
    }

    fn keep_file(&mut self) {
        std::mem::forget(self.file.take());
    }

    /// Returns a worker's shares of the sockets. Each worker serves each address, and each
    /// inherited socket gets at least one worker, because the kernel distributes connections over
    /// all of them. An inherited socket for QUIC gets exactly one: the first packets of a connection
    /// must not arrive at several workers.
    ///
    /// # Errors
    /// Like [`Listener::open_all`].
    pub fn share_all(
        listeners: &[Listener],
        number: usize,
        workers: usize,
    ) -> io::Result<Vec<Share>> {
        let takes = |listener: &&Listener| match listener.passed {
            Some((which, _)) if listener.kind == Kind::Datagram => which % workers == number,
            Some((which, of)) => which % workers == number || number % of == which,
            None => true,
        };
        let taken = listeners.iter().filter(takes);
        taken
            .map(|listener| listener.share(number > 0, listeners))
            .collect()
    }

    /// Returns a share for a worker: a clone of the socket or, if `own` is set, a new socket at the
    /// same address, so that the kernel balances the load. `all` are the listeners of the server.
    ///
    /// # Errors
    /// Like [`Listener::open_all`].
    pub fn share(&self, own: bool, all: &[Listener]) -> io::Result<Share> {
        let socket = match self.listen.inet() {
            Some(address) if own && self.spreads => {
                let only_v6 = address.is_ipv6() && sockopt::ipv6_v6only(&self.socket)?;
                inet(address, only_v6, self.kind).map_err(|error| explain(&error, &self.listen))?
            }
            _ => self.socket.try_clone()?,
        };
        let own_port = self.listen.inet().map(|address| address.port());
        let takes_datagrams = |other: &Listener| {
            other.kind == Kind::Datagram && other.listen.address == self.listen.address
        };
        Ok(Share {
            socket,
            kind: self.kind,
            tls: self.listen.tls,
            proxy_header: self.listen.proxy_header,
            https_port: https_port(&self.listen, all.iter().map(|it| &it.listen)),
            datagram_port: own_port.filter(|_| all.iter().any(takes_datagrams)),
        })
    }
}

/// Returns the listeners for connections.
fn streams(listeners: &[Listener]) -> impl Iterator<Item = &Listener> {
    listeners.iter().filter(|it| it.kind == Kind::Stream)
}

/// A worker's share of a listener.
#[derive(Debug)]
pub struct Share {
    /// The socket.
    pub socket: OwnedFd,
    /// What arrives there.
    pub kind: Kind,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// Whether connections begin with the header of a proxy.
    pub proxy_header: bool,
    /// For an internet address without TLS: the port of one with TLS.
    pub https_port: Option<u16>,
    /// The port, if the server takes datagrams there.
    pub datagram_port: Option<u16>,
}

impl Share {
    /// Duplicates the descriptor.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn try_clone(&self) -> io::Result<Share> {
        Ok(Share {
            socket: self.socket.try_clone()?,
            kind: self.kind,
            tls: self.tls,
            proxy_header: self.proxy_header,
            https_port: self.https_port,
            datagram_port: self.datagram_port,
        })
    }
}

/// Returns the port of https for the clients of an internet address without TLS: that of the first
/// address with TLS, preferring one with the same IP address.
pub fn https_port<'l>(
    listen: &Listen,
    all: impl Iterator<Item = &'l Listen> + Clone,
) -> Option<u16> {
    let own = listen.inet().filter(|_| !listen.tls)?;
    let mut encrypted = all.filter(|it| it.tls).filter_map(Listen::inet);
    let same = encrypted.clone().find(|it| it.ip() == own.ip());
    same.or_else(|| encrypted.next()).map(|it| it.port())
}

/// Replaces port 0 by the port that the kernel chose for the server that has passed its sockets on,
/// so that all processes serve the same port. Several addresses that differ only in the port take
/// theirs in the order of the sockets, which is that of the other server's addresses.
fn with_inherited_ports(asked: &[Listen]) -> io::Result<Vec<Listen>> {
    let mut addresses = asked.to_vec();
    if !inherited::from_server() {
        return Ok(addresses);
    }
    for socket in inherited::sockets(None)? {
        let inherited = address_of(&socket)?;
        let ListenAddress::Inet(mut any_port) = inherited else {
            continue;
        };
        any_port.set_port(0);
        if addresses.iter().any(|listen| listen.address == inherited) {
            continue;
        }
        let mut open = addresses.iter_mut();
        if let Some(listen) = open.find(|listen| listen.inet() == Some(any_port)) {
            listen.address = inherited;
        }
    }
    Ok(addresses)
}

/// Takes the sockets for an address that the previous server has passed on. Returns false if there
/// are none.
fn take_inherited(listen: &Listen, listeners: &mut Vec<Listener>) -> io::Result<bool> {
    if !inherited::from_server() || matches!(listen.address, ListenAddress::Inherited(_)) {
        return Ok(false);
    }
    let before = listeners.len();
    for socket in inherited::sockets(None)? {
        let same = match (&listen.address, address_of(&socket)?) {
            (ListenAddress::Unix { path, .. }, ListenAddress::Unix { path: other, .. }) => {
                *path == other
            }
            (asked, other) => *asked == other,
        };
        if !same {
            continue;
        }
        listeners.push(Listener {
            socket,
            kind: Kind::Stream,
            listen: listen.clone(),
            spreads: false,
            passed: None,
            file: None,
        });
    }
    let count = listeners.len() - before;
    for (which, listener) in listeners[before..].iter_mut().enumerate() {
        listener.passed = Some((which, count));
    }
    Ok(count > 0)
}

/// Binds a UDP socket to each internet address with TLS, or takes over those that the previous server
/// has passed on. Addresses with the header of a proxy get none, because QUIC has no such header.
fn open_datagrams(asked: &[Listen], listeners: &mut Vec<Listener>) -> io::Result<()> {
    let mut bound: Vec<_> = streams(listeners)
        .filter(|it| it.listen.tls && !it.listen.proxy_header)
        .filter_map(|it| Some((it.listen.clone(), it.listen.inet()?)))
        .collect();
    // Several inherited sockets may have the same address, one after the other.
    bound.dedup_by_key(|(_, address)| *address);
    let explain =
        |address: SocketAddr| move |error| explain(&error, &format_args!("{address} with UDP"));
    let mut inherited = Vec::new();
    for &(_, address) in &bound {
        let sockets = inherited::datagram_sockets(address).map_err(explain(address))?;
        if sockets.is_empty() {
            // As for TCP: the workers' sockets would share the port with another server.
            std::net::UdpSocket::bind(address).map_err(explain(address))?;
        }
        inherited.push(sockets);
    }
    for ((listen, address), mut sockets) in bound.into_iter().zip(inherited) {
        let spreads = sockets.is_empty();
        if spreads {
            let socket = inet(address, leaves_v4(address, asked), Kind::Datagram);
            sockets.push(socket.map_err(explain(address))?);
        }
        let count = sockets.len();
        let listener = |(which, socket)| Listener {
            socket,
            kind: Kind::Datagram,
            listen: listen.clone(),
            spreads,
            passed: (!spreads).then_some((which, count)),
            file: None,
        };
        listeners.extend(sockets.into_iter().enumerate().map(listener));
    }
    Ok(())
}

fn open(listen: &Listen, all: &[Listen], listeners: &mut Vec<Listener>) -> io::Result<()> {
    match &listen.address {
        ListenAddress::Inet(address) => {
            let socket = inet(*address, leaves_v4(*address, all), Kind::Stream)?;
            let address = rustix::net::getsockname(&socket)?.try_into()?;
            listeners.push(Listener {
                socket,
                kind: Kind::Stream,
                listen: Listen {
                    address: ListenAddress::Inet(address),
                    ..*listen
                },
                spreads: true,
                passed: None,
                file: None,
            });
        }
        ListenAddress::Unix { path, mode } => {
            let (socket, file) = unix(path, *mode)?;
            listeners.push(Listener {
                socket,
                kind: Kind::Stream,
                listen: listen.clone(),
                spreads: false,
                passed: None,
                file,
            });
        }
        ListenAddress::Inherited(name) => {
            for socket in inherited::sockets(name.as_deref())? {
                let address = address_of(&socket)?;
                listeners.push(Listener {
                    socket,
                    kind: Kind::Stream,
                    listen: Listen { address, ..*listen },
                    spreads: false,
                    passed: None,
                    file: None,
                });
            }
        }
    }
    Ok(())
}

/// Fails if another server listens on the address. The workers' sockets use `SO_REUSEPORT`, which
/// would share the port with the other server too, so this binds a socket without it first.
fn refuse_if_taken(address: SocketAddr) -> io::Result<()> {
    std::net::TcpListener::bind(address).map(drop)
}

/// Whether an IPv6 wildcard address must not accept IPv4, because another address does.
fn leaves_v4(address: SocketAddr, all: &[Listen]) -> bool {
    let takes = |other: SocketAddr| other.is_ipv4() && other.port() == address.port();
    address.is_ipv6() && all.iter().filter_map(Listen::inet).any(takes)
}

fn inet(address: SocketAddr, only_v6: bool, kind: Kind) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket_type = match kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Datagram => SocketType::DGRAM,
    };
    let socket = rustix::net::socket_with(family, socket_type, SocketFlags::CLOEXEC, None)?;
    if kind == Kind::Stream {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    sockopt::set_socket_reuseport(&socket, true)?;
    if only_v6 {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    if kind == Kind::Stream {
        rustix::net::listen(&socket, Limits::BACKLOG)?;
    }
    Ok(socket)
}

/// Binds a Unix socket. No client can connect before the permissions are set, because the socket
/// does not listen before.
fn unix(path: &Path, mode: Option<u32>) -> io::Result<(OwnedFd, Option<SocketFile>)> {
    let (flags, stream) = (SocketFlags::CLOEXEC, SocketType::STREAM);
    let socket = rustix::net::socket_with(AddressFamily::UNIX, stream, flags, None)?;
    if let Some(name) = abstract_name(path) {
        rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
        rustix::net::listen(&socket, Limits::BACKLOG)?;
        return Ok((socket, None));
    }
    remove_stale(path)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile::at(path)?;
    if let Some(mode) = mode {
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
    }
    rustix::net::listen(&socket, Limits::BACKLOG)?;
    Ok((socket, Some(file)))
}

/// Removes the socket file of a server that has ended, and nothing else. Connecting to the socket
/// shows whether a server still listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    let status = match rustix::fs::lstat(path) {
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        status => status?,
    };
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        let text = "the file exists and is no socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Ok(rustix::fs::unlink(path)?)
        }
        Err(error) => Err(error),
        Ok(_) => {
            let text = "another server listens there";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

/// The file of a Unix socket. Removed on drop, unless another socket has replaced it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|present| present == self.identity) {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let status = rustix::fs::lstat(path)?;
    Ok((status.st_dev, status.st_ino))
}

fn address_of(socket: impl AsFd) -> io::Result<ListenAddress> {
    use std::os::unix::ffi::OsStrExt;
    let address: SocketAddrAny = rustix::net::getsockname(socket)?;
    if let Ok(inet) = SocketAddr::try_from(address.clone()) {
        return Ok(ListenAddress::Inet(inet));
    }
    let unix = SocketAddrUnix::try_from(address)?;
    let path = match (unix.path_bytes(), unix.abstract_name()) {
        (Some(path), _) => path.to_vec(),
        (_, Some(name)) => [b"@", name].concat(),
        _ => Vec::new(),
    };
    Ok(ListenAddress::Unix {
        path: std::ffi::OsStr::from_bytes(&path).into(),
        mode: None,
    })
}

fn explain(error: &io::Error, address: &dyn std::fmt::Display) -> io::Error {
    let address = address.to_string();
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied if !address.contains("unix:") => {
            "; a port below 1024 needs root, CAP_NET_BIND_SERVICE, or a socket of systemd"
        }
        _ => "",
    };
    io::Error::new(
        error.kind(),
        format!("cannot listen on {address}: {error}{hint}"),
    )
}
