//! The shortest way of a response over HTTP/1.1: a whole cached file, by one send that does not block.
//!
//! [`Connection::exchange`] answers every request. Its future is large, and an idle connection has none, so each
//! request would pay for creating it. The most common requests need no future, because nothing of them blocks.

use super::from_cache::FromCache;
use super::log_lines::log_response;
use super::state::Next;
use super::{Connection, SentResponse};
use laio::ops::{Send, SendVectored};
use laio_http::{ByteRange, Output, Request};
use laio_rt::{Descriptor, Submission};
use laio_serve_base::options::IoStep;
use laio_serve_core::files::contents::Contents;
use laio_serve_core::request::page_cache::{is_resident, send_resident};
use laio_serve_core::request::response::Body;
use laio_serve_core::request::send_buffer::{await_send, send_deadline, whole};
use laio_serve_core::request::send_response::{Followed, send_response};
use laio_serve_net::buffers::Buffers;
use laio_serve_net::stream::Stream;
use rustix::net::SendFlags;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// What became of a request that was to be answered at once.
pub(super) enum AtOnce<'h> {
    Answered(io::Result<Answered>),
    /// The response is decided, and sending it takes longer.
    Begun(Box<BegunResponse<'h>>),
}

/// A request whose response is sent.
pub(super) struct Answered {
    head_len: usize,
    keep_alive: bool,
}

/// A response of which something is left to send.
pub(super) struct BegunResponse<'h> {
    rest: Box<Rest>,
    sent: SentResponse,
    request: Request<'h>,
    answered: Answered,
    followed: Followed,
    name: Vec<u8>,
}

/// What is left to send.
enum Rest {
    /// The socket's buffer is full. The bytes of this number are being sent, then the body.
    Sending(Sending, usize, Body),
    /// The head is sent, and the socket's buffer is full.
    Full(Body),
    /// The head is in the output.
    Body(Output, Body),
}

type OutputAndBody = (Vec<u8>, Rc<[u8]>);

/// A send that owns its bytes.
enum Sending {
    Alone(Submission<Send<Descriptor, Vec<u8>>>),
    WithBody(Submission<SendVectored<Descriptor, OutputAndBody>>),
}

impl Future for Sending {
    /// The number of bytes sent, and the buffer of the output.
    type Output = (io::Result<usize>, Vec<u8>);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.get_mut() {
            Sending::Alone(sending) => ready!(Pin::new(sending).poll(context)),
            Sending::WithBody(sending) => {
                let (result, (output, _)) = ready!(Pin::new(sending).poll(context));
                (result, output)
            }
        })
    }
}

