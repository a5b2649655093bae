//! Sending a request to an upstream, and receiving the head of its answer.

use super::answer::AnswerHead;
use super::client::{ProxyRequest, Source};
use super::link::{Deadline, Link, Transport, send};
use super::pool::Pool;
use super::target::Route;
use super::{UpstreamError, fastcgi, request};
use crate::options::{Protocol, UpstreamLimits};
use laio_http::fastcgi::{Event, Records, STDIN, push_stream, push_stream_end};
use laio_http::upstream::{parse_answer, parse_cgi};
use laio_http::{Framing, Method};
use laio_rt::sync::Permit;
use laio_rt::time::Sleep;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A connection in use, with its permit from the pool.
pub(super) struct Lease {
    pub(super) link: Link,
    pub(super) pool: Rc<Pool>,
    pub(super) limits: UpstreamLimits,
    pub(super) deadline: Deadline,
    pub(super) protocol_state: ProtocolState,
    /// The name in log messages.
    pub(super) name: String,
    pub(super) permit: Permit,
}

/// The protocol state of a connection.
pub(super) enum ProtocolState {
    Http,
    FastCgi(Box<FastCgiState>),
}

/// The parsed part of a FastCGI answer.
#[derive(Default)]
pub(super) struct FastCgiState {
    pub(super) records: Records,
    /// Output that was not consumed yet.
    pub(super) output: Vec<u8>,
    /// The program's error output, for the log.
    error_output: Vec<u8>,
}

/// The head of an answer, and the connection for its body.
pub(super) struct Answered {
    pub(super) lease: Lease,
    pub(super) answer_head: AnswerHead,
    /// Whether the whole request was sent. If not, the connection cannot be reused.
    pub(super) whole: bool,
}

/// Sends a request and receives the head of the answer. If a reused connection turns out to be
/// closed, repeats an idempotent request on a new one.
pub(super) async fn ask(
    proxy_request: &ProxyRequest<'_>,
    route: &Route,
    source: &mut impl Source,
    limits: &UpstreamLimits,
) -> Result<Answered, UpstreamError> {
    let deadline = Deadline::new(limits);
    let permit = route.pool.permit(limits).await?;
    let kept = route.pool.take(limits);
    let link = match kept {
        Some(link) => link,
        None => connect(route, limits, deadline).await?,
    };
    let mut lease = Lease {
        link,
        permit,
        pool: route.pool.clone(),
        limits: limits.clone(),
        deadline,
        protocol_state: ProtocolState::of(&route.target.protocol),
        name: route.target.name.clone(),
    };
    let mut result = attempt(proxy_request, route, source, &mut lease).await;
    let method = &proxy_request.ctx.request.method;
    if let Err(error) = &result
        && error.stale
        && request::is_idempotent(method)
        && source.is_untouched()
    {
        route.pool.forget();
        lease.link = connect(route, limits, deadline).await?;
        lease.protocol_state = ProtocolState::of(&route.target.protocol);
        result = attempt(proxy_request, route, source, &mut lease).await;
    }
    let (answer_head, whole) = result?;
    Ok(Answered {
        lease,
        answer_head,
        whole,
    })
}

