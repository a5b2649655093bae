//! One exchange on a connection: a request is received and answered.

use super::client::Client;
use super::forward::{ClientBody, Forwarded, forward};
use super::http2_preface;
use super::running::Connections;
use super::state::{ConnectionState, DrainState};
use crate::addresses::AddressPermit;
use crate::buffers::Buffers;
use crate::net::stream::Stream;
use crate::observe::{self, Stage};
use crate::request::answer::answer;
use crate::request::body::send;
use crate::request::cached_answer::answer_from_cache;
use crate::request::pages;
use crate::request::receive::{Skipped, receive, receive_next, skip_body};
use crate::request::reply::{Body, Reply, RequestContext};
use crate::services::Services;
use crate::upstream::target;
use laio_http::log::LogRecord;
use laio_http::response::CONTINUE;
use laio_http::{BodySkip, HttpDate, Parsed, Status, parse};
use laio_rt::Descriptor;
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// One client connection and its buffers.
pub(crate) struct Connection {
    pub(super) services: Rc<Services>,
    pub(super) connections: Rc<Connections>,
    pub(super) stream: Stream,
    pub(super) peer: Rc<str>,
    /// Bytes received and not yet consumed.
    pub(super) input: Vec<u8>,
    /// A request was answered, so the next receive will probably block.
    pub(super) answered: bool,
    pub(super) connection_state: Rc<ConnectionState>,
    /// Counts this connection for its client address.
    pub(super) _address_permit: Option<AddressPermit>,
}

/// How the connection continues after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Request,
    End,
    /// Close after discarding input, because the client may still be sending.
    Linger,
    /// Switch to HTTP/2.
    Multiplex,
}

/// The result of waiting for more bytes of a request.
pub(super) enum ReceivedMore {
    Bytes(Vec<u8>),
    Closed,
    TooSlow,
}

impl Connection {
    pub(crate) fn new(
        services: Rc<Services>,
        connections: Rc<Connections>,
        stream: Stream,
        peer: Rc<str>,
        connection_state: Rc<ConnectionState>,
        address_permit: Option<AddressPermit>,
    ) -> Connection {
        Connection {
            services,
            connections,
            stream,
            peer,
            input: Vec::new(),
            answered: false,
            connection_state,
            _address_permit: address_permit,
        }
    }

    /// Returns the socket of the connection.
    pub(crate) fn socket(&self) -> Option<Descriptor> {
        self.stream.socket()
    }

    /// Returns a connection for one HTTP/2 request whose head is `input`.
    pub(super) fn for_http2_stream(
        services: Rc<Services>,
        connections: Rc<Connections>,
        stream: Stream,
        input: Vec<u8>,
        peer: Rc<str>,
    ) -> Connection {
        let connection_state = ConnectionState::for_http2_stream();
        Connection {
            input,
            ..Connection::new(services, connections, stream, peer, connection_state, None)
        }
    }

    /// Answers the request of an HTTP/2 stream. Returns whether the answer was sent completely.
    pub(super) async fn answer_one(mut self) -> bool {
        self.exchange(1).await.is_ok()
    }

