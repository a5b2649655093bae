//! Sockets: bytes and datagrams.

use super::address::Storage;
use super::buffer::{bytes, spare};
use super::outputs::{append, copied, count};
use super::{Address, Sink, Source, word};
use crate::operation::ReadsStream;
use crate::sys::abi;
use crate::{Call, Errno};
use std::io;
use std::os::fd::AsFd;

/// Flags with which the result remains the number of bytes in the buffer: with `MSG_TRUNC` it would
/// be the length of a datagram, or of discarded bytes.
const RECEIVE_FLAGS: i32 = libc::MSG_PEEK | libc::MSG_WAITALL | libc::MSG_DONTWAIT | libc::MSG_OOB;

operation! {
    /// Receives from a connected socket. From a stream it takes the available bytes and waits only
    /// if there are none; from a datagram socket it takes one datagram.
    pub struct Recv<F: AsFd, B: Sink> {
        /// Receives into the free capacity of `buffer`.
        new(socket: F, buffer: B);
        flags: i32 = 0,
        expects_to_block: bool = false,
    }

    /// Sets `MSG_PEEK`, `MSG_WAITALL`, `MSG_DONTWAIT`, `MSG_OOB`; other bits are ignored.
    with flags(self, flags: i32) { self.flags = flags & RECEIVE_FLAGS }

    /// Hint: there is probably no data yet, for example right after a reply. With a ring the
    /// receive is submitted without an attempt, and waits even if the socket is in non-blocking
    /// mode or has a time-out of its own.
    with expect_block(self) { self.expects_to_block = true }

    // SAFETY: the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = spare(&mut self.buffer);
        let args = [word(&self.socket), address, length, self.flags as usize];
        Call::new(libc::SYS_recvfrom, args)
    }

    /// Bytes received (0 when the peer has ended the stream), and the buffer with them appended.
    finish(self, result) -> (io::Result<usize>, B) {
        // SAFETY: the result is that of the call on the buffer.
        unsafe { append(self.buffer, result) }
    }

    fn expects_to_block(&self) -> bool { self.expects_to_block }
}

impl<F: AsFd + 'static, B: Sink> ReadsStream for Recv<F, B> {
    unsafe fn into_bytes(mut self, result: Result<usize, Errno>) -> io::Result<Vec<u8>> {
        // SAFETY: the call was given the memory of this buffer.
        unsafe { copied(&mut self.buffer, result) }
    }
}

operation! {
    /// Sends all of a buffer on a connected socket. It raises no `SIGPIPE`.
    pub struct Send<F: AsFd, B: Source> {
        /// Sends the bytes of `buffer`.
        new(socket: F, buffer: B);
        flags: i32 = libc::MSG_NOSIGNAL,
        zero_copy: bool = false,
    }

    /// More `MSG_*` flags, such as `MSG_MORE`: more is to follow at once.
    with flags(self, flags: i32) { self.flags |= flags }

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
    with zero_copy(self) { self.zero_copy = true }

    // SAFETY: the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = bytes(&self.buffer);
        let args = [word(&self.socket), address, length, self.flags as usize];
        Call::new(libc::SYS_sendto, args)
    }

    /// Bytes sent (fewer than all only on an error in between), and the buffer.
    finish(self, result) -> (io::Result<usize>, B) { (count(result), self.buffer) }

    fn is_zero_copy(&self) -> bool { self.zero_copy }
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

operation! {
    /// Receives a datagram and the address of its sender.
    pub struct RecvFrom<F: AsFd, B: Sink> {
        /// Receives into the free capacity of `buffer`.
        new(socket: F, buffer: B);
        flags: i32 = 0,
        message: Message = Message::new(Storage::empty()),
    }

    /// Sets flags like [`Recv::flags`].
    with flags(self, flags: i32) { self.flags = flags & RECEIVE_FLAGS }

    // SAFETY: the header, its vector and the address are part of the operation, the bytes in the buffer.
    unsafe call(self) {
        let (address, length) = self.buffer.spare_capacity();
        let header = self.message.prepare(address, length);
        let args = [word(&self.socket), header, self.flags as usize];
        Call::new(libc::SYS_recvmsg, args)
    }

    /// The properties of the datagram, and the buffer with the bytes appended.
    finish(self, result) -> (io::Result<Received>, B) {
        // SAFETY: the result is that of the call on the buffer.
        let (result, buffer) = unsafe { append(self.buffer, result) };
        (result.map(|count| self.message.received(count)), buffer)
    }
}

operation! {
    /// Sends a datagram to an address.
    pub struct SendTo<F: AsFd, B: Source> {
        socket: F,
        buffer: B,
        flags: i32,
        message: Message,
    }

    // SAFETY: the header, its vector and the address are part of the operation, the bytes in the buffer.
    unsafe call(self) {
        let bytes = self.buffer.bytes();
        let header = self.message.prepare(bytes.as_ptr().cast_mut(), bytes.len());
        let args = [word(&self.socket), header, self.flags as usize];
        Call::new(libc::SYS_sendmsg, args)
    }

    /// Bytes sent, and the buffer. `EMSGSIZE` if they are too many for a datagram.
    finish(self, result) -> (io::Result<usize>, B) { (count(result), self.buffer) }
}

impl<F, B> SendTo<F, B> {
    /// Sends the bytes of `buffer` to `address`.
    pub fn new(socket: F, buffer: B, address: impl Into<Address>) -> Self {
        SendTo {
            socket,
            buffer,
            flags: libc::MSG_NOSIGNAL,
            message: Message::new(Storage::from_address(&address.into())),
        }
    }

    /// More `MSG_*` flags.
    pub fn flags(mut self, flags: i32) -> Self {
        self.flags |= flags;
        self
    }
}

/// The header of a message with one buffer and an address.
#[derive(Debug)]
struct Message {
    header: abi::msghdr,
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

    /// Reads what the kernel has written about a datagram.
    fn received(mut self, count: usize) -> Received {
        self.address.length = self.header.msg_namelen;
        Received {
            count,
            from: self.address.read(),
            truncated: self.header.msg_flags & libc::MSG_TRUNC != 0,
        }
    }
}
