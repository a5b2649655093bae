//! The shortest way of a request: a whole cached file, answered by one send that does not block.
//!
//! [`Connection::exchange`] answers every request. Its future is large, and an idle connection has none, so each
//! request would pay for creating it. The most common requests need no future, because nothing of them blocks.

use super::from_cache::{Arrival, FromCache, from_cache};
use super::log_lines::log_response;
use super::state::Next;
use super::{Connection, SentResponse};
use laio::ops::Send;
use laio_http::{Output, Parsed, Request, parse};
use laio_rt::{Descriptor, Submission};
use laio_serve_base::options::IoStep;
use laio_serve_core::request::response::Body;
use laio_serve_core::request::send_buffer::{await_send, whole};
use laio_serve_core::request::send_response::{Followed, send_response};
use laio_serve_net::buffers::Buffers;
use laio_serve_net::stream::Stream;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

type Sending = Submission<Send<Descriptor, Vec<u8>>>;

/// What became of a request that was to be answered at once.
enum AtOnce<'h> {
    Answered(io::Result<Answered>),
    /// The response is decided, and sending it takes longer.
    Begun(Box<BegunResponse<'h>>),
}

/// A request whose response is sent.
struct Answered {
    head_len: usize,
    keep_alive: bool,
}

/// A response of which something is left to send.
struct BegunResponse<'h> {
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
    /// Answers the request at the start of the input with a cached file, if that takes nothing that may block but
    /// sending. Returns `None` for any other request, which [`Connection::exchange`] answers.
    pub(super) async fn answer_at_once(&mut self, number: u32) -> Option<io::Result<Next>> {
        let this = &*self;
        let tried = poll_fn(|context| Poll::Ready(this.try_at_once(context, number)));
        let answered = match tried.await? {
            AtOnce::Answered(answered) => answered,
            AtOnce::Begun(begun) => Box::pin(this.finish_response(*begun)).await,
        };
        Some(answered.map(|answered| self.after_request(answered)))
    }

    /// Returns what a request over HTTP/1.1 without TLS has from this connection.
    fn arrival(&self) -> Arrival<'_> {
        Arrival {
            services: &self.services,
            peer: &self.peer,
            redirects_to_https: self.to_https.is_some(),
            secure: false,
            alt_svc: self.alt_svc.as_deref(),
            directory_answers: &self.connections.features.directory_answers,
            is_multiplexed: false,
        }
    }

    /// Returns `None` for a request that takes [`Connection::exchange`], with nothing changed.
    fn try_at_once(&self, context: &mut Context<'_>, number: u32) -> Option<AtOnce<'_>> {
        let services = &*self.services;
        let Stream::Plain(socket) = &self.stream else {
            return None;
        };
        if services.contexts.sends_by_readiness {
            return None;
        }
        let keeps_alive = |request: &Request<'_>| self.may_keep_alive(request, number);
        let mut head_len = 0;
        let read = || match parse(&self.input, &services.limits.head()) {
            Ok(Parsed::Complete {
                request,
                head_len: length,
            }) => {
                head_len = length;
                Some(request)
            }
            _ => None,
        };
        let found = from_cache(&self.arrival(), read, 0, keeps_alive)?;
        self.connection_state.mark_not_evictable();
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
            Some(AtOnce::Begun(Box::new(BegunResponse {
                rest,
                sent,
                request,
                answered,
                followed,
                name,
            })))
        };
        if !matches!(body, Body::Nothing) {
            return begun(request, answered, Rest::Body(output, body), name);
        }
        let length = output.bytes.len();
        let bytes = std::mem::take(&mut output.bytes);
        let send = Send::new(socket.clone(), bytes).flags(followed.flags().bits() as i32);
        let mut sending = services.contexts.submit(IoStep::Send, send);
        let Poll::Ready((result, bytes)) = Pin::new(&mut sending).poll(context) else {
            return begun(request, answered, Rest::Sending(sending, length), name);
        };
        output.bytes = bytes;
        services.buffer_pool.put_back(Buffers { output, name });
        let (stream, client) = (&self.stream, &self.peer.client);
        log_response(services, stream, (&request, &[]), client, &date, sent, None);
        let result = whole(result, length);
        Some(AtOnce::Answered(result.map(|()| answered)))
    }

    /// Removes an answered request from the input.
    fn after_request(&mut self, answered: Answered) -> Next {
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

    async fn finish_response(&self, begun: BegunResponse<'_>) -> io::Result<Answered> {
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
