//! The interface between an upstream exchange and the client's connection.

use super::exchange::{Answered, ask};
use super::spool::Spool;
use super::target::Route;
use super::tunnel::Tunnel;
use super::{Relayed, UpstreamError, request};
use crate::cors;
use crate::observe::{self, Stage};
use crate::options::Protocol;
use crate::reply::{Reply, RequestContext};
use crate::stream::Stream;
use crate::worker::Worker;
use laio_http::{Framing, Method, RequestPath, Status};

/// A request to be forwarded to an upstream.
#[derive(Clone, Copy)]
pub(crate) struct ProxyRequest<'a> {
    pub(crate) ctx: RequestContext<'a>,
    pub(crate) path: &'a RequestPath<'a>,
    /// The client's address, or `-` for Unix sockets.
    pub(crate) peer: &'a str,
    /// Whether the client's connection is encrypted.
    pub(crate) secure: bool,
    /// Whether the connection can become a tunnel.
    pub(crate) websocket: bool,
    /// The client's connection.
    pub(crate) stream: &'a Stream,
    /// The length of the body, if the body was spooled.
    pub(crate) spooled: Option<u64>,
    /// Whether the client's forwarding fields are trusted.
    pub(crate) trusts_client: bool,
}

/// The body of a request.
pub(crate) trait Source {
    /// Appends the next piece of the body, waiting for it. Returns whether it was the last.
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, UpstreamError>;
    /// Whether the next piece is available without waiting.
    fn is_ready(&self) -> bool;
    /// Whether the body can still be read from its beginning.
    fn is_untouched(&self) -> bool;
    /// Whether the whole body was read.
    fn is_done(&self) -> bool;
    /// Returns a function that tests whether the client has closed its connection.
    fn watch(&self) -> Box<dyn Fn() -> bool>;
}

/// The answer for the client.
pub(crate) struct Forwarded {
    pub(crate) reply: Reply,
    /// The body, if it comes from the upstream.
    pub(crate) relayed: Option<Box<Relayed>>,
    /// The tunnel that the connection becomes.
    pub(crate) tunnel: Option<Tunnel>,
    /// Whether another request may follow.
    pub(crate) keep_alive: bool,
}

impl Forwarded {
    fn page(reply: Reply, ctx: RequestContext<'_>) -> Forwarded {
        Forwarded {
            reply,
            relayed: None,
            tunnel: None,
            keep_alive: ctx.keep_alive,
        }
    }
}

impl Worker {
    /// Forwards a request. The head of the answer is then in `out`. Returns none if the client has
    /// closed its connection.
    pub(crate) async fn forward(
        &self,
        mut proxy_request: ProxyRequest<'_>,
        route: &Route,
        source: &mut impl Source,
        out: &mut Vec<u8>,
    ) -> Option<Forwarded> {
        let limits = &self.limits().upstream;
        let ctx = proxy_request.ctx;
        let ends = RequestContext {
            keep_alive: ctx.keep_alive && source.is_done(),
            ..ctx
        };
        // Checked before authentication, because browsers send preflight requests without
        // credentials.
        if ctx.site.cors.is_some() && cors::is_preflight(ctx.request) {
            let reply = crate::pages::options(ends, out);
            return Some(Forwarded::page(reply, ends));
        }
        let resource = route.target.resource(proxy_request.path);
        if let Some(reply) = self.authorize(ends, out, resource).await {
            return Some(Forwarded::page(reply, ends));
        }
        proxy_request.trusts_client = limits.trust_forwarded;
        proxy_request.websocket =
            proxy_request.websocket && !self.is_sync() && request::wants_websocket(&proxy_request);
        let tunnel = match proxy_request.websocket {
            true => route.pool.tunnel(limits),
            false => None,
        };
        let answered = if ctx.request.method == Method::Trace {
            // TRACE would reveal fields to scripts that browsers hide from them.
            Err(UpstreamError::new(Status::METHOD_NOT_ALLOWED, "TRACE"))
        } else if proxy_request.websocket && tunnel.is_none() {
            Err(UpstreamError::busy("the limit of tunnels is reached"))
        } else {
            let begun = observe::begin();
            let answered = self.ask(&mut proxy_request, route, source).await;
            observe::end(Stage::Upstream, begun);
            answered
        };
        let ctx = RequestContext {
            keep_alive: ctx.keep_alive && source.is_done(),
            ..ctx
        };
        match answered {
            Ok(answered) => self.pass_on(ctx, answered, tunnel, out).await,
            Err(error) if error.client_gone => None,
            Err(error) => {
                if error.status.code() >= 500 {
                    super::print(format_args!(
                        "{} for {}: {}: {}",
                        route.target.name,
                        proxy_request.path.as_str().escape_debug(),
                        error.status,
                        error.why
                    ));
                }
                let reply = self.error(ctx, out, error.status, error.detail()).await;
                Some(Forwarded::page(reply, ctx))
            }
        }
    }

    /// Sends the request. A FastCGI program gets the length of the body before the body, so a body
    /// without a length is spooled first.
    async fn ask(
        &self,
        proxy_request: &mut ProxyRequest<'_>,
        route: &Route,
        source: &mut impl Source,
    ) -> Result<Answered, UpstreamError> {
        let limits = &self.limits().upstream;
        let chunked = proxy_request.ctx.request.framing == Framing::Chunked;
        if !chunked || route.target.protocol != Protocol::FastCgi {
            return ask(proxy_request, route, source, limits).await;
        }
        let mut spool = Spool::fill(source, &route.pool, limits).await?;
        proxy_request.spooled = Some(spool.length());
        ask(proxy_request, route, &mut spool, limits).await
    }

    async fn pass_on(
        &self,
        ctx: RequestContext<'_>,
        answered: Answered,
        tunnel: Option<laio_rt::sync::Permit>,
        out: &mut Vec<u8>,
    ) -> Option<Forwarded> {
        let Answered {
            lease,
            answer_head,
            whole,
        } = answered;
        let status = answer_head.status;
        if status == Status::SWITCHING_PROTOCOLS {
            let Some(permit) = tunnel else {
                super::print(format_args!(
                    "{}: the upstream switched protocols although the client did not ask",
                    lease.name
                ));
                let reply = self.error(ctx, out, Status::BAD_GATEWAY, BAD).await;
                return Some(Forwarded::page(reply, ctx));
            };
            answer_head.write_upgrade(ctx, out);
            return Some(Forwarded {
                reply: Reply::bare(status),
                relayed: None,
                tunnel: Some(Tunnel::new(lease, permit)),
                keep_alive: false,
            });
        }
        if let Some(file) = answer_head.file.as_ref().filter(|_| status == Status::OK) {
            // The upstream's body is discarded. If it is empty, the connection can be reused.
            let name = lease.name.clone();
            let _ = Relayed::new(lease, &answer_head, whole, false).take(&mut Vec::new());
            let reply = self.send_named(ctx, out, &name, &answer_head, file).await;
            return Some(Forwarded::page(reply, ctx));
        }
        let chunked = ctx.sends() && answer_head.is_chunked(ctx.request.version);
        let close = !chunked && ctx.sends() && answer_head.ends_unannounced();
        answer_head.write(ctx, out, chunked, close);
        let relayed = Relayed::new(lease, &answer_head, whole, chunked);
        Some(Forwarded {
            reply: Reply::bare(status),
            relayed: Some(Box::new(relayed)),
            tunnel: None,
            keep_alive: ctx.keep_alive && !close,
        })
    }
}

const BAD: &str = "The upstream server sent no usable answer.";
