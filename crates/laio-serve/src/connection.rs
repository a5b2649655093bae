//! A connection: receives requests and answers them, one after the other.

mod at_once;
mod from_cache;
mod http2;
mod log_lines;
mod page_memory;
pub(crate) mod proxy_header;
mod refusals;
pub(crate) mod running;
mod stages;
pub(crate) mod state;
pub(crate) mod streams;

use at_once::AtOnce;
use from_cache::{Arrival, FromCache, from_cache};
use laio_http::{BodySkip, Framing, Output, Parsed, Request, RequestFields, Status, parse};
use laio_rt::Descriptor;
use laio_rt::time::{Sleep, sleep_until};
use laio_serve_base::addresses::AddressPermit;
use laio_serve_base::clients::Peer;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::{Memory, MemoryUse};
use laio_serve_core::request::auth_state::AuthState;
use laio_serve_core::request::receive::{
    Skipped, handshake, linger, receive, send_close_notify, skip_body,
};
use laio_serve_core::request::redirect_to_https::{RedirectToHttps, came_by_https};
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::request::send_response::{Followed, send_response};
use laio_serve_core::services::Services;
use laio_serve_net::client_watch::ClientWatch;
use laio_serve_net::memory::connection::ConnectionMemory;
use laio_serve_net::socket::Expect;
use laio_serve_net::stream::Stream;
use laio_serve_net::tls::session::is_plain_http;
use laio_serve_proxy::auth_request::AskedAsUpstreams;
use log_lines::log_response;
use running::Connections;
pub use stages::request_stages;
use stages::{Exchange, Exchanged};
use state::{ConnectionState, DrainState, Next};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;
use streams::Streams;

/// One client connection and its buffers.
pub(crate) struct Connection {
    services: Rc<Services>,
    connections: Rc<Connections>,
    stream: Stream,
    peer: Peer,
    /// Bytes received and not yet consumed.
    input: Vec<u8>,
    /// Limits the waits for the client's bytes, one after the other.
    receive_limit: Sleep,
    /// A request was answered, so the next receive will probably block.
    answered: bool,
    connection_state: Rc<ConnectionState>,
    /// Redirects the requests of this connection to https.
    to_https: Option<Rc<RedirectToHttps>>,
    /// The value of `Alt-Svc`.
    alt_svc: Option<Rc<str>>,
    /// Counts this connection for its client address.
    _address_permit: Option<AddressPermit>,
}

/// What the access log says of a response.
#[derive(Clone, Copy)]
struct SentResponse {
    status: Status,
    length: u64,
    /// When the first bytes of the request arrived.
    started: Instant,
}

/// How serving HTTP/1.1 has ended.
enum Served {
    Over,
    /// The client continues in HTTP/2.
    Multiplex,
    /// The client has sent plain HTTP to a TLS port.
    PlainHttp,
}

/// The result of waiting for more bytes of a request.
enum ReceivedMore {
    Bytes(Vec<u8>),
    Closed,
    TooSlow,
}

impl Connection {
    pub(crate) fn new(
        services: Rc<Services>,
        connections: Rc<Connections>,
        stream: Stream,
        peer: Peer,
        connection_state: Rc<ConnectionState>,
        to_https: Option<Rc<RedirectToHttps>>,
        address_permit: Option<AddressPermit>,
    ) -> Connection {
        Connection {
            services,
            connections,
            stream,
            peer,
            input: Vec::new(),
            receive_limit: sleep_until(Instant::now()),
            answered: false,
            connection_state,
            to_https,
            alt_svc: None,
            _address_permit: address_permit,
        }
    }

    /// Lets the responses announce HTTP/3.
    pub(crate) fn with_alt_svc(self, alt_svc: Option<Rc<str>>) -> Connection {
        Connection { alt_svc, ..self }
    }

    /// Returns the socket of the connection.
    pub(crate) fn socket(&self) -> Option<Descriptor> {
        self.stream.socket()
    }