async fn connect(
    route: &Route,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<Link, UpstreamError> {
    let time = deadline.within(limits.connect_time);
    Link::connect(&route.target, time, limits).await
}

/// Sends the body while waiting for the answer, because an upstream may refuse a request early.
async fn attempt(
    proxy_request: &ProxyRequest<'_>,
    route: &Route,
    source: &mut impl Source,
    lease: &mut Lease,
) -> Result<(AnswerHead, bool), UpstreamError> {
    let (limits, deadline) = (lease.limits.clone(), lease.deadline);
    let mut out = Vec::new();
    let outgoing = match route.target.protocol {
        Protocol::Http { .. } => {
            request::push_head(&mut out, proxy_request, &route.target);
            match proxy_request.ctx.request.framing {
                Framing::Chunked => Outgoing::Chunked,
                Framing::None | Framing::Length(_) => Outgoing::Plain,
            }
        }
        Protocol::FastCgi => {
            fastcgi::push_head(&mut out, proxy_request, &route.target);
            Outgoing::FastCgi
        }
    };
    let transport = lease.link.transport();
    let reused = lease.link.reused;
    let to_head = proxy_request.ctx.request.method == Method::Head;
    let client_gone = source.watch();
    let mut answer_wait = AnswerWait {
        client_gone,
        limits: &limits,
        deadline,
        first_byte: None,
        client_check: None,
    };
    let mut pump = pin!(pump(transport, out, source, outgoing, &limits, deadline));
    let mut head = pin!(read_head(lease, to_head));
    let mut pumped = None;
    poll_fn(|context| {
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
            return Poll::Ready(match result {
                Ok(answer_head) => Ok((answer_head, whole)),
                Err(mut error) => {
                    error.stale &= reused;
                    Err(error)
                }
            });
        }
        // The time limit for the answer begins when the request is sent.
        match pumped.is_some() {
            true => answer_wait.poll(context).map(Err),
            false => Poll::Pending,
        }
    })
    .await
}

/// The conditions that end the wait for an answer: the time limit, and a client that closes its
/// connection.
struct AnswerWait<'a, G> {
    client_gone: G,
    limits: &'a UpstreamLimits,
    deadline: Deadline,
    first_byte: Option<Sleep>,
    client_check: Option<Sleep>,
}

impl<G: Fn() -> bool> AnswerWait<'_, G> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<UpstreamError> {
        let time = self.limits.first_byte_time;
        let limit = self
            .first_byte
            .get_or_insert_with(|| laio_rt::time::sleep(self.deadline.within(time)));
        if Pin::new(limit).poll(context).is_ready() {
            return Poll::Ready(UpstreamError::timed_out(
                "the upstream did not answer in time",
            ));
        }
        loop {
            let pause = UpstreamLimits::CLIENT_CHECK_INTERVAL;
            let client_check = self
                .client_check
                .get_or_insert_with(|| laio_rt::time::sleep(pause));
            if Pin::new(client_check).poll(context).is_pending() {
                return Poll::Pending;
            }
            if (self.client_gone)() {
                return Poll::Ready(UpstreamError::client_gone());
            }
            self.client_check = None;
        }
    }
}

/// The framing of the request body.
#[derive(Clone, Copy)]
enum Outgoing {
    Plain,
    Chunked,
    FastCgi,
}