impl Connection {
    /// Begins to send what the cache has for a request, whose head has this length.
    pub(super) fn begin_response<'h>(
        &self,
        context: &mut Context<'_>,
        found: FromCache<'h>,
        head_len: usize,
    ) -> AtOnce<'h> {
        let services = &*self.services;
        let FromCache {
            request,
            keep_alive,
            buffers: Buffers { mut output, name },
            body,
            date,
            sent,
        } = found;
        let followed = Followed::after(&request);
        let answered = Answered {
            head_len,
            keep_alive,
        };
        let result = match self.send_now(context, &mut output, body, followed) {
            Ok(()) => {
                services.buffer_pool.put_back(Buffers { output, name });
                Ok(answered)
            }
            Err(NotSent::Failed(error)) => Err(error),
            Err(NotSent::Left(rest)) => {
                return AtOnce::Begun(Box::new(BegunResponse {
                    rest,
                    sent,
                    request,
                    answered,
                    followed,
                    name,
                }));
            }
        };
        let (stream, client) = (&self.stream, &self.peer.client);
        log_response(services, stream, (&request, &[]), client, &date, sent, None);
        AtOnce::Answered(result)
    }

    /// Sends the output and the body, as far as that takes no wait.
    fn send_now(
        &self,
        context: &mut Context<'_>,
        output: &mut Output,
        body: Body,
        followed: Followed,
    ) -> Result<(), NotSent> {
        let services = &*self.services;
        let Stream::Plain(socket) = &self.stream else {
            return Err(Rest::Body(std::mem::take(output), body).into());
        };
        let (body, flags) = match body {
            Body::Nothing => (None, followed.flags()),
            Body::File(Contents::Memory(bytes), range) if range.len() == bytes.len() as u64 => {
                return self.send_with_body(context, socket, output, bytes, followed);
            }
            Body::File(contents, range) if is_resident(services, &contents, range) => {
                (Some((contents, range)), SendFlags::MORE)
            }
            body => return Err(Rest::Body(std::mem::take(output), body).into()),
        };
        let length = output.bytes.len();
        let bytes = std::mem::take(&mut output.bytes);
        let send = Send::new(socket.clone(), bytes).flags(flags.bits() as i32);
        let mut sending = services.contexts.submit(IoStep::Send, send);
        let Poll::Ready((result, bytes)) = Pin::new(&mut sending).poll(context) else {
            let body = body.map_or(Body::Nothing, |(contents, range)| {
                Body::File(contents, range)
            });
            return Err(Rest::Sending(Sending::Alone(sending), length, body).into());
        };
        output.bytes = bytes;
        whole(result, length)?;
        let Some((contents, range)) = body else {
            return Ok(());
        };
        let start = range.start + send_resident(services, socket, &contents, range)?;
        if start == range.end {
            return Ok(());
        }
        let rest = ByteRange { start, ..range };
        Err(Rest::Full(Body::File(contents, rest)).into())
    }

    /// Sends the output and a body that is cached in memory, as far as that takes no wait.
    fn send_with_body(
        &self,
        context: &mut Context<'_>,
        socket: &Descriptor,
        output: &mut Output,
        body: Rc<[u8]>,
        followed: Followed,
    ) -> Result<(), NotSent> {
        let length = output.bytes.len() + body.len();
        let both = (std::mem::take(&mut output.bytes), body);
        let send = SendVectored::new(socket.clone(), both);
        let send = send.flags(followed.flags().bits() as i32);
        let mut sending = self.services.contexts.submit(IoStep::Send, send);
        let Poll::Ready((result, both)) = Pin::new(&mut sending).poll(context) else {
            let rest = Rest::Sending(Sending::WithBody(sending), length, Body::Nothing);
            return Err(rest.into());
        };
        output.bytes = both.0;
        Ok(whole(result, length)?)
    }

    /// Removes an answered request from the input.
    pub(super) fn after_request(&mut self, answered: Answered) -> Next {
        let Answered {
            head_len,
            keep_alive,
        } = answered;
        self.input.drain(..head_len);
        self.answered = true;
        if keep_alive {
            Next::Request
        } else if self.input.is_empty() {
            Next::End
        } else {
            Next::Linger
        }
    }

    /// Sends the rest of a response.
    pub(super) async fn finish_response(&self, begun: BegunResponse<'_>) -> io::Result<Answered> {
        let BegunResponse {
            rest,
            sent,
            request,
            answered,
            followed,
            name,
        } = begun;
        let (services, stream) = (&*self.services, &self.stream);
        let result = self.send_rest(*rest, followed).await;
        let (client, date) = (&self.peer.client, services.now().0);
        log_response(services, stream, (&request, &[]), client, &date, sent, None);
        let output = result?.into();
        services.buffer_pool.put_back(Buffers { output, name });
        Ok(answered)
    }

    async fn send_rest(&self, rest: Rest, followed: Followed) -> io::Result<Vec<u8>> {
        let (services, stream) = (&*self.services, &self.stream);
        let (output, body) = match rest {
            Rest::Sending(sending, length, body) => {
                let output = await_send(services, length, sending).await?;
                (output.into(), body)
            }
            Rest::Full(body) => {
                if let Stream::Plain(socket) = stream {
                    let deadline = send_deadline(services);
                    deadline.wait_until_writable(services, socket).await?;
                }
                (Output::default(), body)
            }
            Rest::Body(output, body) => (output, body),
        };
        send_response(services, stream, output, body, followed, None).await
    }
}

/// Why a response is not sent at once.
enum NotSent {
    Failed(io::Error),
    Left(Box<Rest>),
}

impl From<Rest> for NotSent {
    fn from(rest: Rest) -> NotSent {
        NotSent::Left(Box::new(rest))
    }
}

impl From<io::Error> for NotSent {
    fn from(error: io::Error) -> NotSent {
        NotSent::Failed(error)
    }
}