    /// Serves until the client closes, violates the protocol or reaches a limit. An I/O error ends
    /// the connection, because no response can be sent.
    // Not an `async fn`, which would contain the connection twice.
    pub(crate) fn serve(self) -> impl Future<Output = ()> {
        let mut connection = self;
        async move {
            // Boxed, because HTTP/1.1 connections do not need this memory.
            match connection.serve_requests().await {
                Served::Over => {}
                Served::Multiplex => Box::pin(connection.multiplex()).await,
                Served::PlainHttp => Box::pin(connection.refuse_plain_http()).await,
            }
        }
    }

    /// Serves HTTP/1.1.
    async fn serve_requests(&mut self) -> Served {
        match handshake(&self.services.limits, &self.stream).await {
            Ok(false) => {}
            Ok(true) => return Served::Multiplex,
            Err(error) if is_plain_http(&error) => return Served::PlainHttp,
            Err(_) => return Served::Over,
        }
        for count in 1.. {
            match self.wait_for_request().await {
                Ok(true) => {}
                Ok(false) => {
                    send_close_notify(&self.services.limits, &self.stream).await;
                    break;
                }
                Err(_) => break,
            }
            let next = match self.answer_at_once(count).await {
                Some(next) => next,
                // Boxed, so that idle connections do not reserve memory for this future.
                None => Box::pin(self.exchange(count)).await,
            };
            match next {
                Ok(Next::Request) => {}
                Ok(Next::Multiplex) => return Served::Multiplex,
                Ok(Next::End) => {
                    send_close_notify(&self.services.limits, &self.stream).await;
                    break;
                }
                Err(_) => break,
                Ok(Next::Linger) => {
                    self.connection_state.mark_evictable();
                    Box::pin(linger(&self.services, &self.stream)).await;
                    break;
                }
            }
            // With the back end sync nothing else suspends this task; let the log writer and the
            // stop signal run.
            if self.services.contexts.sync {
                laio_rt::yield_now().await;
            }
        }
        Served::Over
    }

    /// Answers the request at the start of the input with a cached file, if that takes nothing that may
    /// block but sending. Returns `None` for any other request, which [`Connection::exchange`] answers.
    async fn answer_at_once(&mut self, number: u32) -> Option<io::Result<Next>> {
        let this = &*self;
        let tried = poll_fn(|context| {
            let found = this.find_in_cache(number);
            Poll::Ready(found.map(|(found, length)| this.begin_response(context, found, length)))
        });
        let answered = match tried.await? {
            AtOnce::Answered(answered) => answered,
            AtOnce::Begun(begun) => Box::pin(this.finish_response(*begun)).await,
        };
        Some(answered.map(|answered| self.after_request(answered)))
    }

    /// Returns the response to a request that a cached file alone answers, and the length of the request's
    /// head. Returns `None` for a request that takes [`Connection::exchange`], with nothing changed.
    fn find_in_cache(&self, number: u32) -> Option<(FromCache<'_>, usize)> {
        let services = &*self.services;
        if !matches!(self.stream, Stream::Plain(_)) || services.contexts.sends_by_readiness {
            return None;
        }
        let arrival = Arrival {
            services,
            peer: &self.peer,
            redirects_to_https: self.to_https.is_some(),
            secure: false,
            alt_svc: self.alt_svc.as_deref(),
            directory_answers: &self.connections.features.directory_answers,
            is_multiplexed: false,
        };
        let mut length = 0;
        let read = || match parse(&self.input, &services.limits.head()) {
            Ok(Parsed::Complete { request, head_len }) => {
                length = head_len;
                Some(request)
            }
            _ => None,
        };
        let keeps_alive = |request: &Request<'_>| self.may_keep_alive(request, number);
        let found = from_cache(&arrival, read, 0, keeps_alive)?;
        self.connection_state.mark_not_evictable();
        Some((found, length))
    }

    /// Waits until a request begins. Returns false if the connection should end first: the client
    /// closed it, it was idle for too long, it was evicted, or the worker closes idle connections.
    async fn wait_for_request(&mut self) -> io::Result<bool> {
        if !self.input.is_empty() {
            self.connection_state.set_drain_state(DrainState::InRequest);
            return Ok(true);
        }
        let drain_state = if self.answered {
            DrainState::Between
        } else {
            DrainState::New
        };
        self.connection_state.set_drain_state(drain_state);
        if self.connections.closes_when(drain_state) {
            return Ok(false);
        }
        let input = std::mem::take(&mut self.input);
        match self.receive_more(input, None).await? {
            ReceivedMore::Bytes(input) => self.input = input,
            ReceivedMore::Closed | ReceivedMore::TooSlow => return Ok(false),
        }
        Ok(true)
    }