impl Outgoing {
    fn push(self, out: &mut Vec<u8>, piece: &[u8]) {
        match self {
            Outgoing::Plain => out.extend_from_slice(piece),
            Outgoing::Chunked if piece.is_empty() => {}
            Outgoing::Chunked => {
                let _ = write!(out, "{:x}\r\n", piece.len());
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
            Outgoing::FastCgi => push_stream(out, STDIN, piece),
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

/// Sends a head and the body after it, piece by piece. Returns false if the upstream accepts no
/// more, perhaps because it has answered already.
async fn pump(
    transport: Transport,
    mut out: Vec<u8>,
    source: &mut impl Source,
    outgoing: Outgoing,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<bool, UpstreamError> {
    let mut piece = Vec::new();
    loop {
        // Send the head without waiting for the client's body.
        let mut last = false;
        if out.is_empty() || source.is_ready() {
            piece.clear();
            last = source.next(&mut piece).await?;
            outgoing.push(&mut out, &piece);
        }
        if last {
            outgoing.end(&mut out);
        }
        let time = deadline.within(limits.between_time);
        match send(&transport, out, time).await {
            Ok(emptied) => out = emptied,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(UpstreamError::timed_out(
                    "the upstream did not accept the request in time",
                ));
            }
            Err(_) => return Ok(false),
        }
        if last {
            return Ok(true);
        }
    }
}

/// Receives the head of the answer, skipping interim answers.
async fn read_head(lease: &mut Lease, to_head: bool) -> Result<AnswerHead, UpstreamError> {
    let mut interim = 0;
    let mut anything = !lease.link.input.is_empty();
    loop {
        if let Some(answer_head) = lease.head(to_head)? {
            let code = answer_head.status.code();
            if code >= 200 || code == 101 {
                return Ok(answer_head);
            }
            interim += 1;
            if interim > UpstreamLimits::INTERIM {
                return Err(UpstreamError::bad_gateway(
                    "the upstream sent too many interim answers",
                ));
            }
            continue;
        }
        // Limits the time between two pieces of a head; `AnswerWait` limits the time for the first one.
        let time = match anything {
            true => lease.limits.between_time,
            false => lease.limits.first_byte_time.saturating_mul(2),
        };
        let time = lease.deadline.within(time.max(lease.limits.between_time));
        match lease.link.receive(time).await {
            Ok(0) => {
                let mut error = UpstreamError::bad_gateway(
                    "the upstream closed the connection before it answered",
                );
                error.stale = !anything;
                return Err(error);
            }
            Ok(_) => anything = true,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(UpstreamError::timed_out(
                    "the upstream did not answer in time",
                ));
            }
            Err(error) => {
                let mut error =
                    UpstreamError::bad_gateway(format_args!("cannot read the answer: {error}"));
                error.stale = !anything;
                return Err(error);
            }
        }
    }
}

impl ProtocolState {
    fn of(protocol: &Protocol) -> ProtocolState {
        match protocol {
            Protocol::Http { .. } => ProtocolState::Http,
            Protocol::FastCgi => ProtocolState::FastCgi(Box::default()),
        }
    }
}

impl Lease {
    /// Parses the head, if it is complete, and leaves what follows it in the buffer.
    fn head(&mut self, to_head: bool) -> Result<Option<AnswerHead>, UpstreamError> {
        if let ProtocolState::FastCgi(_) = self.protocol_state {
            self.parse_records()
                .map_err(|error| UpstreamError::bad_gateway(&error))?;
        }
        let heads = UpstreamLimits::HEAD;
        let (buffer, found) = match &mut self.protocol_state {
            ProtocolState::Http => {
                let input = &mut self.link.input;
                let found = parse_answer(input, &heads, to_head).map(|found| {
                    found.map(|(answer, length)| (AnswerHead::of(&answer, false), length))
                });
                (input, found)
            }
            ProtocolState::FastCgi(fastcgi_state) => {
                let found = parse_cgi(&fastcgi_state.output, &heads, to_head).map(|found| {
                    found.map(|(answer, length)| (AnswerHead::of(&answer, true), length))
                });
                if matches!(found, Ok(None)) && fastcgi_state.records.is_done() {
                    return Err(UpstreamError::bad_gateway(
                        "the program ended without an answer",
                    ));
                }
                (&mut fastcgi_state.output, found)
            }
        };
        let Some((answer_head, length)) = found.map_err(UpstreamError::bad_gateway)? else {
            return Ok(None);
        };
        buffer.drain(..length);
        Ok(Some(answer_head))
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
            Event::Output(piece) => output.extend_from_slice(piece),
            Event::Error(piece) => {
                let space = UpstreamLimits::STDERR.saturating_sub(error_output.len());
                error_output.extend_from_slice(&piece[..piece.len().min(space)]);
            }
        });
        let used = used.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.link.input.drain(..used);
        if records.is_done() && !error_output.is_empty() {
            let text = std::mem::take(error_output);
            let text = String::from_utf8_lossy(&text);
            super::print(format_args!(
                "{}, error output: {}",
                self.name,
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
            pool,
            limits,
            permit,
            ..
        } = self;
        link.reused = true;
        if over {
            pool.keep(link, &limits);
        }
        // Released last, so that the next waiter finds the connection in the pool.
        drop(permit);
    }
}
