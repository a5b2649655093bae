//! Sockets: bytes and datagrams.

use super::address::Storage;
use super::file::append;
use super::{Address, Sink, Source, word};
use crate::typed::Operation;
use crate::{Call, Errno};
use std::fmt;
use std::io;
use std::os::fd::AsFd;

/// Flags with which the result remains the number of bytes in the buffer: with `MSG_TRUNC` it would
/// be the length of a datagram, or of discarded bytes.
const RECEIVE_FLAGS: i32 = libc::MSG_PEEK | libc::MSG_WAITALL | libc::MSG_DONTWAIT | libc::MSG_OOB;

/// Receives from a connected socket. From a stream it takes the available bytes and waits only if
/// there are none; from a datagram socket it takes one datagram.
#[derive(Debug)]
pub struct Recv<F, B> {
    socket: F,
    buffer: B,
    flags: i32,
    expects_to_block: bool,
}

impl<F, B> Recv<F, B> {
    /// Receives into the free capacity of `buffer`.
    pub fn new(socket: F, buffer: B) -> Self {
        Recv {
            socket,
            buffer,
            flags: 0,
            expects_to_block: false,
        }
    }

    /// Sets `MSG_PEEK`, `MSG_WAITALL`, `MSG_DONTWAIT`, `MSG_OOB`; other bits are ignored.
    pub fn flags(mut self, flags: i32) -> Self {
        self.flags = flags & RECEIVE_FLAGS;
        self
    }

    /// Hint: there is probably no data yet, for example right after a reply. With a ring the
    /// receive is submitted without an attempt, and waits even if the socket is in non-blocking
    /// mode or has a time-out of its own.
    pub fn expect_block(mut self) -> Self {
        self.expects_to_block = true;
        self
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Sink> Operation for Recv<F, B> {
    /// Bytes received (0 when the peer has ended the stream), and the buffer with them appended.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let (address, length) = self.buffer.spare_capacity();
        let args = [
            word(&self.socket),
            address as usize,
            length,
            self.flags as usize,
        ];
        Call::new(libc::SYS_recvfrom, args)
    }

    fn expects_to_block(&self) -> bool {
        self.expects_to_block
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        // SAFETY: the result is that of the call on the buffer.
        let result = unsafe { append(&mut self.buffer, result) };
        (result, self.buffer)
    }
}

/// Sends all of a buffer on a connected socket. It raises no `SIGPIPE`.
#[derive(Debug)]
pub struct Send<F, B> {
    socket: F,
    buffer: B,
    flags: i32,
    zero_copy: bool,
}

impl<F, B> Send<F, B> {
    /// Sends the bytes of `buffer`.
    pub fn new(socket: F, buffer: B) -> Self {
        Send {
            socket,
            buffer,
            flags: libc::MSG_NOSIGNAL,
            zero_copy: false,
        }
    }

    /// More `MSG_*` flags, such as `MSG_MORE`: more is to follow at once.
    pub fn flags(mut self, flags: i32) -> Self {
        self.flags |= flags;
        self
    }

    /// Makes a zero-copy send, if the context
    /// ([`Context::sends_without_copy`](crate::Context::sends_without_copy)) and the socket support
    /// it; else an ordinary send.
    ///
    /// The operation finishes when the kernel no longer uses the buffer: over TCP, when the peer
    /// has acknowledged all of it. Later operations on the socket wait only until all bytes are
    /// queued. From then on the send cannot be cancelled; if it is abandoned, buffer and socket are
    /// kept until the kernel no longer uses the buffer. A context that shuts down waits a second
    /// for that, and then leaks them. To make the kernel discard data that a peer does not read,
    /// disconnect the socket (`connect` to an address of the family `AF_UNSPEC`).
    pub fn zero_copy(mut self) -> Self {
        self.zero_copy = true;
        self
    }
}

// SAFETY: the pointer is into the buffer, which the operation owns.
unsafe impl<F: AsFd + 'static, B: Source> Operation for Send<F, B> {
    /// Bytes sent (fewer than all only on an error in between), and the buffer.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let bytes = self.buffer.bytes();
        let args = [
            word(&self.socket),
            bytes.as_ptr() as usize,
            bytes.len(),
            self.flags as usize,
        ];
        Call::new(libc::SYS_sendto, args)
    }

    fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        (result.map_err(io::Error::from), self.buffer)
    }
}

/// The properties of a received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The bytes received.
    pub count: usize,
    /// The sender, if it has an address.
    pub from: Option<Address>,
    /// Whether the datagram was longer than the buffer; the rest is lost.
    pub truncated: bool,
}

