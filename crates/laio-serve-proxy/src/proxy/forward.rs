//! The interface between an upstream exchange and the client's connection.

use super::cache::{Fetch, Plan, ResponseCache};
use super::compress::{Compressing, Form};
use super::exchange::{self, UpstreamBody, UpstreamResponse};
use super::relay::Relayed;
use super::sendfile::send_named;
use super::spool::Spool;
use super::tunnel::Tunnel;
use super::{ProxyRequest, Source, Upload, request};
use laio_http::{Framing, Method, Output, RequestPath, Status};
use laio_serve_base::messages::print;
use laio_serve_base::observe::upstreams::CacheResult;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::Protocol;
use laio_serve_base::trace;
use laio_serve_core::request::authorize::authorize;
use laio_serve_core::request::pages;
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::services::Services;
use laio_serve_core::site::auth::Resource;
use laio_serve_core::site::cors;
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::group::Group;
use laio_serve_upstream::route::Route;
use std::borrow::Cow;
use std::rc::Rc;

/// The response for the client.
pub struct Forwarded {
    /// The head, or all of a response of this server.
    pub response: Response,
    /// The body, if it comes from the upstream.
    pub relayed: Option<Box<Relayed>>,
    /// What sends the rest of the request during the response.
    pub upload: Option<Upload>,
    /// The tunnel that the connection becomes.
    pub tunnel: Option<Tunnel>,
    /// What the cache fetches again when the client has got its response.
    pub refresh: Option<Fetch>,
    /// Whether another request may follow.
    pub keep_alive: bool,
}

impl Forwarded {
    pub(super) fn page(response: Response, ctx: RequestContext<'_>) -> Forwarded {
        Forwarded {
            response,
            relayed: None,
            upload: None,
            tunnel: None,
            refresh: None,
            keep_alive: ctx.keep_alive,
        }
    }
}

/// Forwards a request. The head of the response is then in `out`. Returns `None` if the client has
/// closed its connection.
pub async fn forward(
    services: &Services,
    response_cache: Option<&Rc<ResponseCache>>,
    mut proxy_request: ProxyRequest<'_>,
    route: &Route,
    source: &mut impl Source,
    out: &mut Output,
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
    let resource = resource(&route.group, proxy_request.path);
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
        if let Some(rules) = &ctx.site.request_rules {
            rules.note(ctx.forwarded());
        }
        return None;
    }
    proxy_request.websocket = proxy_request.websocket
        && !services.contexts.sync
        && !matches!(route.group.protocol(), Protocol::Http2 { .. })
        && request::wants_websocket(&proxy_request);
    let tunnel = if proxy_request.websocket {
        route.limits.tunnel(limits)
    } else {
        None
    };
    let mut fetch = None;
    if let Some(cache) = response_cache {
        match cache.plan(&proxy_request).await {
            Plan::Bypass => {}
            Plan::Answer(answer) => return Some(answer.write(services, ends, out)),
            Plan::NotStored => {
                let (status, detail) = (Status::GATEWAY_TIMEOUT, "The response is not stored.");
                let response = pages::error(services, ends, out, status, detail).await;
                return Some(Forwarded::page(response, ends));
            }
            Plan::Fetch(found) => fetch = Some(found),
        }
    }
    let mut proxy_request = match &fetch {
        Some(fetch) => fetch.request(proxy_request),
        None => proxy_request,
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
        Ok(answered) => {
            let head = &answered.upstream_head;
            if let Some(cache) = response_cache {
                cache.invalidate(&proxy_request, head.status);
            }
            if let Some(fetch) = &fetch
                && let Some(response) = fetch.settle(services, head, ctx, out)
            {
                discard(answered);
                return Some(Forwarded::page(response, ctx));
            }
            let has_cache = response_cache.is_some();
            pass_on(services, ctx, answered, tunnel, fetch, has_cache, out).await
        }
        Err(error) if error.client_gone => None,
        Err(error) => {
            if error.status.code() >= 500 {
                print(format_args!(
                    "{} for {}: {}: {}",
                    error.upstream.as_deref().unwrap_or(route.group.name()),
                    proxy_request.path.as_str().escape_debug(),
                    error.status,
                    error.why
                ));
            }
            if error.status.code() >= 500
                && let Some(fetch) = &fetch
                && let Some(response) = fetch.instead_of_error(services, ctx, out, error.status)
            {
                return Some(Forwarded::page(response, ctx));
            }
            let response = pages::error(services, ctx, out, error.status, error.detail()).await;
            Some(Forwarded::page(response, ctx))
        }
    }
}

/// Discards the body of a response. If it is empty, the connection can be reused.
fn discard(answered: UpstreamResponse) {
    let UpstreamResponse {
        body,
        upstream_head,
        whole,
        ..
    } = answered;
    let _ = Relayed::new(body, &upstream_head, whole, false).take(&mut Vec::new());
}