    /// Continues in HTTP/2.
    async fn multiplex(self) {
        let Connection {
            services,
            connections,
            stream,
            peer,
            input,
            connection_state,
            to_https,
            alt_svc,
            _address_permit,
            ..
        } = self;
        let memory = ConnectionMemory::new(
            &services.memory,
            services.limits.head_bytes,
            Memory::most(MemoryUse::Responses),
        );
        let streams = Streams {
            services,
            memory,
            connections,
            peer,
            to_https,
            alt_svc,
            _address_permit,
        };
        http2::serve(Rc::new(streams), stream, input, connection_state).await;
    }

    /// Answers the request of a stream of HTTP/2 or HTTP/3. Returns whether the response was sent completely.
    async fn answer_one(mut self, head: RequestFields) -> bool {
        let started = Instant::now();
        let limits = self.services.limits.head();
        let answered = match Request::from_fields(&head, &limits) {
            Ok(request) => self.answer(&request, &[], 1, started).await.map(drop),
            Err(rejection) => {
                let refused = self.refuse(rejection.status(), rejection.detail());
                refused.await.map(drop)
            }
        };
        answered.is_ok()
    }

    /// Receives the request with this number, whose first bytes have arrived, and answers it.
    async fn exchange(&mut self, number: u32) -> io::Result<Next> {
        let started = Instant::now();
        // Taken, so that the request can borrow from it while the rest of `self` is in use.
        let mut input = std::mem::take(&mut self.input);
        let services = self.services.clone();
        let (request, head_len) = loop {
            match parse(&input, &services.limits.head()) {
                Ok(Parsed::Complete { request, head_len }) => break (request, head_len),
                Ok(Parsed::Partial) => self.connection_state.mark_evictable(),
                Err(rejection) => return self.refuse_head(number, input, rejection).await,
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
        let after_head = &input[head_len..];
        match self.answer(&request, after_head, number, started).await? {
            Exchanged::Over(next) => Ok(next),
            Exchanged::BodyUnread {
                keep_alive,
                body,
                body_len,
            } => {
                input.drain(..head_len + body_len);
                self.finish_request(keep_alive, input, body).await
            }
            Exchanged::InputLeft {
                keep_alive,
                body,
                input,
            } => self.finish_request(keep_alive, input, body).await,
        }
    }

    /// Answers the request with this number, which began to arrive at `started`.
    async fn answer(
        &mut self,
        request: &Request<'_>,
        after_head: &[u8],
        number: u32,
        started: Instant,
    ) -> io::Result<Exchanged> {
        let (services, connections) = (self.services.clone(), self.connections.clone());
        self.connection_state.mark_not_evictable();
        observe::since(Stage::Receive, started);
        let (date, second) = services.now();
        let keep_alive = self.may_keep_alive(request, number);
        let client = services.trusted_proxies.client(request, &self.peer);
        let secure = self.is_secure(request);
        let date = (&date, second);
        let mut ctx = RequestContext::new(&services, request, &client, date, keep_alive, secure);
        let alt_svc = self.alt_svc.clone();
        ctx.alt_svc = alt_svc.as_deref();
        ctx.directory_answers = &connections.features.directory_answers;
        if self.stream.is_multiplexed() {
            ctx.inline_body = Memory::SHORT_BODY;
        }
        ctx.note_site();
        // Boxed, because few sites have auth servers.
        let auth = ctx.site.auth_requests.as_ref().map(|rules| {
            let client = ClientWatch::new(&self.stream, request.framing != Framing::None);
            let servers = &AskedAsUpstreams;
            Box::new(AuthState::new(rules, servers, request, &self.peer, client))
        });
        let cleaned = auth.as_ref();
        let cleaned = cleaned.map(|auth| Box::new(auth.rules.without_copied(request)));
        if let Some(cleaned) = &cleaned {
            ctx.auth = auth.as_deref();
            ctx.request = cleaned;
        }
        let rewrites = ctx.site.rewrites.as_ref();
        let target = rewrites.and_then(|rules| rules.of(ctx.request, &ctx.site.redirects));
        // Boxed, because few requests have it.
        let rewritten = target.as_ref().map(|it| Box::new(it.apply(ctx.request)));
        if let Some(rewritten) = &rewritten {
            ctx = ctx.rewritten_as(rewritten);
        }
        let exchange = Exchange::new(ctx, after_head, started);
        self.run_stages(exchange).await
    }

    /// Whether the client uses https: with this server, or with the trusted proxy in front of it.
    fn is_secure(&self, request: &Request<'_>) -> bool {
        self.stream.is_secure() || (self.peer.is_trusted && came_by_https(request))
    }

    /// Whether the connection may stay open after a request with this number.
    fn may_keep_alive(&self, request: &Request<'_>, number: u32) -> bool {
        request.keep_alive
            && number != self.services.limits.requests
            && !self.connections.is_draining()
            && self.connection_state.may_keep_alive()
    }

    /// Sends a response, and returns the emptied buffer. The access log gets a line whether or not sending
    /// succeeds.
    async fn send_and_log(
        &self,
        ctx: RequestContext<'_>,
        output: Output,
        response: Response,
        followed: Followed,
        started: Instant,
    ) -> io::Result<Vec<u8>> {
        let services = &*self.services;
        let sent_response = SentResponse {
            status: response.status,
            length: response.length,
            started,
        };
        let fields = services.log.fields_of(&output);
        let speed = ctx.site.speeds.of(ctx.request, ctx.before_rewrite);
        let (stream, body) = (&self.stream, response.body);
        let sent = send_response(services, stream, output, body, followed, speed).await;
        let added = ctx.auth.map(AuthState::fields);
        let added = added.as_deref().unwrap_or_default();
        log_response(
            services,
            stream,
            (ctx.request, added),
            ctx.client,
            ctx.date,
            sent_response,
            fields.as_ref(),
        );
        sent
    }

    /// Makes the connection ready for the next request, which begins after the rest of this one's
    /// body.
    async fn finish_request(
        &mut self,
        keep_alive: bool,
        input: Vec<u8>,
        body: BodySkip,
    ) -> io::Result<Next> {
        self.answered = true;
        if self.stream.is_multiplexed() {
            return Ok(Next::End);
        }
        if !keep_alive {
            let nothing_unread = input.is_empty() && body.is_done();
            return Ok(if nothing_unread {
                Next::End
            } else {
                Next::Linger
            });
        }
        if body.is_done() {
            self.input = input;
            return Ok(Next::Request);
        }
        let (input, skipped) = skip_body(&self.services, &self.stream, input, body).await?;
        self.input = input;
        Ok(match skipped {
            Skipped::Whole => Next::Request,
            Skipped::Closed => Next::End,
            Skipped::Refused => Next::Linger,
        })
    }

    /// Receives more of a request head. `started` is when its first bytes arrived; `None`: nothing
    /// has arrived.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` contains its arguments twice, and every idle connection has this future"
    )]
    fn receive_more(
        &mut self,
        input: Vec<u8>,
        started: Option<Instant>,
    ) -> impl Future<Output = io::Result<ReceivedMore>> {
        async move {
            if self.connection_state.is_evicted() {
                self.connections.note_eviction();
                return Ok(ReceivedMore::Closed);
            }
            let limits = &self.services.limits;
            let deadline = match started {
                None => self.services.contexts.now() + limits.idle_time,
                Some(start) => start + limits.head_time,
            };
            self.receive_limit.reset(deadline);
            let (contexts, before) = (&self.services.contexts, input.len());
            let expect = match started {
                None if self.answered || receives_in_batches() => Expect::Block,
                _ => Expect::Arrived,
            };
            let limit = &mut self.receive_limit;
            let received = receive(contexts, &self.stream, input, expect, limit).await;
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
    }
}

/// Whether the ring receives for many connections with one system call. Then a new connection does not
/// attempt to receive its first request by itself: that would cost a call for each connection, and a
/// check for changed files, which otherwise covers all requests that arrive together.
fn receives_in_batches() -> bool {
    laio_rt::with_context(|context| context.info().has_ring())
}
