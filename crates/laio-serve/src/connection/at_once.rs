//! The shortest way of a request: a whole cached file, answered by one send that does not block.
//!
//! [`Connection::exchange`] answers every request. Its future is large, and an idle connection has none, so each
//! request would pay for creating it. The most common requests need no future, because nothing of them blocks.

use super::from_cache::{Arrival, FromCache, from_cache};
use super::log_lines::log_response;
use super::state::Next;
use super::{Connection, SentResponse};
use crate::buffers::Buffers;
use crate::net::stream::Stream;
use crate::options::IoStep;
use crate::request::response::Body;
use crate::request::send_buffer::{await_send, whole};
use crate::request::send_response::{Followed, send_response};
use laio::ops::Send;
use laio_http::{Parsed, Request, parse};
use laio_rt::{Descriptor, Submission};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

type Sending = Submission<Send<Descriptor, Vec<u8>>>;

/// What became of a request that was to be answered at once.
enum AtOnce {
    /// It takes [`Connection::exchange`]. Nothing has changed.
    No,
    Answered(io::Result<Next>),
    /// The response is decided, and sending it takes longer. The request is still in the input.
    Begun(Box<BegunResponse>),
}

/// A response of which something is left to send.
struct BegunResponse {
    rest: Rest,
    sent: SentResponse,
    /// The length of the request.
    head_len: usize,
    keep_alive: bool,
    followed: Followed,
    name: Vec<u8>,
}

/// What is left to send.
enum Rest {
    /// The socket's buffer is full.
    Sending(Sending, usize),
    /// The head is in the buffer.
    Body(Vec<u8>, Body),
}

impl Connection {
    /// Answers the request at the start of the input with a cached file, if that takes nothing that may block but
    /// sending. Returns `None` for any other request, which [`Connection::exchange`] answers.
    pub(super) async fn answer_at_once(&mut self, number: u32) -> Option<io::Result<Next>> {
        match poll_fn(|context| Poll::Ready(self.try_at_once(context, number))).await {
            AtOnce::No => None,
            AtOnce::Answered(next) => Some(next),
            AtOnce::Begun(begun) => Some(Box::pin(self.finish_response(*begun)).await),
        }
    }

    fn try_at_once(&mut self, context: &mut Context<'_>, number: u32) -> AtOnce {
        let services = &*self.services;
        let Stream::Plain(socket) = &self.stream else {
            return AtOnce::No;
        };
        if services.contexts.sends_by_readiness {
            return AtOnce::No;
        }
        let arrival = Arrival {
            services,
            peer: &self.peer,
            redirects_to_https: self.to_https.is_some(),
            secure: false,
            alt_svc: self.alt_svc.as_deref(),
            is_multiplexed: false,
        };
        let keeps_alive = |request: &Request<'_>| self.may_keep_alive(request, number);
        let Some(found) = from_cache(&arrival, &self.input, 0, keeps_alive) else {
            return AtOnce::No;
        };
        self.connection_state.mark_not_evictable();
        let FromCache {
            request,
            head_len,
            keep_alive,
            buffers: Buffers { output, name },
            body,
            date,
            sent,
        } = found;
        let followed = Followed::after(&request);
        let begun = |rest, name| {
            AtOnce::Begun(Box::new(BegunResponse {
                rest,
                sent,
                head_len,
                keep_alive,
                followed,
                name,
            }))
        };
        if !matches!(body, Body::Nothing) {
            return begun(Rest::Body(output, body), name);
        }
        let length = output.len();
        let flags = followed.flags();
        let send = Send::new(socket.clone(), output).flags(flags.bits() as i32);
        let mut sending = services.contexts.submit(IoStep::Send, send);
        let Poll::Ready((result, output)) = Pin::new(&mut sending).poll(context) else {
            return begun(Rest::Sending(sending, length), name);
        };
        services.buffer_pool.put_back(Buffers { output, name });
        let (stream, client) = (&self.stream, &self.peer.client);
        log_response(services, stream, (&request, &[]), client, &date, sent, None);
        let next = self.after_request(head_len, keep_alive);
        AtOnce::Answered(whole(result, length).map(|()| next))
    }

    /// Removes an answered request from the input.
    fn after_request(&mut self, head_len: usize, keep_alive: bool) -> Next {
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

    async fn finish_response(&mut self, begun: BegunResponse) -> io::Result<Next> {
        let BegunResponse {
            rest,
            sent,
            head_len,
            keep_alive,
            followed,
            name,
        } = begun;
        let services = self.services.clone();
        let result = match rest {
            Rest::Sending(sending, length) => await_send(&services, length, sending).await,
            Rest::Body(output, body) => {
                send_response(&services, &self.stream, output, body, followed, None).await
            }
        };
        if let Ok(Parsed::Complete { request, .. }) = parse(&self.input, &services.limits.head()) {
            let (stream, client) = (&self.stream, &self.peer.client);
            let date = services.now().0;
            log_response(
                &services,
                stream,
                (&request, &[]),
                client,
                &date,
                sent,
                None,
            );
        }
        let output = result?;
        services.buffer_pool.put_back(Buffers { output, name });
        Ok(self.after_request(head_len, keep_alive))
    }
}
