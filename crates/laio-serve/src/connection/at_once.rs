//! The shortest way of a response over HTTP/1.1: a whole cached file, by one send that does not block.
//!
//! [`Connection::exchange`] answers every request. Its future is large, and an idle connection has none, so each
//! request would pay for creating it. The most common requests need no future, because nothing of them blocks.

use super::from_cache::FromCache;
use super::log_lines::log_response;
use super::state::Next;
use super::{Connection, SentResponse};
use laio::ops::Send;
use laio_http::{Output, Request};
use laio_rt::{Descriptor, Submission};
use laio_serve_base::options::IoStep;
use laio_serve_core::request::response::Body;
use laio_serve_core::request::send_buffer::{await_send, whole};
use laio_serve_core::request::send_response::{Followed, send_response};
use laio_serve_net::buffers::Buffers;
use laio_serve_net::stream::Stream;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

type Sending = Submission<Send<Descriptor, Vec<u8>>>;

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
    rest: Rest,
    sent: SentResponse,
    request: Request<'h>,
    answered: Answered,
    followed: Followed,
    name: Vec<u8>,
}

/// What is left to send.
enum Rest {
    /// The socket's buffer is full.
    Sending(Sending, usize),
    /// The head is in the output.
    Body(Output, Body),
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
        let begun = |request, answered, rest, name| {
            AtOnce::Begun(Box::new(BegunResponse {
                rest,
                sent,
                request,
                answered,
                followed,
                name,
            }))
        };
        let socket = match &self.stream {
            Stream::Plain(socket) if matches!(body, Body::Nothing) => socket.clone(),
            _ => return begun(request, answered, Rest::Body(output, body), name),
        };
        let length = output.bytes.len();
        let bytes = std::mem::take(&mut output.bytes);
        let send = Send::new(socket, bytes).flags(followed.flags().bits() as i32);
        let mut sending = services.contexts.submit(IoStep::Send, send);
        let Poll::Ready((result, bytes)) = Pin::new(&mut sending).poll(context) else {
            return begun(request, answered, Rest::Sending(sending, length), name);
        };
        output.bytes = bytes;
        services.buffer_pool.put_back(Buffers { output, name });
        let (stream, client) = (&self.stream, &self.peer.client);
        log_response(services, stream, (&request, &[]), client, &date, sent, None);
        let result = whole(result, length);
        AtOnce::Answered(result.map(|()| answered))
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
        let result = match rest {
            Rest::Sending(sending, length) => await_send(services, length, sending).await,
            Rest::Body(output, body) => {
                send_response(services, stream, output, body, followed, None).await
            }
        };
        let (client, date) = (&self.peer.client, services.now().0);
        log_response(services, stream, (&request, &[]), client, &date, sent, None);
        let output = result?.into();
        services.buffer_pool.put_back(Buffers { output, name });
        Ok(answered)
    }
}
