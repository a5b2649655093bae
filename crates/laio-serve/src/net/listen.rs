//! The listening sockets of a server.

use crate::inherited;
use crate::options::{Limits, Listen, ListenAddress, Options, abstract_name};
use rustix::fs::{FileType, Mode};
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The bound sockets of a server, before workers serve them.
#[derive(Debug)]
pub struct Listening {
    /// Kept while they are served, because dropping them removes the files of Unix sockets.
    listeners: Vec<Listener>,
    addresses: Vec<Listen>,
    /// The sockets of each worker.
    pub(crate) shares: Vec<Vec<Share>>,
}

impl Listening {
    /// Binds sockets for workers in this process or in others.
    ///
    /// # Errors
    /// Names the address that cannot be bound, and the reason.
    pub fn open(options: &Options, workers: usize) -> io::Result<Listening> {
        Listening::with(Listener::open_all(&options.listen)?, |listeners, number| {
            (number < workers).then(|| Listener::share_all(listeners, number, workers))
        })
    }

    /// Distributes sockets to workers until `share` returns none.
    pub(crate) fn with(
        listeners: Vec<Listener>,
        share: impl Fn(&[Listener], usize) -> Option<io::Result<Vec<Share>>>,
    ) -> io::Result<Listening> {
        let shares = (0..).map_while(|number| share(&listeners, number));
        Ok(Listening {
            shares: shares.collect::<io::Result<_>>()?,
            addresses: listeners.iter().map(|it| it.listen.clone()).collect(),
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
pub(crate) struct Listener {
    socket: OwnedFd,
    /// The configured address, with the port that the kernel chose.
    listen: Listen,
    /// Workers may bind sockets of their own to the address (`SO_REUSEPORT`).
    spreads: bool,
    /// For an inherited socket: its index and the number of sockets with its address.
    passed: Option<(usize, usize)>,
    /// Removed when the listener is dropped.
    file: Option<SocketFile>,
}

impl Listener {
    /// Binds and listens on all addresses.
    ///
    /// # Errors
    /// Names the address that cannot be bound, and the reason.
    pub(crate) fn open_all(addresses: &[Listen]) -> io::Result<Vec<Listener>> {
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
            self.file = SocketFile::of(path).ok();
        }
    }

    fn keep_file(&mut self) {
        std::mem::forget(self.file.take());
    }

    /// Returns a worker's shares of the sockets. Each worker serves each address, and each
    /// inherited socket gets at least one worker, because the kernel distributes connections over
    /// all of them.
    ///
    /// # Errors
    /// Like [`Listener::open_all`].
    pub(crate) fn share_all(
        listeners: &[Listener],
        number: usize,
        workers: usize,
    ) -> io::Result<Vec<Share>> {
        let takes = |listener: &&Listener| match listener.passed {
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
    pub(crate) fn share(&self, own: bool, all: &[Listener]) -> io::Result<Share> {
        let socket = match self.listen.inet() {
            Some(address) if own && self.spreads => {
                let only_v6 = address.is_ipv6() && sockopt::ipv6_v6only(&self.socket)?;
                inet(address, only_v6).map_err(|error| explain(&error, &self.listen))?
            }
            _ => self.socket.try_clone()?,
        };
        Ok(Share {
            socket,
            tls: self.listen.tls,
            https_port: https_port(&self.listen, all),
        })
    }
}

/// A worker's share of a listener.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) socket: OwnedFd,
    /// Whether connections are encrypted.
    pub(crate) tls: bool,
    /// For an internet address without TLS: the port of one with TLS.
    pub(crate) https_port: Option<u16>,
}

impl Share {
    /// Duplicates the descriptor.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(crate) fn try_clone(&self) -> io::Result<Share> {
        Ok(Share {
            socket: self.socket.try_clone()?,
            tls: self.tls,
            https_port: self.https_port,
        })
    }
}

/// Returns the port of https for the clients of an internet address without TLS: that of the first
/// address with TLS, preferring one with the same IP address.
fn https_port(listen: &Listen, all: &[Listener]) -> Option<u16> {
    let own = listen.inet().filter(|_| !listen.tls)?;
    let all = all.iter().map(|it| &it.listen);
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

fn open(listen: &Listen, all: &[Listen], listeners: &mut Vec<Listener>) -> io::Result<()> {
    match &listen.address {
        ListenAddress::Inet(address) => {
            let socket = inet(*address, leaves_v4(*address, all))?;
            let address = rustix::net::getsockname(&socket)?.try_into()?;
            listeners.push(Listener {
                socket,
                listen: Listen {
                    address: ListenAddress::Inet(address),
                    tls: listen.tls,
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
                listen: listen.clone(),
                spreads: false,
                passed: None,
                file,
            });
        }
        ListenAddress::Inherited(name) => {
            for socket in inherited::sockets(name.as_deref())? {
                let address = address_of(&socket)?;
                let tls = listen.tls;
                listeners.push(Listener {
                    socket,
                    listen: Listen { address, tls },
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

fn inet(address: SocketAddr, only_v6: bool) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    if only_v6 {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, Limits::BACKLOG)?;
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
    let file = SocketFile::of(path)?;
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
    fn of(path: &Path) -> io::Result<SocketFile> {
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
