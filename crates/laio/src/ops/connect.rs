//! Connections: accepting, connecting, shutting down.

use super::address::Storage;
use super::outputs::{descriptor, done};
use super::{Address, pointer, word};
use crate::Call;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

operation! {
    /// Accepts a connection on a listening socket. The new descriptor has `O_CLOEXEC` and is in
    /// blocking mode, as operations need it.
    pub struct Accept<F: AsFd> {
        /// Accepts the next connection on `socket`.
        new(socket: F);
        peer: Storage = Storage::empty(),
    }

    // SAFETY: the address and its length are part of the operation.
    unsafe call(self) {
        self.peer.length = Storage::empty().length;
        let (peer, length) = (pointer(&mut self.peer.address), pointer(&mut self.peer.length));
        let flags = libc::SOCK_CLOEXEC as usize;
        Call::new(libc::SYS_accept4, [word(&self.socket), peer, length, flags])
    }

    /// The connection, and the peer if it has an address of a known family. After `ECONNABORTED`,
    /// `EMFILE`, `ENFILE`, `ENOBUFS` or `ENOMEM` the socket still listens.
    finish(self, result) -> io::Result<(OwnedFd, Option<Address>)> {
        Ok((descriptor(result)?, self.peer.read()))
    }
}

operation! {
    /// Connects a socket, or sets the peer of a datagram socket.
    pub struct Connect<F: AsFd> {
        socket: F,
        address: Storage,
    }

    // SAFETY: the address is part of the operation.
    unsafe call(self) {
        let (peer, length) = (pointer(&mut self.address.address), self.address.length as usize);
        Call::new(libc::SYS_connect, [word(&self.socket), peer, length])
    }

    /// `ECONNREFUSED` if no socket listens there, `ETIMEDOUT` after a minute or two without a
    /// reply.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F> Connect<F> {
    /// Connects `socket` to `address`.
    pub fn new(socket: F, address: impl Into<Address>) -> Self {
        let address = Storage::from_address(&address.into());
        Connect { socket, address }
    }
}

operation! {
    /// Shuts down one or both directions of a connected socket, after the writes in flight.
    pub struct Shutdown<F: AsFd> {
        /// Shuts down the directions given by `how`.
        new(socket: F, how: std::net::Shutdown)
    }

    // SAFETY: the call has no pointers.
    unsafe call(self) {
        let how = match self.how {
            std::net::Shutdown::Read => libc::SHUT_RD,
            std::net::Shutdown::Write => libc::SHUT_WR,
            std::net::Shutdown::Both => libc::SHUT_RDWR,
        };
        Call::new(libc::SYS_shutdown, [word(&self.socket), how as usize])
    }

    /// `ENOTCONN` if the socket is not connected, or no longer.
    finish(self, result) -> io::Result<()> { done(result) }
}
