//! A request that an upstream answers: the steps between the client's connection and `proxy`.

use super::state::Next;
use crate::buffers::Buffers;
use crate::log::micros_since;
use crate::net::socket::Expect;
use crate::net::stream::Stream;
use crate::proxy::forward::{Forwarded, forward};
use crate::proxy::relay::relay;
use crate::proxy::{ProxyRequest, Source};
use crate::request::lookup::{Answerer, Script};
use crate::request::receive::receive;
use crate::request::response::RequestContext;
use crate::request::send_buffer::send_all;
use crate::request::send_response::{Followed, send_response};
use crate::services::Services;
use crate::upstream::error::UpstreamError;
use crate::upstream::target::Route;
use laio_http::log::LogRecord;
use laio_http::response::CONTINUE;
use laio_http::{BodySkip, RequestPath};
use laio_rt::time::sleep_until;
use std::io;
use std::time::{Duration, Instant};

/// The upstream for a request.
#[derive(Clone, Copy)]
pub(super) struct Destination<'a> {
    route: &'a Route,
    path: &'a RequestPath<'a>,
    /// The script that the upstream executes.
    script: Option<&'a Script>,
}

impl<'a> Destination<'a> {
    pub(super) fn upstream(route: &'a Route, path: &'a RequestPath<'a>) -> Destination<'a> {
        Destination {
            route,
            path,
            script: None,
        }
    }

    /// Returns the upstream for what answers a request, if it is not the site itself.
    pub(super) fn of(ctx: RequestContext<'a>, answerer: &'a Answerer) -> Option<Destination<'a>> {
        match answerer {
            Answerer::Site(_) => None,
            Answerer::Upstream => {
                let (route, path) = ctx.upstream()?;
                Some(Destination::upstream(route, path))
            }
            Answerer::Script(script) => Some(Destination {
                route: ctx.site.php.as_ref()?,
                path: ctx.request.path.as_ref().ok()?,
                script: Some(script),
            }),
        }
    }
}

/// Forwards a request for a path to its upstream, and sends the response. Returns the bytes received
/// after the request.
///
/// # Errors
/// Returns the errors of sending the response.
pub(super) async fn answer_by_upstream(
    ctx: RequestContext<'_>,
    Destination {
        route,
        path,
        script,
    }: Destination<'_>,
    started: Instant,
    mut body: ClientBody<'_>,
) -> io::Result<(Vec<u8>, Next)> {
    let (services, stream, peer) = (body.services, body.stream, body.peer);
    let Buffers { mut output, name } = services.buffer_pool.take();
    let proxy_request = ProxyRequest {
        ctx,
        path,
        script,
        peer,
        secure: stream.is_secure(),
        websocket: !stream.is_http2_stream(),
        stream,
        spooled: None,
        trusts_client: false,
    };
    let forwarded = forward(services, proxy_request, route, &mut body, &mut output).await;
    let (mut input, whole) = (std::mem::take(&mut body.input), body.is_done());
    let Some(forwarded) = forwarded else {
        return Ok((input, Next::End));
    };
    let Forwarded {
        response,
        relayed,
        tunnel,
        keep_alive,
    } = forwarded;
    let mut length = response.length;
    let head = services.log.head_of(&output);
    let sent = match relayed {
        Some(mut relayed) => {
            let sent = relay(services, stream, output, &mut relayed).await;
            length = relayed.content();
            sent
        }
        None => {
            let followed = Followed::ByRequest;
            send_response(services, stream, output, response.body, followed).await
        }
    };
    if let (Some(tunnel), Ok(_)) = (tunnel, &sent) {
        length = tunnel
            .run(services, stream, std::mem::take(&mut input))
            .await;
    }
    services.log.write(&LogRecord {
        remote: peer,
        status: response.status,
        bytes: length,
        duration_us: micros_since(started),
        version: stream.version().unwrap_or(ctx.request.version.as_str()),
        response_head: head.as_deref(),
        tls: stream.tls().filter(|_| services.log.needs_tls()),
        upstream: Some(&route.target.name),
        ..LogRecord::of(ctx.request, ctx.date)
    });
    let output = sent?;
    services.buffer_pool.put_back(Buffers { output, name });
    let next = match (keep_alive, whole) {
        (true, _) => Next::Request,
        (false, true) if input.is_empty() => Next::End,
        (false, _) => Next::Linger,
    };
    Ok((input, next))
}

/// The body of a request, received from the client's connection.
pub(super) struct ClientBody<'a> {
    pub(super) services: &'a Services,
    pub(super) stream: &'a Stream,
    pub(super) peer: &'a str,
    pub(super) input: Vec<u8>,
    pub(super) body: BodySkip,
    /// Time spent waiting for the client, without time spent waiting for the upstream.
    pub(super) waited: Duration,
    pub(super) bytes: u64,
    /// The client waits for 100 Continue.
    pub(super) expects_continue: bool,
}

impl Source for ClientBody<'_> {
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, UpstreamError> {
        let before = out.len();
        loop {
            let input = &mut self.input;
            let used = self
                .body
                .advance_with(input, |chunk| out.extend_from_slice(chunk))
                .map_err(UpstreamError::bad_body)?;
            input.drain(..used);
            self.bytes += used as u64;
            if self.body.is_done() || out.len() > before {
                return Ok(self.body.is_done());
            }
            self.receive().await?;
        }
    }

    fn is_ready(&self) -> bool {
        self.body.is_done() || !self.input.is_empty()
    }

    fn is_untouched(&self) -> bool {
        self.bytes == 0
    }

    fn is_done(&self) -> bool {
        self.body.is_done()
    }

    fn watch(&self) -> Box<dyn Fn() -> bool> {
        self.stream.watch()
    }
}

impl ClientBody<'_> {
    async fn receive(&mut self) -> Result<(), UpstreamError> {
        let (services, stream) = (self.services, self.stream);
        if std::mem::take(&mut self.expects_continue) {
            let sent = send_all(services, stream, CONTINUE.to_vec()).await;
            sent.map_err(|_| UpstreamError::client_gone())?;
        }
        let limits = &services.limits;
        // A client that keeps the minimum rate gets as long as that rate takes.
        let earned = Duration::from_secs(self.bytes / limits.body_rate.max(1));
        let time = (limits.body_time + earned).saturating_sub(self.waited);
        let started = Instant::now();
        let input = std::mem::take(&mut self.input);
        let mut limit = sleep_until(started + time);
        let received = receive(
            &services.contexts,
            stream,
            input,
            Expect::Arrived,
            &mut limit,
        )
        .await;
        self.waited += started.elapsed();
        match received {
            Ok(input) if input.is_empty() => Err(UpstreamError::client_gone()),
            Ok(input) => {
                self.input = input;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(UpstreamError::slow_client())
            }
            Err(_) => Err(UpstreamError::client_gone()),
        }
    }
}
