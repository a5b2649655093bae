//! Requests to upstreams in HTTP/1.1 and FastCGI: a connection carries one exchange at a time.

use super::fields::Hops;
use super::proxy_request::{ProxyRequest, Source, may_be_repeated};
use super::upstream_head::UpstreamHead;
use super::{fastcgi, request, trailers};
use http::HeaderMap;
use laio_http::fastcgi::{Event, Records, STDIN, push_stream, push_stream_end};
use laio_http::upstream::{Response, parse_cgi, parse_response};
use laio_http::{BodySkip, Framing, Method, Status};
use laio_rt::sync::Permit;
use laio_rt::time::sleep;
use laio_serve_base::messages::print;
use laio_serve_base::options::{Protocol, UpstreamLimits};
use laio_serve_net::stream::Stream;
use laio_serve_upstream::error::{Progress, UpstreamError};
use laio_serve_upstream::link::{Deadline, Link, Transport, send};
use laio_serve_upstream::route::{InFlight, Member};
use laio_serve_upstream::target::Target;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

/// Sends a request to one upstream. If a reused connection turns out to be closed, repeats an idempotent
/// request on a new one.
pub(super) async fn ask(
    proxy_request: &ProxyRequest<'_>,
    member: &Rc<Member>,
    source: &mut impl Source,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<(UpstreamHead, LinkBody), UpstreamError> {
    let in_flight = member.begin();
    let (target, pool) = (&member.target, &member.pool);
    let permit = pool.permit(limits, 1).await?;
    let header = target.proxy_header(|| proxy_request.ends());
    let connect = || {
        let time = deadline.within(limits.connect_time);
        target.connect(header.clone(), time, limits)
    };
    let link = match pool.take(limits, &header) {
        Some(link) => link,
        None => connect().await?,
    };
    let mut lease = Lease {
        link,
        permit,
        in_flight,
        member: member.clone(),
        limits: limits.clone(),
        deadline,
        protocol_state: ProtocolState::for_protocol(&target.protocol),
    };
    let mut result = attempt(proxy_request, target, source, &mut lease).await;
    if let Err(error) = &result
        && error.progress == Progress::Stale
        && may_be_repeated(proxy_request, error, source)
    {
        pool.forget();
        lease.link = connect().await?;
        lease.protocol_state = ProtocolState::for_protocol(&target.protocol);
        result = attempt(proxy_request, target, source, &mut lease).await;
    }
    let (head, whole) = result?;
    let body = LinkBody::new(lease, &head, whole);
    Ok((head, body))
}

/// Sends the body while waiting for the response, because an upstream may refuse a request early.
async fn attempt(
    proxy_request: &ProxyRequest<'_>,
    target: &Target,
    source: &mut impl Source,
    lease: &mut Lease,
) -> Result<(UpstreamHead, bool), UpstreamError> {
    let (limits, deadline) = (lease.limits.clone(), lease.deadline);
    let mut out = Vec::new();
    let outgoing = match target.protocol {
        Protocol::Http { .. } | Protocol::Http2 { .. } => {
            request::push_head(&mut out, proxy_request, target);
            match proxy_request.ctx.request.framing {
                Framing::Chunked => Outgoing::Chunked,
                Framing::None | Framing::Length(_) => Outgoing::Plain,
            }
        }
        Protocol::FastCgi => {
            fastcgi::push_head(&mut out, proxy_request, target);
            Outgoing::FastCgi
        }
    };
    let transport = lease.link.transport();
    let reused = lease.link.reused;
    let to_head = proxy_request.ctx.request.method == Method::Head;
    let received = Cell::new(!lease.link.input.is_empty());
    let mut first_byte = None;
    let mut pump = pin!(pump(transport, out, source, outgoing, &limits, deadline));
    let mut head = pin!(read_head(lease, to_head, &received, proxy_request.stream));
    let mut pumped = None;
    let answered = poll_fn(|context| {
        if pumped.is_none()
            && let Poll::Ready(result) = pump.as_mut().poll(context)
        {
            match result {
                Ok(whole) => pumped = Some(whole),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if let Poll::Ready(result) = head.as_mut().poll(context) {
            let whole = pumped == Some(true);
            return Poll::Ready(result.map(|upstream_head| (upstream_head, whole)));
        }
        // The time limit for the response begins when the request is sent.
        if pumped.is_none() {
            return Poll::Pending;
        }
        let limit = || sleep(deadline.within(limits.first_byte_time));
        let limit = Pin::new(first_byte.get_or_insert_with(limit));
        limit
            .poll(context)
            .map(|()| Err(UpstreamError::no_answer()))
    })
    .await;
    answered.map_err(|error| match error.progress {
        Progress::NothingReceived if received.get() => error.at(Progress::Final),
        Progress::NothingReceived if reused && error.status == Status::BAD_GATEWAY => {
            error.at(Progress::Stale)
        }
        progress => error.at(progress),
    })
}

/// The framing of the request body.
#[derive(Clone, Copy)]
enum Outgoing {
    Plain,
    Chunked,
    FastCgi,
}

impl Outgoing {
    fn push(self, out: &mut Vec<u8>, chunk: &[u8]) {
        match self {
            Outgoing::Plain => out.extend_from_slice(chunk),
            Outgoing::Chunked if chunk.is_empty() => {}
            Outgoing::Chunked => {
                let _ = write!(out, "{:x}\r\n", chunk.len());
                out.extend_from_slice(chunk);
                out.extend_from_slice(b"\r\n");
            }
            Outgoing::FastCgi => push_stream(out, STDIN, chunk),
        }
    }

    fn end(self, out: &mut Vec<u8>) {
        match self {
            Outgoing::Plain => {}
            Outgoing::Chunked => out.extend_from_slice(b"0\r\n\r\n"),
            Outgoing::FastCgi => push_stream_end(out, STDIN),
        }
    }
}

/// Sends a head and the body after it, chunk by chunk. Returns false if the upstream accepts no
/// more, perhaps because it has answered already.
async fn pump(
    transport: Transport,
    mut out: Vec<u8>,
    source: &mut impl Source,
    outgoing: Outgoing,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<bool, UpstreamError> {
    let mut chunk = Vec::new();
    loop {
        // Send the head without waiting for the client's body.
        let mut last = false;
        if out.is_empty() || source.is_ready() {
            chunk.clear();
            last = source.next(&mut chunk).await?;
            outgoing.push(&mut out, &chunk);
        }
        if last {
            outgoing.end(&mut out);
        }
        let time = deadline.within(limits.between_time);
        match send(&transport, out, time).await {
            Ok(emptied) => out = emptied,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let late =
                    UpstreamError::timed_out("the upstream did not accept the request in time");
                return Err(late.at(Progress::NothingReceived));
            }
            Err(_) => return Ok(false),
        }
        if last {
            return Ok(true);
        }
    }
}

/// Receives the head of the response, skipping interim responses. Passes early hints on to clients that take
/// them. Sets `received` with the first byte.
async fn read_head(
    lease: &mut Lease,
    to_head: bool,
    received: &Cell<bool>,
    client: Option<&Stream>,
) -> Result<UpstreamHead, UpstreamError> {
    let mut interim = 0;
    loop {
        if let Some(upstream_head) = lease.head(to_head)? {
            let code = upstream_head.status.code();
            if code >= 200 || code == 101 {
                return Ok(upstream_head);
            }
            if upstream_head.status == Status::EARLY_HINTS
                && let Some(client) = client
                && client.is_multiplexed()
                && let Some(hints) = upstream_head.early_hints()
            {
                let (sent, _) = client.send_output(hints).await;
                sent.map_err(|_| UpstreamError::client_gone())?;
            }
            interim += 1;
            if interim > UpstreamLimits::INTERIM {
                return Err(UpstreamError::bad_gateway(
                    "the upstream sent too many interim responses",
                ));
            }
            continue;
        }
        // Limits the time between two chunks of a head; `attempt` limits the time for the first one.
        let time = if received.get() {
            lease.limits.between_time
        } else {
            lease.limits.first_byte_time.saturating_mul(2)
        };
        let time = lease.deadline.within(time.max(lease.limits.between_time));
        let error = match lease.link.receive(time).await {
            Ok(0) => {
                UpstreamError::bad_gateway("the upstream closed the connection before it answered")
            }
            Ok(_) => {
                received.set(true);
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => UpstreamError::no_answer(),
            Err(error) => {
                UpstreamError::bad_gateway(format_args!("cannot read the response: {error}"))
            }
        };
        return Err(error.at(Progress::NothingReceived));
    }
}

/// A connection in use, with its permit from the pool.
pub(super) struct Lease {
    pub(super) link: Link,
    pub(super) member: Rc<Member>,
    pub(super) limits: UpstreamLimits,
    pub(super) deadline: Deadline,
    pub(super) protocol_state: ProtocolState,
    pub(super) permit: Permit,
    pub(super) in_flight: InFlight,
}

/// The protocol state of a connection.
pub(super) enum ProtocolState {
    Http,
    FastCgi(Box<FastCgiState>),
}

/// The parsed part of a FastCGI response.
#[derive(Default)]
pub(super) struct FastCgiState {
    pub(super) records: Records,
    /// Output that was not consumed yet.
    pub(super) output: Vec<u8>,
    /// The program's error output, for the log.
    error_output: Vec<u8>,
}

impl ProtocolState {
    pub(super) fn for_protocol(protocol: &Protocol) -> ProtocolState {
        match protocol {
            Protocol::Http { .. } | Protocol::Http2 { .. } => ProtocolState::Http,
            Protocol::FastCgi => ProtocolState::FastCgi(Box::default()),
        }
    }
}

impl Lease {
    /// Parses the head, if it is complete, and leaves what follows it in the buffer.
    pub(super) fn head(&mut self, to_head: bool) -> Result<Option<UpstreamHead>, UpstreamError> {
        if let ProtocolState::FastCgi(_) = self.protocol_state {
            self.parse_records()
                .map_err(|error| UpstreamError::bad_gateway(&error))?;
        }
        let heads = UpstreamLimits::HEAD;
        let (buffer, found) = match &mut self.protocol_state {
            ProtocolState::Http => {
                let input = &mut self.link.input;
                let found = parse_response(input, &heads, to_head).map(|found| {
                    found.map(|(response, length)| (response_head(&response, false), length))
                });
                (input, found)
            }
            ProtocolState::FastCgi(fastcgi_state) => {
                let found = parse_cgi(&fastcgi_state.output, &heads, to_head).map(|found| {
                    found.map(|(response, length)| (response_head(&response, true), length))
                });
                if matches!(found, Ok(None)) && fastcgi_state.records.is_done() {
                    return Err(UpstreamError::bad_gateway(
                        "the program ended without a response",
                    ));
                }
                (&mut fastcgi_state.output, found)
            }
        };
        let Some((upstream_head, length)) = found.map_err(UpstreamError::bad_gateway)? else {
            return Ok(None);
        };
        buffer.drain(..length);
        Ok(Some(upstream_head))
    }

    /// Parses the received records.
    pub(super) fn parse_records(&mut self) -> io::Result<()> {
        let ProtocolState::FastCgi(fastcgi_state) = &mut self.protocol_state else {
            return Ok(());
        };
        let FastCgiState {
            records,
            output,
            error_output,
        } = &mut **fastcgi_state;
        let used = records.advance(&self.link.input, |event| match event {
            Event::Output(chunk) => output.extend_from_slice(chunk),
            Event::Error(chunk) => {
                let space = UpstreamLimits::STDERR.saturating_sub(error_output.len());
                error_output.extend_from_slice(&chunk[..chunk.len().min(space)]);
            }
        });
        let used = used.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.link.input.drain(..used);
        if records.is_done() && !error_output.is_empty() {
            let text = std::mem::take(error_output);
            let text = String::from_utf8_lossy(&text);
            print(format_args!(
                "{}, error output: {}",
                self.member.target.name,
                text.trim_end().escape_debug()
            ));
        }
        Ok(())
    }

    /// Returns the connection to the pool after a complete exchange, if it can be reused.
    pub(super) fn finish(self) {
        let over = match &self.protocol_state {
            ProtocolState::Http => true,
            ProtocolState::FastCgi(fastcgi_state) => fastcgi_state.records.is_done(),
        };
        let Lease {
            mut link,
            member,
            limits,
            permit,
            ..
        } = self;
        link.reused = true;
        if over && member.target.keeps_connections {
            member.pool.keep(link, &limits);
        }
        // Released last, so that the next waiter finds the connection in the pool.
        drop(permit);
    }
}

/// Selects the fields to pass on. `program` is set for the responses of CGI programs.
fn response_head(response: &Response<'_>, program: bool) -> UpstreamHead {
    let hops = Hops::from_headers(&response.headers);
    let (framing, keep_alive) = (response.framing, response.keep_alive);
    let mut upstream_head = UpstreamHead::new(response.status, framing, keep_alive);
    for (name, value) in response.headers.iter() {
        if !(hops.has(name) || program && name.eq_ignore_ascii_case(b"Status")) {
            upstream_head.add(name, value);
        }
    }
    upstream_head
}

/// The body of a response in HTTP/1.1 or FastCGI.
pub(super) struct LinkBody {
    /// The connection, until the body has ended.
    lease: Option<Lease>,
    member: Rc<Member>,
    ending: Ending,
    /// Whether the connection can be reused after the body.
    keep: bool,
    /// The lines of the fields after the body.
    trailers: Vec<u8>,
}

/// How the end of the body is detected.
enum Ending {
    Framing(BodySkip),
    Connection,
    /// The end of the program's output, or the length that the program announced.
    Program(Option<u64>),
    Over,
}

impl LinkBody {
    pub(super) fn new(lease: Lease, upstream_head: &UpstreamHead, whole: bool) -> LinkBody {
        let ending = match (&lease.protocol_state, upstream_head.framing) {
            (ProtocolState::FastCgi(_), Some(Framing::Length(length))) => {
                Ending::Program(Some(length))
            }
            (ProtocolState::FastCgi(_), Some(Framing::None)) => Ending::Program(Some(0)),
            (ProtocolState::FastCgi(_), _) => Ending::Program(None),
            (ProtocolState::Http, None) => Ending::Connection,
            (ProtocolState::Http, Some(framing)) => match BodySkip::new(framing, u64::MAX) {
                Ok(body) => Ending::Framing(body),
                Err(_) => Ending::Connection,
            },
        };
        LinkBody {
            member: lease.member.clone(),
            lease: Some(lease),
            ending,
            keep: whole && upstream_head.keep_alive,
            trailers: Vec::new(),
        }
    }

    /// Appends the received content, at most `most` bytes. Returns whether it was the last.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        let Some(lease) = &mut self.lease else {
            return Ok(true);
        };
        let over = match &mut self.ending {
            Ending::Over => true,
            Ending::Connection => {
                let input = &mut lease.link.input;
                if input.len() <= most {
                    out.append(input)
                } else {
                    out.extend(input.drain(..most))
                }
                false
            }
            Ending::Framing(body) => {
                let input = &mut lease.link.input;
                let trailers = &mut self.trailers;
                let part = &input[..input.len().min(most)];
                let used = body.advance_with_trailers(
                    part,
                    |chunk| out.extend_from_slice(chunk),
                    |byte| trailers.push(byte),
                );
                let used = used.map_err(|_| bad("the chunked coding is malformed"))?;
                input.drain(..used);
                body.is_done()
            }
            Ending::Program(left) => {
                lease.parse_records()?;
                let ProtocolState::FastCgi(fastcgi_state) = &mut lease.protocol_state else {
                    return Err(bad("the upstream does not use FastCGI"));
                };
                let output = &mut fastcgi_state.output;
                let most = most.min(output.len()) as u64;
                let most = left.unwrap_or(u64::MAX).min(most);
                out.extend(output.drain(..most as usize)); // at most its length
                if let Some(left) = left {
                    *left -= most;
                }
                let done = fastcgi_state.records.is_done() && output.is_empty();
                match (done, &left) {
                    (_, Some(0)) => true,
                    (true, Some(_)) => {
                        return Err(bad("the output is shorter than its Content-Length"));
                    }
                    (done, None) => done,
                    (false, Some(_)) => false,
                }
            }
        };
        if over {
            self.end();
        }
        Ok(over)
    }

    /// Whether content was received and not taken.
    pub(super) fn has_received(&self) -> bool {
        let Some(lease) = &self.lease else {
            return false;
        };
        match &lease.protocol_state {
            ProtocolState::Http => !lease.link.input.is_empty(),
            ProtocolState::FastCgi(state) => !state.output.is_empty(),
        }
    }

    /// Waits until more is received.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        let Some(lease) = &mut self.lease else {
            return Ok(());
        };
        let time = lease.deadline.within(lease.limits.between_time);
        match lease.link.receive(time).await {
            Ok(0) if matches!(self.ending, Ending::Connection) => {
                self.ending = Ending::Over;
                self.keep = false;
                Ok(())
            }
            Ok(0) => Err(bad(
                "the upstream closed the connection before the end of the response",
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn end(&mut self) {
        if let Some(lease) = self.lease.take()
            && self.keep
        {
            lease.finish();
        }
    }

    /// Returns the fields after the body.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        let lines = std::mem::take(&mut self.trailers);
        (!lines.is_empty()).then(|| trailers::parse(&lines))
    }

    pub(super) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Returns the connection, if the body has not ended.
    pub(super) fn into_lease(self) -> Option<Lease> {
        self.lease
    }

    /// Notes that the upstream has broken the response off.
    pub(super) fn failed(&self, error: &UpstreamError) {
        if let Some(lease) = &self.lease {
            lease.member.failed(error, lease.deadline, &lease.limits);
        }
    }
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
