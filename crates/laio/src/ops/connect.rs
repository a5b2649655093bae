//! Connections: accepting, connecting, shutting down.

use super::address::Storage;
use super::open::descriptor;
use super::storage::done;
use super::{Address, word};
use crate::typed::Operation;
use crate::{Call, Errno};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Accepts a connection on a listening socket. The new descriptor has `O_CLOEXEC` and is in
/// blocking mode, as operations need it.
pub struct Accept<F> {
    socket: F,
    peer: Storage,
}

impl<F> Accept<F> {
    /// Accepts the next connection on `socket`.
    pub fn new(socket: F) -> Self {
        Accept {
            socket,
            peer: Storage::empty(),
        }
    }
}

impl<F: fmt::Debug> fmt::Debug for Accept<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Accept").field(&self.socket).finish()
    }
}

// SAFETY: the address and its length are part of the operation.
unsafe impl<F: AsFd + 'static> Operation for Accept<F> {
    /// The connection, and the peer if it has an address of a known family. After `ECONNABORTED`,
    /// `EMFILE`, `ENFILE`, `ENOBUFS` or `ENOMEM` the socket still listens.
    type Output = io::Result<(OwnedFd, Option<Address>)>;

    fn call(&mut self) -> Call {
        self.peer.length = Storage::empty().length;
        let args = [
            word(&self.socket),
            (&raw mut self.peer.address) as usize,
            (&raw mut self.peer.length) as usize,
            libc::SOCK_CLOEXEC as usize,
        ];
        Call::new(libc::SYS_accept4, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        Ok((descriptor(result)?, self.peer.read()))
    }
}

/// Connects a socket, or sets the peer of a datagram socket.
pub struct Connect<F> {
    socket: F,
    address: Storage,
}

impl<F> Connect<F> {
    /// Connects `socket` to `address`.
    pub fn new(socket: F, address: impl Into<Address>) -> Self {
        Connect {
            socket,
            address: Storage::of(&address.into()),
        }
    }
}

impl<F: fmt::Debug> fmt::Debug for Connect<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("socket", &self.socket)
            .field("address", &self.address.read())
            .finish()
    }
}

// SAFETY: the address is part of the operation.
unsafe impl<F: AsFd + 'static> Operation for Connect<F> {
    /// `ECONNREFUSED` if no socket listens there, `ETIMEDOUT` after a minute or two without a
    /// reply.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let args = [
            word(&self.socket),
            (&raw const self.address.address) as usize,
            self.address.length as usize,
        ];
        Call::new(libc::SYS_connect, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Shuts down one or both directions of a connected socket, after the writes in flight.
#[derive(Debug)]
pub struct Shutdown<F> {
    socket: F,
    how: std::net::Shutdown,
}

impl<F> Shutdown<F> {
    /// Shuts down the directions given by `how`.
    pub fn new(socket: F, how: std::net::Shutdown) -> Self {
        Shutdown { socket, how }
    }
}

// SAFETY: the call has no pointers.
unsafe impl<F: AsFd + 'static> Operation for Shutdown<F> {
    /// `ENOTCONN` if the socket is not connected, or no longer.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let how = match self.how {
            std::net::Shutdown::Read => libc::SHUT_RD,
            std::net::Shutdown::Write => libc::SHUT_WR,
            std::net::Shutdown::Both => libc::SHUT_RDWR,
        };
        Call::new(libc::SYS_shutdown, [word(&self.socket), how as usize])
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}
