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

/// A socket that accepts TCP connections.
pub type TcpListener = Listener<Tcp>;

/// A socket that accepts connections from processes on the same machine.
pub type UnixListener = Listener<Unix>;

/// Options of a listening socket.
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
    /// Returns the default options: a backlog of 1024 connections.
    pub fn new() -> ListenOptions {
        ListenOptions::default()
    }

    /// Sets `SO_REUSEPORT`: several sockets, all with this option, may listen on the same address, and the kernel
    /// distributes the connections among them. For one thread per processor.
    pub fn reuse_port(mut self, reuse: bool) -> Self {
        self.reuse_port = reuse;
        self
    }

    /// Sets `IPV6_V6ONLY`: a socket on the address `::` does not accept IPv4 connections.
    pub fn only_v6(mut self, only: bool) -> Self {
        self.only_v6 = only;
        self
    }

    /// Sets the number of connections that may wait to be accepted; the kernel also has a limit
    /// (`net.core.somaxconn`).
    pub fn backlog(mut self, connections: i32) -> Self {
        self.backlog = connections;
        self
    }
}

/// A socket that accepts connections.
pub struct Listener<K> {
    socket: Descriptor,
    kind: PhantomData<fn() -> K>,
}

impl<K> Listener<K> {
    async fn next(&self) -> io::Result<(Stream<K>, Option<Address>)> {
        let (connection, peer) = submit(Accept::new(self.socket.clone())).await?;
        Ok((connection.into(), peer))
    }

    /// Returns the descriptor, for operations without a method here.
    pub fn descriptor(&self) -> &Descriptor {
        &self.socket
    }
}

impl Listener<Tcp> {
    /// Listens on an address; with port 0, on a free port. Sets `SO_REUSEADDR`, so connections of an earlier
    /// listener do not prevent it.
    ///
    /// # Errors
    /// `AddrInUse` if another socket listens on the address.
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

    /// Accepts the next connection, and returns it with the peer's address.
    ///
    /// Dropping the future cancels it. A connection that it has accepted before is closed: its peer sees the end of
    /// the stream, and may connect again.
    ///
    /// # Errors
    /// `ConnectionAborted` if the peer has closed it meanwhile, `EMFILE` or `ENFILE` if there are no
    /// descriptors left. The listener remains usable.
    pub async fn accept(&self) -> io::Result<(Stream<Tcp>, SocketAddr)> {
        match self.next().await? {
            (stream, Some(Address::Inet(peer))) => Ok((stream, peer)),
            (stream, _) => {
                let peer = stream.peer_addr()?;
                Ok((stream, peer))
            }
        }
    }

    /// Returns the address on which it listens.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(local(&self.socket)?)
    }
}

impl Listener<Unix> {
    /// Listens on a path, which must not exist. Dropping the listener does not remove the path.
    ///
    /// # Errors
    /// `AddrInUse` if the path exists.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<UnixListener> {
        UnixListener::bind_to(Address::unix(path)?, ListenOptions::new())
    }

    /// Listens on any kind of Unix socket address.
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

    /// Accepts the next connection. Returns no address, since peers seldom have one. Dropping the future closes a
    /// connection that it has accepted, as for [`TcpListener::accept`].
    ///
    /// # Errors
    /// As for [`TcpListener::accept`].
    pub async fn accept(&self) -> io::Result<Stream<Unix>> {
        Ok(self.next().await?.0)
    }

    /// Returns the address on which it listens.
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

/// Takes ownership of a listening socket in blocking mode.
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
