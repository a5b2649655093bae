//! The byte stream that the `h2` crate reads and writes. Output is buffered, so that one call sends
//! many frames.

use crate::net::socket::{Expect, Socket};
use crate::net::stream::Stream;
use crate::net::tls::session::Session;
use crate::options::Http2;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Since when the peer has not read what was sent.
pub(crate) type Stalled = Rc<Cell<Option<Instant>>>;

/// Gets the received bytes before the `h2` crate does.
type Inspect = Box<dyn FnMut(&[u8])>;

pub(crate) struct Io {
    transport: Transport,
    /// Received bytes, consumed up to `used`.
    input: Vec<u8>,
    used: usize,
    /// Written by `h2` and not yet sent.
    output: Vec<u8>,
    stalled: Stalled,
    inspect: Inspect,
}

enum Transport {
    Plain(Socket),
    Tls(Box<Session>),
}

impl Io {
    /// Wraps a connection; `input` was received before. Returns none if the stream is itself one
    /// of several.
    pub(crate) fn new(
        stream: Stream,
        input: Vec<u8>,
        stalled: Stalled,
        inspect: impl FnMut(&[u8]) + 'static,
    ) -> Option<Io> {
        let transport = match stream {
            Stream::Plain(socket) => Transport::Plain(Socket::new(socket)),
            Stream::Tls(session) => Transport::Tls(Box::new(session.into_inner())),
            Stream::Http2(_) | Stream::Http3(_) => return None,
        };
        Some(Io {
            transport,
            input,
            used: 0,
            output: Vec::new(),
            stalled,
            inspect: Box::new(inspect),
        })
    }

    /// Sends the buffered output.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let drained = self.transport.poll_send(context, &mut self.output);
        let since = self.stalled.get().or_else(|| Some(Instant::now()));
        self.stalled.set(since.filter(|_| drained.is_pending()));
        drained
    }

    fn take(&mut self, bytes: &[u8]) -> usize {
        let space = Http2::WRITE_BUFFER.saturating_sub(self.output.len());
        let count = bytes.len().min(space);
        self.output.extend_from_slice(&bytes[..count]);
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
                *input = ready!(socket.poll_receive(context, Expect::Arrived))?
            }
            Transport::Tls(session) => {
                ready!(session.poll_receive(context, input, Expect::Arrived))?;
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
                    let count = ready!(session.poll_write(context, output))?;
                    output.drain(..count);
                }
                session.poll_send(context)
            }
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Io {
            transport,
            input,
            used,
            inspect,
            ..
        } = &mut *self;
        if *used == input.len() {
            input.clear();
            *used = 0;
            ready!(transport.poll_receive(context, input))?;
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
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.output.len() >= Http2::WRITE_BUFFER {
            ready!(self.poll_drain(context))?;
        }
        Poll::Ready(Ok(slices.iter().map(|slice| self.take(slice)).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_drain(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        match &mut self.transport {
            Transport::Plain(socket) => Poll::Ready(socket.finish()),
            Transport::Tls(session) => session.poll_finish(context),
        }
    }
}
