//! The interface between an upstream exchange and the client's connection.

use super::exchange::{self, UpstreamResponse};
use super::relay::Relayed;
use super::sendfile::send_named;
use super::spool::Spool;
use super::tunnel::Tunnel;
use super::{ProxyRequest, Source, request};
use crate::messages::print;
use crate::observe::{self, Stage};
use crate::options::Protocol;
use crate::request::authorize::authorize;
use crate::request::pages;
use crate::request::response::{RequestContext, Response};
use crate::services::Services;
use crate::site::auth::Resource;
use crate::site::cors;
use crate::trace;
use crate::upstream::error::UpstreamError;
use crate::upstream::target::{Route, Target};
use laio_http::{Framing, Method, RequestPath, Status};

/// The response for the client.
pub(crate) struct Forwarded {
    pub(crate) response: Response,
    /// The body, if it comes from the upstream.
    pub(crate) relayed: Option<Box<Relayed>>,
    /// The tunnel that the connection becomes.
    pub(crate) tunnel: Option<Tunnel>,
    /// Whether another request may follow.
    pub(crate) keep_alive: bool,
}

impl Forwarded {
    fn page(response: Response, ctx: RequestContext<'_>) -> Forwarded {
        Forwarded {
            response,
            relayed: None,
            tunnel: None,
            keep_alive: ctx.keep_alive,
        }
    }
}

/// Forwards a request. The head of the response is then in `out`. Returns none if the client has
/// closed its connection.
pub(crate) async fn forward(
    services: &Services,
    mut proxy_request: ProxyRequest<'_>,
    route: &Route,
    source: &mut impl Source,
    out: &mut Vec<u8>,
) -> Option<Forwarded> {
    let limits = &services.limits.upstream;
    let ctx = proxy_request.ctx;
    let ends = RequestContext {
        keep_alive: ctx.keep_alive && source.is_done(),
        ..ctx
    };
    // Checked before authentication, because browsers send preflight requests without credentials.
    if ctx.site.cors.is_some() && cors::is_preflight(ctx.request) {
        let response = pages::options(ends, out);
        return Some(Forwarded::page(response, ends));
    }
    let resource = resource(&route.target, proxy_request.path);
    if let Some(response) = authorize(services, ends, out, resource).await {
        return Some(Forwarded::page(response, ends));
    }
    if let Some(script) = proxy_request.script
        && let Some(response) = authorize(services, ends, out, Resource::Name(&script.name)).await
    {
        return Some(Forwarded::page(response, ends));
    }
    if trace::is_on() {
        trace::note("upstream", || described(&proxy_request, route));
        return None;
    }
    proxy_request.trusts_client = limits.trust_forwarded;
    proxy_request.websocket = proxy_request.websocket
        && !services.contexts.sync
        && request::wants_websocket(&proxy_request);
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
        let answered = ask(services, &mut proxy_request, route, source).await;
        observe::end(Stage::Upstream, begun);
        answered
    };
    let ctx = RequestContext {
        keep_alive: ctx.keep_alive && source.is_done(),
        ..ctx
    };
    match answered {
        Ok(answered) => pass_on(services, ctx, answered, tunnel, out).await,
        Err(error) if error.client_gone => None,
        Err(error) => {
            if error.status.code() >= 500 {
                print(format_args!(
                    "{} for {}: {}: {}",
                    route.target.name,
                    proxy_request.path.as_str().escape_debug(),
                    error.status,
                    error.why
                ));
            }
            let response = pages::error(services, ctx, out, error.status, error.detail()).await;
            Some(Forwarded::page(response, ctx))
        }
    }
}

/// Returns who answers a request, and why.
fn described(proxy_request: &ProxyRequest<'_>, route: &Route) -> String {
    let (target, path) = (&route.target, proxy_request.path);
    let name = &target.name;
    if let Some(script) = proxy_request.script {
        return format!("{name} executes the script {}", trace::shown(&script.name));
    }
    let prefix = target.mount.prefix();
    match target.protocol {
        Protocol::Http { .. } => format!(
            "the path is below the prefix {prefix} of {name}, which is asked for {}",
            target.mount.upstream_path(path)
        ),
        Protocol::FastCgi => format!("the path is below the prefix {prefix} of {name}"),
    }
}

/// Returns the resource of a path, for guards.
fn resource<'a>(target: &'a Target, path: &'a RequestPath<'a>) -> Resource<'a> {
    match target.protocol {
        Protocol::Http { .. } => Resource::Upstream(path),
        Protocol::FastCgi => Resource::Program(path, &target.mount),
    }
}

/// Sends the request. A FastCGI program gets the length of the body before the body, so a body
/// without a length is spooled first.
async fn ask(
    services: &Services,
    proxy_request: &mut ProxyRequest<'_>,
    route: &Route,
    source: &mut impl Source,
) -> Result<UpstreamResponse, UpstreamError> {
    let limits = &services.limits.upstream;
    let chunked = proxy_request.ctx.request.framing == Framing::Chunked;
    if !chunked || route.target.protocol != Protocol::FastCgi {
        return exchange::ask(proxy_request, route, source, limits).await;
    }
    let mut spool = Spool::fill(source, &route.pool, limits).await?;
    proxy_request.spooled = Some(spool.length());
    exchange::ask(proxy_request, route, &mut spool, limits).await
}

async fn pass_on(
    services: &Services,
    ctx: RequestContext<'_>,
    answered: UpstreamResponse,
    tunnel: Option<laio_rt::sync::Permit>,
    out: &mut Vec<u8>,
) -> Option<Forwarded> {
    let UpstreamResponse {
        lease,
        upstream_head,
        whole,
    } = answered;
    let status = upstream_head.status;
    if status == Status::SWITCHING_PROTOCOLS {
        let Some(permit) = tunnel else {
            print(format_args!(
                "{}: the upstream switched protocols although the client did not ask",
                lease.name
            ));
            let response = pages::error(services, ctx, out, Status::BAD_GATEWAY, BAD).await;
            return Some(Forwarded::page(response, ctx));
        };
        upstream_head.write_upgrade(ctx, out);
        return Some(Forwarded {
            response: Response::bare(status),
            relayed: None,
            tunnel: Some(Tunnel::new(lease, permit)),
            keep_alive: false,
        });
    }
    if let Some(file) = upstream_head.file.as_ref().filter(|_| status == Status::OK) {
        // The upstream's body is discarded. If it is empty, the connection can be reused.
        let name = lease.name.clone();
        let _ = Relayed::new(lease, &upstream_head, whole, false).take(&mut Vec::new());
        let response = send_named(services, ctx, out, &name, &upstream_head, file).await;
        return Some(Forwarded::page(response, ctx));
    }
    let chunked = ctx.sends_body() && upstream_head.is_chunked(ctx.request.version);
    let close = !chunked && ctx.sends_body() && upstream_head.ends_unannounced();
    upstream_head.write(ctx, out, chunked, close);
    let relayed = Relayed::new(lease, &upstream_head, whole, chunked);
    Some(Forwarded {
        response: Response::bare(status),
        relayed: Some(Box::new(relayed)),
        tunnel: None,
        keep_alive: ctx.keep_alive && !close,
    })
}

const BAD: &str = "The upstream server sent no usable response.";