/// Returns who answers a request, and why.
fn described(proxy_request: &ProxyRequest<'_>, route: &Route) -> String {
    let (group, path) = (&route.group, proxy_request.path);
    let name = group.name();
    if let Some(script) = proxy_request.script {
        return format!("{name} executes the script {}", trace::shown(&script.name));
    }
    let prefix = group.mount().prefix();
    match group.protocol() {
        Protocol::Http { .. } | Protocol::Http2 { .. } => format!(
            "the path is below the prefix {prefix} of {name}, which is asked for {}",
            group.mount().upstream_path(path)
        ),
        Protocol::FastCgi => format!("the path is below the prefix {prefix} of {name}"),
    }
}

/// Returns the resource of a path, for guards.
fn resource<'a>(group: &'a Group, path: &'a RequestPath<'a>) -> Resource<'a> {
    match group.protocol() {
        Protocol::Http { .. } | Protocol::Http2 { .. } => Resource::Upstream(path),
        Protocol::FastCgi => Resource::Program(path, group.mount()),
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
    if !chunked || *route.group.protocol() != Protocol::FastCgi {
        return exchange::ask(proxy_request, route, source, limits).await;
    }
    let mut spool = Spool::fill(source, &route.limits, limits).await?;
    proxy_request.spooled = Some(spool.length());
    exchange::ask(proxy_request, route, &mut spool, limits).await
}

async fn pass_on(
    services: &Services,
    ctx: RequestContext<'_>,
    answered: UpstreamResponse,
    tunnel: Option<laio_rt::sync::Permit>,
    fetch: Option<Fetch>,
    has_cache: bool,
    out: &mut Output,
) -> Option<Forwarded> {
    let UpstreamResponse {
        body,
        upstream_head,
        whole,
        upload,
    } = answered;
    let status = upstream_head.status;
    if status == Status::SWITCHING_PROTOCOLS {
        let name = body.name().to_owned();
        let (Some(permit), UpstreamBody::Link(lease)) = (tunnel, body) else {
            print(format_args!(
                "{name}: the upstream switched protocols although the client did not ask"
            ));
            let response = pages::error(services, ctx, out, Status::BAD_GATEWAY, BAD).await;
            return Some(Forwarded::page(response, ctx));
        };
        upstream_head.write_upgrade(ctx, out);
        return Some(Forwarded {
            response: Response::bare(status),
            relayed: None,
            upload: None,
            tunnel: Some(Tunnel::new(lease, permit)),
            refresh: None,
            keep_alive: false,
        });
    }
    if let Some(file) = upstream_head.file.as_ref().filter(|_| status == Status::OK) {
        // The upstream's body is discarded. If it is empty, the connection can be reused.
        let name = body.name().to_owned();
        let _ = Relayed::new(body, &upstream_head, whole, false).take(&mut Vec::new());
        let response = send_named(services, ctx, out, &name, &upstream_head, file).await;
        return Some(Forwarded::page(response, ctx));
    }
    let form = Form::of(services, ctx, &upstream_head);
    let sent_head = match &form {
        Some(form) => Cow::Owned(upstream_head.in_form(form.coding())),
        None => Cow::Borrowed(&upstream_head),
    };
    let compressing = match form {
        Some(Form::Encoded(coding, permit)) if ctx.sends_body() => {
            Some(Compressing::new(coding, permit))
        }
        _ => None,
    };
    let is_chunked = compressing.is_some() || upstream_head.is_chunked(ctx.request.version);
    let chunked = ctx.sends_body() && is_chunked;
    let close = !chunked && ctx.sends_body() && upstream_head.ends_unannounced();
    let (recorder, cache_status) = match (fetch, has_cache) {
        (Some(fetch), _) => {
            observe::upstreams::cached(CacheResult::Miss);
            let (recorder, status) = fetch.record(&upstream_head, ctx);
            (recorder, Some(status))
        }
        (None, true) => (None, Some("fwd=bypass".to_owned())),
        (None, false) => (None, None),
    };
    match cache_status {
        Some(status) => {
            let status = format!("laio; {status}");
            let more = [("Cache-Status", status.as_bytes())];
            sent_head.write_with(ctx, out, chunked, close, &more);
        }
        None => sent_head.write(ctx, out, chunked, close),
    }
    let relayed = Relayed::new(body, &upstream_head, whole, chunked);
    let relayed = relayed
        .recorded(recorder)
        .compressed(compressing)
        .with_trailers(ctx.request);
    Some(Forwarded {
        response: Response::bare(status),
        relayed: Some(Box::new(relayed)),
        upload,
        tunnel: None,
        refresh: None,
        keep_alive: ctx.keep_alive && !close,
    })
}

const BAD: &str = "The upstream server sent no usable response.";