/// Receives a datagram and the address of its sender.
pub struct RecvFrom<F, B> {
    socket: F,
    buffer: B,
    flags: i32,
    message: Message,
}

impl<F, B> RecvFrom<F, B> {
    /// Receives into the free capacity of `buffer`.
    pub fn new(socket: F, buffer: B) -> Self {
        RecvFrom {
            socket,
            buffer,
            flags: 0,
            message: Message::new(Storage::empty()),
        }
    }

    /// Sets flags like [`Recv::flags`].
    pub fn flags(mut self, flags: i32) -> Self {
        self.flags = flags & RECEIVE_FLAGS;
        self
    }
}

impl<F: fmt::Debug, B: fmt::Debug> fmt::Debug for RecvFrom<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFrom")
            .field("socket", &self.socket)
            .field("buffer", &self.buffer)
            .finish_non_exhaustive()
    }
}

// SAFETY: the header, its vector and the address are part of the operation, the bytes in the buffer.
unsafe impl<F: AsFd + 'static, B: Sink> Operation for RecvFrom<F, B> {
    /// The properties of the datagram, and the buffer with the bytes appended.
    type Output = (io::Result<Received>, B);

    fn call(&mut self) -> Call {
        let (address, length) = self.buffer.spare_capacity();
        let header = self.message.prepare(address, length);
        let args = [word(&self.socket), header, self.flags as usize];
        Call::new(libc::SYS_recvmsg, args)
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        // SAFETY: the result is that of the call on the buffer.
        let result = unsafe { append(&mut self.buffer, result) };
        self.message.address.length = self.message.header.msg_namelen;
        let received = result.map(|count| Received {
            count,
            from: self.message.address.read(),
            truncated: self.message.header.msg_flags & libc::MSG_TRUNC != 0,
        });
        (received, self.buffer)
    }
}

/// Sends a datagram to an address.
pub struct SendTo<F, B> {
    socket: F,
    buffer: B,
    flags: i32,
    message: Message,
}

impl<F, B> SendTo<F, B> {
    /// Sends the bytes of `buffer` to `address`.
    pub fn new(socket: F, buffer: B, address: impl Into<Address>) -> Self {
        SendTo {
            socket,
            buffer,
            flags: libc::MSG_NOSIGNAL,
            message: Message::new(Storage::of(&address.into())),
        }
    }

    /// More `MSG_*` flags.
    pub fn flags(mut self, flags: i32) -> Self {
        self.flags |= flags;
        self
    }
}

impl<F: fmt::Debug, B: fmt::Debug> fmt::Debug for SendTo<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendTo")
            .field("socket", &self.socket)
            .field("buffer", &self.buffer)
            .field("address", &self.message.address.read())
            .finish_non_exhaustive()
    }
}

// SAFETY: the header, its vector and the address are part of the operation, the bytes in the buffer.
unsafe impl<F: AsFd + 'static, B: Source> Operation for SendTo<F, B> {
    /// Bytes sent, and the buffer. `EMSGSIZE` if they are too many for a datagram.
    type Output = (io::Result<usize>, B);

    fn call(&mut self) -> Call {
        let bytes = self.buffer.bytes();
        let header = self.message.prepare(bytes.as_ptr().cast_mut(), bytes.len());
        let args = [word(&self.socket), header, self.flags as usize];
        Call::new(libc::SYS_sendmsg, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        (result.map_err(io::Error::from), self.buffer)
    }
}

/// The header of a message with one buffer and an address.
struct Message {
    header: libc::msghdr,
    vector: libc::iovec,
    address: Storage,
}

impl Message {
    fn new(address: Storage) -> Message {
        Message {
            // SAFETY: plain data, for which all zeros is a valid value.
            header: unsafe { std::mem::zeroed() },
            vector: libc::iovec {
                iov_base: std::ptr::null_mut(),
                iov_len: 0,
            },
            address,
        }
    }

    /// Points the header to the parts, which move with `self`; returns its address.
    fn prepare(&mut self, bytes: *mut u8, length: usize) -> usize {
        self.vector = libc::iovec {
            iov_base: bytes.cast(),
            iov_len: length,
        };
        self.header.msg_iov = &raw mut self.vector;
        self.header.msg_iovlen = 1;
        self.header.msg_name = (&raw mut self.address.address).cast();
        self.header.msg_namelen = self.address.length;
        (&raw mut self.header) as usize
    }
}
