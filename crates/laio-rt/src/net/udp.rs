//! UDP sockets.

use super::address::{bind, inet, local, socket};
use super::{Address, Received};
use crate::Descriptor;
use crate::submission::submit;
use laio::ops::{Connect, Recv, RecvFrom, Send, SendTo, Sink, Source};
use rustix::net::SocketType;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket(Descriptor);

impl UdpSocket {
    /// Creates a socket with this address; with port 0, on a free port.
    ///
    /// # Errors
    /// `AddrInUse` if another socket has the address.
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<UdpSocket> {
        let address = Address::Inet(address.into());
        let socket = socket(&address, SocketType::DGRAM)?;
        bind(&socket, &address)?;
        Ok(UdpSocket(socket))
    }

    /// Connects the socket to `peer`: it sends to and receives from this address only.
    ///
    /// # Errors
    /// `EAFNOSUPPORT` if the address is of another family than the socket's.
    pub async fn connect(&self, peer: impl Into<SocketAddr>) -> io::Result<()> {
        submit(Connect::new(self.0.clone(), peer.into())).await
    }

    /// Sends a datagram to an address. Returns the number of bytes sent, and the buffer.
    pub fn send_to<B: Source>(
        &self,
        buffer: B,
        address: impl Into<SocketAddr>,
    ) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(SendTo::new(self.0.clone(), buffer, address.into()))
    }

    /// Receives a datagram. Returns its length and sender, and the buffer with its bytes appended. Dropping the
    /// future may lose a datagram that arrives at that moment, as the network may.
    pub fn recv_from<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<Received>, B)> {
        submit(RecvFrom::new(self.0.clone(), buffer))
    }

    /// Sends a datagram to the peer of [`UdpSocket::connect`].
    pub fn send<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(Send::new(self.0.clone(), buffer))
    }

    /// Receives a datagram from the peer of [`UdpSocket::connect`].
    pub fn recv<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(Recv::new(self.0.clone(), buffer))
    }

    /// Returns the socket's own address.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(local(&self.0)?)
    }

    /// Returns the descriptor, for operations without a method here.
    pub fn descriptor(&self) -> &Descriptor {
        &self.0
    }
}

/// Takes ownership of a datagram socket in blocking mode.
impl From<OwnedFd> for UdpSocket {
    fn from(socket: OwnedFd) -> UdpSocket {
        UdpSocket(socket.into())
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
