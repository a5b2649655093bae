//! Listening sockets.

use super::address::{bind, inet, local, socket};
use super::{Address, Stream, Tcp, Unix};
use crate::Descriptor;
use crate::submission::submit;
use laio::ops::Accept;
use rustix::net::{SocketType, sockopt};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// A socket that takes TCP connections.
pub type TcpListener = Listener<Tcp>;

/// A socket that takes connections of processes of the machine.
pub type UnixListener = Listener<Unix>;

/// How a socket listens.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    reuse_port: bool,
    only_v6: bool,
    backlog: i32,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions {
            reuse_port: false,
            only_v6: false,
            backlog: 1024,
        }
    }
}

impl ListenOptions {
    /// A backlog of 1024 connections.
    pub fn new() -> ListenOptions {
        ListenOptions::default()
    }

    /// Whether several sockets, all with this option, may listen at the same address: the kernel shares
    /// the connections out (`SO_REUSEPORT`), for one thread per processor.
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.reuse_port = reuse;
        self
    }

    /// Whether the address `::` leaves IPv4 to other sockets.
    pub fn only_v6(mut self, only: bool) -> Self {
        self.only_v6 = only;
        self
    }

    /// Connections that may wait to be taken; the kernel has a bound of its own.
    pub fn backlog(mut self, connections: i32) -> Self {
        self.backlog = connections;
        self
    }
}

/// A socket that takes connections.
pub struct Listener<K> {
    socket: Descriptor,
    kind: PhantomData<fn() -> K>,
}

impl<K> Listener<K> {
    async fn next(&self) -> io::Result<(Stream<K>, Option<Address>)> {
        let (connection, peer) = submit(Accept::new(self.socket.clone())).await?;
        Ok((connection.into(), peer))
    }

    /// The descriptor, for operations of other kinds.
    pub fn descriptor(&self) -> &Descriptor {
        &self.socket
    }
}

impl Listener<Tcp> {
    /// Listens at an address; with port 0, at a free port. A socket that listened there before does not
    /// stand in the way (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// `AddrInUse` if another socket listens there.
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<TcpListener> {
        TcpListener::bind_with(address, ListenOptions::new())
    }

    /// As [`TcpListener::bind`], with options.
    ///
    /// # Errors
    /// As for [`TcpListener::bind`].
    pub fn bind_with(
        address: impl Into<SocketAddr>,
        options: ListenOptions,
    ) -> io::Result<TcpListener> {
        let address = Address::Inet(address.into());
        let socket = socket(&address, SocketType::STREAM)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if options.reuse_port {
            sockopt::set_socket_reuseport(&socket, true)?;
        }
        if options.only_v6 && matches!(address, Address::Inet(SocketAddr::V6(_))) {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        bind(&socket, &address)?;
        rustix::net::listen(&socket, options.backlog)?;
        Ok(Listener::new(socket))
    }

    /// Takes the next connection, and tells who is at its other end.
    ///
    /// # Errors
    /// `ConnectionAborted` if the peer has given up meanwhile, `EMFILE` or `ENFILE` if there are no
    /// descriptors left. The listener goes on.
    pub async fn accept(&self) -> io::Result<(Stream<Tcp>, SocketAddr)> {
        match self.next().await? {
            (stream, Some(Address::Inet(peer))) => Ok((stream, peer)),
            (stream, _) => {
                let peer = stream.peer_addr()?;
                Ok((stream, peer))
            }
        }
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(local(&self.socket)?)
    }
}

impl Listener<Unix> {
    /// Listens at a path, which must not be there; nor is it removed afterwards.
    ///
    /// # Errors
    /// `AddrInUse` if it is there.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        UnixListener::bind_to(Address::unix(path)?, ListenOptions::new())
    }

    /// Listens at any address of a Unix socket.
    ///
    /// # Errors
    /// As for [`UnixListener::bind`].
    pub fn bind_to(
        address: impl Into<Address>,
        options: ListenOptions,
    ) -> io::Result<UnixListener> {
        let address = address.into();
        let socket = socket(&address, SocketType::STREAM)?;
        bind(&socket, &address)?;
        rustix::net::listen(&socket, options.backlog)?;
        Ok(Listener::new(socket))
    }

    /// Takes the next connection. Its other end seldom has an address.
    ///
    /// # Errors
    /// As for [`TcpListener::accept`].
    pub async fn accept(&self) -> io::Result<Stream<Unix>> {
        Ok(self.next().await?.0)
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<Address> {
        local(&self.socket)
    }
}

impl<K> Listener<K> {
    fn new(socket: Descriptor) -> Listener<K> {
        Listener {
            socket,
            kind: PhantomData,
        }
    }
}

/// From a listening socket in blocking mode.
impl<K> From<OwnedFd> for Listener<K> {
    fn from(socket: OwnedFd) -> Listener<K> {
        Listener::new(socket.into())
    }
}

impl<K> AsFd for Listener<K> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<K> fmt::Debug for Listener<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.socket).finish()
    }
}
