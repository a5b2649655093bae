//! Datagrams.

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
    /// A socket at an address; with port 0, at a free port.
    ///
    /// # Errors
    /// `AddrInUse` if another socket is there.
    pub fn bind(address: impl Into<SocketAddr>) -> io::Result<UdpSocket> {
        let address = Address::Inet(address.into());
        let socket = socket(&address, SocketType::DGRAM)?;
        bind(&socket, &address)?;
        Ok(UdpSocket(socket))
    }

    /// Makes `peer` the only one to send to and to receive from.
    ///
    /// # Errors
    /// `EAFNOSUPPORT` if its address is of another kind than the socket's.
    pub async fn connect(&self, peer: impl Into<SocketAddr>) -> io::Result<()> {
        submit(Connect::new(self.0.clone(), peer.into())).await
    }

    /// Sends a datagram to an address. Gives the bytes sent, and the buffer.
    pub fn send_to<B: Source>(
        &self,
        buffer: B,
        address: impl Into<SocketAddr>,
    ) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(SendTo::new(self.0.clone(), buffer, address.into()))
    }

    /// Receives a datagram. Gives what it was and who sent it, and the buffer with its bytes appended.
    pub fn recv_from<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<Received>, B)> {
        submit(RecvFrom::new(self.0.clone(), buffer))
    }

    /// Sends a datagram to the peer of [`UdpSocket::connect`].
    pub fn send<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(Send::new(self.0.clone(), buffer))
    }

    /// Receives a datagram of the peer of [`UdpSocket::connect`].
    pub fn recv<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(Recv::new(self.0.clone(), buffer))
    }

    /// The socket's own address.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(local(&self.0)?)
    }

    /// The descriptor, for operations of other kinds.
    pub fn descriptor(&self) -> &Descriptor {
        &self.0
    }
}

/// From a datagram socket in blocking mode.
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