    /// Receives the request with this number, whose first bytes have arrived, and answers it.
    pub(super) async fn exchange(&mut self, number: u32) -> io::Result<Next> {
        let last = number == self.services.limits.requests;
        // Taken, so that the request can borrow from it while the rest of `self` is in use.
        let mut input = std::mem::take(&mut self.input);
        let services = self.services.clone();
        let started = Instant::now();
        let (request, head_len) = loop {
            match parse(&input, &services.limits.head) {
                Ok(Parsed::Complete { request, head_len }) => break (request, head_len),
                Ok(Parsed::Partial) => self.connection_state.mark_evictable(),
                // The HTTP/2 preface is not a valid HTTP/1.1 head.
                Err(_)
                    if number == 1
                        && self.connections.http2.is_some()
                        && http2_preface::begins(&input) =>
                {
                    self.input = input;
                    return Ok(Next::Multiplex);
                }
                Err(_)
                    if number == 1
                        && self.expects_preface()
                        && http2_preface::is_invalid(&input) =>
                {
                    return Ok(Next::End);
                }
                Err(rejection) => {
                    return self.refuse(rejection.status(), rejection.detail()).await;
                }
            }
            input = match self.receive_more(input, Some(started)).await? {
                ReceivedMore::Bytes(input) => input,
                ReceivedMore::Closed => return Ok(Next::End),
                ReceivedMore::TooSlow => {
                    let detail = "The request did not arrive in time.";
                    return self.refuse(Status::REQUEST_TIMEOUT, detail).await;
                }
            };
        };
        self.connection_state.mark_not_evictable();
        observe::since(Stage::Receive, started);
        let site = services.sites.of(request.host);
        let (date, second) = services.clock.now();
        let mut ctx = RequestContext {
            request: &request,
            site,
            date: &date,
            second,
            keep_alive: request.keep_alive
                && !last
                && !self.connections.is_draining()
                && self.connection_state.may_keep_alive(),
            varies_by_accept: false,
        };
        if let Ok(path) = &request.path
            && let Some(route) = target::route(&site.routes, path)
        {
            let body = BodySkip::new(request.framing, services.limits.upstream.body_bytes);
            let body = match body {
                Ok(body) => body,
                Err(rejection) => return self.refuse(rejection.status(), rejection.detail()).await,
            };
            let after_head = input[head_len..].to_vec();
            let body = ClientBody::new(self.client(), request.expects_continue, after_head, body);
            return match forward(ctx, (route, path), started, body).await? {
                Some(Forwarded {
                    input,
                    keep_alive,
                    whole,
                }) => {
                    self.answered = true;
                    self.input = input;
                    Ok(match (keep_alive, whole) {
                        (true, _) => Next::Request,
                        (false, true) if self.input.is_empty() => Next::End,
                        (false, _) => Next::Linger,
                    })
                }
                None => Ok(Next::End),
            };
        }
        // Parse the received part of the body before answering, so that bad framing can be refused.
        let skip =
            BodySkip::new(request.framing, services.limits.body_bytes).and_then(|mut skip| {
                let used = skip.advance(&input[head_len..])?;
                Ok((skip, head_len + used))
            });
        let (skip, used) = match skip {
            Ok(skip) => skip,
            Err(rejection) => {
                return self.refuse(rejection.status(), rejection.detail()).await;
            }
        };
        // The client waits for 100 Continue, and the answer does not need the body. GET and HEAD
        // get 100 Continue, and their body is discarded, so the connection can be reused. Other
        // methods get only a final answer, after which only the client knows whether it still sends
        // the body (RFC 9110, section 10.1.1), so the connection cannot be reused.
        let waits = request.expects_continue && input.len() == head_len;
        if waits && !matches!(request.method.as_str(), "GET" | "HEAD") {
            ctx.keep_alive = false;
        }
        let Buffers {
            mut output,
            mut name,
        } = services.buffer_pool.take();
        if waits && ctx.keep_alive {
            output.extend_from_slice(CONTINUE);
        }
        let keep_alive = ctx.keep_alive;
        let reply = match answer_from_cache(&services, ctx, &mut output, &mut name) {
            Some(reply) => reply,
            None => answer(&services, ctx, &mut output, &mut name).await,
        };
        // The access log gets a line whether or not sending succeeds.
        let sent = send(&services, &self.stream, output, reply.body).await;
        let client = self.client();
        client.log(ctx, started, reply.status, reply.length);
        let output = sent?;
        services.buffer_pool.put_back(Buffers { output, name });
        self.answered = true;
        input.drain(..used);
        if self.stream.is_http2_stream() {
            return Ok(Next::End);
        }
        if !keep_alive {
            let nothing_unread = input.is_empty() && skip.is_done();
            return Ok(if nothing_unread {
                Next::End
            } else {
                Next::Linger
            });
        }
        if skip.is_done() {
            self.input = input;
            return Ok(Next::Request);
        }
        let (input, skipped) = skip_body(&services, &self.stream, input, skip).await?;
        self.input = input;
        Ok(match skipped {
            Skipped::Whole => Next::Request,
            Skipped::Closed => Next::End,
            Skipped::Refused => Next::Linger,
        })
    }

    /// Receives more of a request head. `started` is when its first bytes arrived; `None`: nothing
    /// has arrived.
    pub(super) async fn receive_more(
        &self,
        input: Vec<u8>,
        started: Option<Instant>,
    ) -> io::Result<ReceivedMore> {
        if self.connection_state.is_evicted() {
            self.connections.note_eviction();
            return Ok(ReceivedMore::Closed);
        }
        let limits = &self.services.limits;
        let time = match started {
            None => limits.idle_time,
            Some(start) => limits.head_time.saturating_sub(start.elapsed()),
        };
        let (contexts, before) = (&self.services.contexts, input.len());
        let received = if time.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else if started.is_none() && self.answered {
            receive_next(contexts, &self.stream, input, time).await
        } else {
            receive(contexts, &self.stream, input, time).await
        };
        match received {
            Ok(input) if input.len() == before => Ok(ReceivedMore::Closed),
            Ok(input) => {
                self.connection_state.set_drain_state(DrainState::InRequest);
                Ok(ReceivedMore::Bytes(input))
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(match started {
                Some(_) => ReceivedMore::TooSlow,
                None => ReceivedMore::Closed,
            }),
            Err(error) => Err(error),
        }
    }

    /// Whether the client may choose HTTP/2 by sending its preface.
    fn expects_preface(&self) -> bool {
        self.connections.http2.is_some() && self.stream.plain().is_some()
    }

    fn client(&self) -> Client<'_> {
        Client {
            services: &self.services,
            stream: &self.stream,
            peer: &self.peer,
        }
    }

    pub(super) fn log_unread(&self, reply: &Reply, date: &HttpDate) {
        self.services.log.write(&LogRecord {
            remote: &self.peer,
            status: reply.status,
            bytes: reply.length,
            ..LogRecord::unread(date)
        });
    }

    /// Answers input that is not a valid request, and ends the connection.
    async fn refuse(&mut self, status: Status, detail: &str) -> io::Result<Next> {
        let (date, _) = self.services.clock.now();
        let mut output = Vec::new();
        let reply = pages::malformed_request(&mut output, &date, status, detail);
        self.log_unread(&reply, &date);
        send(&self.services, &self.stream, output, Body::Nothing).await?;
        Ok(Next::Linger)
    }
}
