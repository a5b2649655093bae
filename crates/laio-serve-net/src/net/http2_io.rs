//! The byte stream that the `h2` crate reads and writes. Output is buffered, so that one call sends
//! many frames.

use super::write_buffers;
use crate::memory::connection::{ConnectionMemory, Held};
use crate::net::socket::{Expect, Socket};
use crate::net::stream::Stream;
use crate::net::tls::session::Session;
use laio_serve_base::options::{Http2, Memory, MemoryUse};
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Since when the socket takes no more bytes, because the peer does not read; none if all was sent.
pub type Stalled = Rc<Cell<Option<Instant>>>;

/// Gets the received bytes before the `h2` crate does.
type Inspect = Box<dyn FnMut(&[u8])>;

/// The connection of an `h2` client or server.
pub struct Io {
    wire: Rc<Wire>,
    /// Received bytes, consumed up to `used`.
    input: Vec<u8>,
    used: usize,
    inspect: Inspect,
}

/// The transport and the output, which the byte stream shares with the task of the connection.
pub struct Wire {
    transport: RefCell<Transport>,
    /// Written by `h2` and not yet sent.
    output: RefCell<Vec<u8>>,
    /// None for an upstream, whose connections have a limit of their own.
    memory: Option<Arc<ConnectionMemory>>,
    /// The memory of what waits to be sent, while something does.
    held: RefCell<Vec<Held>>,
    stalled: Stalled,
    defers_flushes: Cell<bool>,
}

enum Transport {
    Plain(Socket),
    Tls(Box<Session>),
}

impl Io {
    /// Wraps a connection; `input` was received before. Returns `None` if the stream is itself one
    /// of several.
    pub fn new(
        stream: Stream,
        input: Vec<u8>,
        stalled: Stalled,
        inspect: impl FnMut(&[u8]) + 'static,
        memory: Option<Arc<ConnectionMemory>>,
    ) -> Option<Io> {
        let transport = match stream {
            Stream::Plain(socket) => Transport::Plain(Socket::new(socket)),
            Stream::Tls(session) => Transport::Tls(Box::new(session.into_inner())),
            Stream::Multiplexed(_) => return None,
        };
        Some(Io {
            wire: Rc::new(Wire {
                transport: RefCell::new(transport),
                output: RefCell::default(),
                memory,
                held: RefCell::default(),
                stalled,
                defers_flushes: Cell::new(false),
            }),
            input,
            used: 0,
            inspect: Box::new(inspect),
        })
    }

    /// Returns the transport and the output.
    pub fn wire(&self) -> Rc<Wire> {
        self.wire.clone()
    }
}

impl Wire {
    /// Sets whether flushes of `h2` do nothing. `h2` flushes after each large frame; the caller sends the frames of many
    /// together, by [`Wire::poll_send`], when `h2` has written all that it has.
    pub fn defer_flushes(&self, defers: bool) {
        self.defers_flushes.set(defers);
    }

    /// Sends the buffered output.
    pub fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (mut transport, mut output) = (self.transport.borrow_mut(), self.output.borrow_mut());
        let sent = transport.poll_send(context, &mut output);
        let since = self.stalled.get().or_else(|| Some(Instant::now()));
        self.stalled.set(since.filter(|_| sent.is_pending()));
        if sent.is_ready() && output.is_empty() {
            self.held.borrow_mut().clear();
        }
        sent
    }

    fn is_full(&self) -> bool {
        self.space(1) == 0
    }

    /// Returns the bytes for which there is space in the output, of `wanted` ones, after taking memory for more if
    /// necessary.
    fn space(&self, wanted: usize) -> usize {
        let length = self.output.borrow().len();
        let Some(memory) = &self.memory else {
            return Http2::WRITE_BUFFER.saturating_sub(length);
        };
        let end = Http2::WRITE_BUFFER.min(length + wanted);
        let mut held = self.held.borrow_mut();
        let all = |held: &[Held]| held.iter().map(Held::bytes).sum::<usize>() as u64;
        let missing = (end as u64 * Memory::FRAME_COPIES).saturating_sub(all(&held));
        if missing > 0 {
            let least = if held.is_empty() {
                Memory::reserve(MemoryUse::Frames, 0)
            } else {
                Memory::GRAIN
            };
            let most = missing.max(least);
            held.extend(memory.take_some(MemoryUse::Frames, 1, most));
        }
        let most = (all(&held) / Memory::FRAME_COPIES) as usize;
        most.min(Http2::WRITE_BUFFER).saturating_sub(length)
    }

    /// Appends the bytes for which there is space to the output. Returns their number.
    fn append(&self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.space(bytes.len()));
        let mut output = self.output.borrow_mut();
        if output.capacity() == 0 {
            *output = write_buffers::take();
        }
        output.extend_from_slice(&bytes[..count]);
        count
    }
}

impl Transport {
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(socket) => {
                let expect = expect(socket.is_drained());
                *input = ready!(socket.poll_receive(context, expect))?
            }
            Transport::Tls(session) => {
                let expect = expect(session.is_drained());
                ready!(session.poll_receive(context, input, expect))?;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends all of `output`, and empties it.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        output: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(socket) => {
                ready!(socket.poll_sent(context))?;
                if output.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                socket.send(std::mem::take(output));
                socket.poll_sent(context)
            }
            Transport::Tls(session) => {
                while !output.is_empty() {
                    let count = ready!(session.poll_encrypt(context, output))?;
                    output.drain(..count);
                    if let Poll::Ready(Err(error)) = session.poll_send(context) {
                        return Poll::Ready(Err(error));
                    }
                }
                write_buffers::put_back(std::mem::take(output));
                session.poll_send(context)
            }
        }
    }
}

/// After a receive that took all that had arrived, the next one will probably block.
fn expect(is_drained: bool) -> Expect {
    if is_drained {
        Expect::Block
    } else {
        Expect::Arrived
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Io {
            wire,
            input,
            used,
            inspect,
            ..
        } = &mut *self;
        if *used == input.len() {
            input.clear();
            *used = 0;
            ready!(wire.transport.borrow_mut().poll_receive(context, input))?;
        }
        let count = buffer.remaining().min(input.len() - *used);
        let bytes = &input[*used..][..count];
        inspect(bytes);
        buffer.put_slice(bytes);
        *used += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.wire.is_full() {
            ready!(self.wire.poll_send(context))?;
        }
        Poll::Ready(Ok(slices.iter().map(|slice| self.wire.append(slice)).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.wire.defers_flushes.get() {
            Poll::Ready(Ok(()))
        } else {
            self.wire.poll_send(context)
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.wire.poll_send(context))?;
        match &mut *self.wire.transport.borrow_mut() {
            Transport::Plain(socket) => Poll::Ready(socket.finish()),
            Transport::Tls(session) => session.poll_finish(context),
        }
    }
}
