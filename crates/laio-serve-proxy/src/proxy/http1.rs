//! Requests to upstreams in HTTP/1.1 and FastCGI: a connection for each exchange.

use super::lease::{Lease, ProtocolState};
use super::link_body::LinkBody;
use super::proxy_request::{ProxyRequest, Source};
use super::repeat::may_be_repeated;
use super::response_wait::ResponseWait;
use super::upstream_head::UpstreamHead;
use super::upstream_response::{UpstreamBody, UpstreamResponse};
use super::{fastcgi, request};
use laio_http::fastcgi::{STDIN, push_stream, push_stream_end};
use laio_http::{Framing, Method, Status};
use laio_serve_base::options::{Protocol, UpstreamLimits};
use laio_serve_net::stream::Stream;
use laio_serve_upstream::error::{Progress, UpstreamError};
use laio_serve_upstream::link::{Deadline, Transport, send};
use laio_serve_upstream::route::Member;
use laio_serve_upstream::target::Target;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::pin::pin;
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
) -> Result<UpstreamResponse, UpstreamError> {
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
    Ok(UpstreamResponse {
        body: UpstreamBody::Link(LinkBody::new(lease, &head, whole)),
        head,
        upload: None,
    })
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
    let mut response_wait = ResponseWait::new(&limits, deadline);
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
        if pumped.is_some() {
            response_wait.poll(context).map(Err)
        } else {
            Poll::Pending
        }
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
        // Limits the time between two chunks of a head; `ResponseWait` limits the time for the first one.
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
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                UpstreamError::timed_out("the upstream did not answer in time")
            }
            Err(error) => {
                UpstreamError::bad_gateway(format_args!("cannot read the response: {error}"))
            }
        };
        return Err(error.at(Progress::NothingReceived));
    }
}
