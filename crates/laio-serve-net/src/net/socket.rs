//! A socket with poll methods: operations in flight and their buffers are kept between polls.

use super::client_watch::Unread;
use super::{arrivals, write_buffers};
use laio::ops::{Recv, Send, Sink};
use laio_rt::{Descriptor, Submission};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, Shutdown};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Whether the bytes of a receive have probably arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// An attempt is made first.
    Arrived,
    /// No attempt is made first (`expect_block`).
    Block,
}

/// Returns the local and the remote internet address of a socket, where there are any.
pub(super) fn endpoints(socket: impl AsFd) -> [Option<SocketAddr>; 2] {
    let own = rustix::net::getsockname(&socket).ok();
    let client = rustix::net::getpeername(&socket).ok().flatten();
    [own, client].map(|end| SocketAddr::try_from(end?).ok())
}

/// A socket with at most one receive and one send in flight.
pub(crate) struct Socket {
    socket: Descriptor,
    receiving: Option<Receiving>,
    /// The last receive has filled less than its buffer.
    is_drained: bool,
    sending: Option<Sending>,
}

struct Receiving {
    submission: Submission<Recv<Descriptor, Vec<u8>>>,
    /// The turn of the executor in which it began.
    turn: u64,
}

struct Sending {
    submission: Submission<Send<Descriptor, Vec<u8>>>,
    length: usize,
}

impl Socket {
    /// Buffer size of one receive.
    const BUFFER: usize = 4096;

    pub(crate) fn new(socket: Descriptor) -> Socket {
        Socket {
            socket,
            receiving: None,
            is_drained: false,
            sending: None,
        }
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.socket
    }

    /// Receives the next bytes; an empty buffer at the end.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        expect: Expect,
    ) -> Poll<io::Result<Vec<u8>>> {
        let start = || {
            let buffer = Vec::with_capacity(Socket::BUFFER);
            let receive = receive_operation(&self.socket, buffer, expect);
            Receiving {
                submission: laio_rt::submit(receive),
                turn: laio_rt::turn(),
            }
        };
        let receiving = self.receiving.get_or_insert_with(start);
        let (result, buffer) = ready!(Pin::new(&mut receiving.submission).poll(context));
        arrivals::note(receiving.turn);
        self.receiving = None;
        self.is_drained = buffer.len() < Socket::BUFFER;
        Poll::Ready(result.map(|_| buffer))
    }

    /// Whether the last receive took all that had arrived, so that the next one will probably block.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Starts sending a buffer. No other send may be in flight.
    pub(crate) fn send(&mut self, buffer: Vec<u8>) {
        debug_assert!(self.sending.is_none());
        self.sending = Some(Sending {
            length: buffer.len(),
            submission: laio_rt::submit(Send::new(self.socket.clone(), buffer)),
        });
    }

    /// Waits until no send is in flight.
    pub(crate) fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sending) = &mut self.sending else {
            return Poll::Ready(Ok(()));
        };
        let (result, buffer) = ready!(Pin::new(&mut sending.submission).poll(context));
        write_buffers::put_back(buffer);
        let length = sending.length;
        self.sending = None;
        Poll::Ready(match result {
            // With the back end sync, the socket's own timeout ended the send.
            Ok(count) if count < length => Err(io::ErrorKind::TimedOut.into()),
            result => result.map(drop),
        })
    }

    /// Shuts down the sending side.
    pub(crate) fn finish(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?)
    }
}

/// Returns the operation that appends bytes from a plain socket to `input`.
pub fn receive_operation<B: Sink>(
    socket: &Descriptor,
    input: B,
    expect: Expect,
) -> Recv<Descriptor, B> {
    let receive = Recv::new(socket.clone(), input);
    match expect {
        Expect::Arrived => receive,
        Expect::Block => receive.expect_block(),
    }
}

/// Whether a receive would block: neither bytes nor the end of the stream are pending.
pub fn is_quiet(socket: &Descriptor) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let peeked = rustix::net::recv(socket, &mut [0_u8; 1][..], flags);
    peeked.err() == Some(rustix::io::Errno::AGAIN)
}

/// Whether the peer has closed or reset the connection, or has closed its side and no bytes are pending that matter.
pub(super) fn has_left(socket: &Descriptor, unread: Unread) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    if poll(&mut polled, Some(&Timespec::default())).is_err() {
        return false;
    }
    let seen = polled[0].revents();
    let is_closed = seen.intersects(PollFlags::HUP | PollFlags::ERR);
    is_closed
        || (seen.contains(PollFlags::RDHUP) && (unread == Unread::Nothing || has_ended(socket)))
}

/// Whether the peer has closed its side and no bytes are pending, or the socket has an error.
fn has_ended(socket: &Descriptor) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(socket, &mut [0_u8; 1][..], flags) {
        Ok((_, count)) => count == 0,
        Err(errno) => errno != rustix::io::Errno::AGAIN,
    }
}
