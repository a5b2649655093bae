//! Answering a request by the upstream of its path: who answers it, the head for the client, sending the
//! response, and its line of the access log.

use super::ProxyServices;
use super::cache::{self, Fetch, Plan};
use super::compress::{Compressing, Form};
use super::exchange::{self, UpstreamResponse};
use super::fields::Hops;
use super::proxy_request::{ProxyRequest, Source};
use super::relay::{Delivery, relay};
use super::sendfile::send_named;
use super::spool::Spool;
use super::trailers::takes_trailers;
use super::tunnel::Tunnel;
use super::upload::Upload;
use super::upstream_head::UpstreamHead;
use laio_http::log::LogRecord;
use laio_http::{Framing, Method, Output, RequestPath, Status, Version};
use laio_rt::future::{Either, race};
use laio_rt::sync::Permit;
use laio_serve_base::messages::print;
use laio_serve_base::observe::upstreams::{CacheResult, cached};
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::Protocol;
use laio_serve_base::trace;
use laio_serve_core::log::micros_since;
use laio_serve_core::request::auth_state::AuthState;
use laio_serve_core::request::authorize::authorize;
use laio_serve_core::request::body::{BodyTime, ClientBody};
use laio_serve_core::request::pages;
use laio_serve_core::request::response::{Body, RequestContext, Response};
use laio_serve_core::request::send_buffer::send_output;
use laio_serve_core::request::send_response::{Followed, send_response};
use laio_serve_core::services::Services;
use laio_serve_core::site::auth::Resource;
use laio_serve_core::site::cors;
use laio_serve_net::buffers::Buffers;
use laio_serve_net::client_watch::ClientWatch;
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::group::Group;
use laio_serve_upstream::link::Deadline;
use std::borrow::Cow;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

/// Where the rest of a response comes from, whose head is in the output buffer.
enum Origin {
    /// This server.
    Here,
    Upstream(Box<UpstreamResponse>, Delivery),
    Tunnel(Tunnel),
}

/// What answers a request: the response, where its rest comes from, and what the cache fetches again
/// when the client has got its response.
type Chosen = (Response, Origin, Option<Fetch>);

/// Answers a request by its upstream, and sends the response. Returns whether another request may
/// follow on the connection, or `None` if the client has closed it before the response.
///
/// # Errors
/// Returns the errors of sending the response.
pub async fn answer(
    proxy_services: &ProxyServices,
    request: ProxyRequest<'_>,
    started: Instant,
    body: &mut ClientBody<'_>,
) -> io::Result<Option<bool>> {
    let (services, stream, ctx) = (body.services, body.stream, request.ctx);
    let Buffers { mut output, name } = services.buffer_pool.take();
    let client = ClientWatch::new(stream, ctx.request.framing != Framing::None);
    let chosen = choose(services, proxy_services, request, body, &mut output);
    let Either::Right(Some((response, origin, refresh))) = race(client.left(), chosen).await else {
        return Ok(None);
    };
    ctx.apply_rules(&response, &name, &mut output);
    let keep_alive = match &origin {
        Origin::Here => ctx.keep_alive && body.is_done(),
        Origin::Upstream(_, delivery) => delivery.keep_alive,
        Origin::Tunnel(_) => false,
    };
    let member = match &origin {
        Origin::Upstream(upstream, _) => Some(upstream.body.member().clone()),
        Origin::Here | Origin::Tunnel(_) => None,
    };
    let fields = services.log.fields_of(&output);
    let (status, bytes) = (response.status, Cell::new(response.length));
    let sent = send(ctx, output, response.body, origin, body, &bytes).await;
    let added = ctx.auth.map(AuthState::fields);
    services.log.write(&LogRecord {
        added: added.as_deref().unwrap_or_default(),
        remote: &ctx.client.name,
        status,
        bytes: bytes.get(),
        duration_us: micros_since(started),
        version: stream.version().unwrap_or(ctx.request.version.as_str()),
        response_fields: fields.as_ref(),
        tls: stream.tls().filter(|_| services.log.needs_tls()),
        early_data: stream.is_early(),
        upstream: Some(match &member {
            Some(member) => &member.target.name,
            None => request.route.group.name(),
        }),
        ..LogRecord::from_request(ctx.request, ctx.date)
    });
    drop(added);
    let output = sent?.into();
    services.buffer_pool.put_back(Buffers { output, name });
    if let Some(fetch) = refresh {
        // The client has its response; a further request on this connection waits.
        cache::refresh(services, request, fetch).await;
    }
    Ok(Some(keep_alive))
}

/// Decides what answers a request, and writes its head to `out`. Returns `None` if the client has closed its
/// connection.
async fn choose(
    services: &Services,
    proxy_services: &ProxyServices,
    mut request: ProxyRequest<'_>,
    body: &mut ClientBody<'_>,
    out: &mut Output,
) -> Option<Chosen> {
    let ctx = request.ctx;
    let here = |response| Some((response, Origin::Here, None));
    let ends = before_next(ctx, body);
    if let Some(page) = refuse(services, ends, &request, out).await {
        return here(page);
    }
    if trace::is_on() {
        explain(&request);
        return None;
    }
    request.websocket = becomes_tunnel(services, &request);
    let permit = || request.route.limits.tunnel(&services.limits.upstream);
    let tunnel = request.websocket.then(permit).flatten();
    let mut fetch = None;
    if let Some(cache) = &proxy_services.cache {
        match cache.plan(services, ends, &request, out).await {
            Plan::Bypass => {}
            Plan::Answer(response, refresh) => return Some((response, Origin::Here, refresh)),
            Plan::Fetch(found) => fetch = Some(found),
        }
    }
    let mut request = match &fetch {
        Some(fetch) => fetch.request(request),
        None => request,
    };
    let answered = ask(services, &mut request, tunnel.is_some(), body).await;
    let ctx = before_next(ctx, body);
    let answered = match answered {
        Ok(answered) => answered,
        Err(error) if error.client_gone => return None,
        Err(error) => {
            return here(page_of_error(services, ctx, &request, fetch.as_ref(), &error, out).await);
        }
    };
    if let Some(cache) = &proxy_services.cache {
        cache.invalidate(&request, answered.head.status);
    }
    if let Some(fetch) = &fetch
        && let Some(response) = fetch.settle(services, &answered.head, ctx, out)
    {
        answered.discard();
        return here(response);
    }
    if answered.head.status == Status::SWITCHING_PROTOCOLS {
        return Some(switch_protocols(services, ctx, answered, tunnel, out).await);
    }
    if let Some(file) = answered.head.named_file() {
        let member = answered.body.member().clone();
        let (head, name) = (answered.discard(), &member.target.name);
        return here(send_named(services, ctx, out, name, &head, &file).await);
    }
    let cached = proxy_services.cache.is_some();
    let delivery = write_head(services, ctx, &answered.head, fetch, cached, out);
    let response = Response::bare(answered.head.status);
    Some((
        response,
        Origin::Upstream(Box::new(answered), delivery),
        None,
    ))
}

/// Writes the head for the client. `fetch` stores the response, if it may be stored; `has_cache` says that
/// there is a cache.
fn write_head(
    services: &Services,
    ctx: RequestContext<'_>,
    head: &UpstreamHead,
    fetch: Option<Fetch>,
    has_cache: bool,
    out: &mut Output,
) -> Delivery {
    let may_compress = ctx.site.compresses_upstreams;
    let form = may_compress
        .then(|| Form::of(services, ctx, head))
        .flatten();
    let sent_head = match &form {
        Some(form) => Cow::Owned(head.in_form(form.coding())),
        None => Cow::Borrowed(head),
    };
    let compressing = match form {
        Some(Form::Encoded(coding, permit)) if ctx.sends_body() => {
            Some(Compressing::new(coding, permit))
        }
        _ => None,
    };
    let is_chunked = compressing.is_some() || head.is_chunked(ctx.request.version);
    let chunked = ctx.sends_body() && is_chunked;
    let close = !chunked && ctx.sends_body() && head.ends_unannounced();
    let (recorder, cache_status) = match (fetch, has_cache) {
        (Some(fetch), _) => {
            cached(CacheResult::Miss);
            let (recorder, status) = fetch.record(head, ctx);
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
    Delivery {
        chunked,
        takes_trailers: takes_trailers(ctx.request),
        recorder,
        compressing,
        keep_alive: ctx.keep_alive && !close,
    }
}

/// Returns the context of a response: another request may follow only after the whole body of this one.
fn before_next<'a>(ctx: RequestContext<'a>, body: &ClientBody<'_>) -> RequestContext<'a> {
    RequestContext {
        keep_alive: ctx.keep_alive && body.is_done(),
        ..ctx
    }
}

/// Returns the response to a request that no upstream gets.
async fn refuse(
    services: &Services,
    ctx: RequestContext<'_>,
    request: &ProxyRequest<'_>,
    out: &mut Output,
) -> Option<Response> {
    // Checked before authentication, because browsers send preflight requests without credentials.
    if ctx.site.cors.is_some() && cors::is_preflight(ctx.request) {
        return Some(pages::options(ctx, out));
    }
    if !ctx.site.fast_path.has_guards {
        return None;
    }
    let resource = resource(&request.route.group, request.path);
    if let Some(response) = authorize(services, ctx, out, resource).await {
        return Some(response);
    }
    let script = Resource::Name(&request.script?.name);
    authorize(services, ctx, out, script).await
}

/// Whether the connection becomes a tunnel, if the upstream agrees.
fn becomes_tunnel(services: &Services, request: &ProxyRequest<'_>) -> bool {
    request.websocket
        && !services.contexts.sync
        && !matches!(request.route.group.protocol(), Protocol::Http2 { .. })
        && wants_websocket(request)
}

/// Whether a client asks to upgrade its connection to a WebSocket. Other upgrades are not passed
/// on: a tunnel for another protocol (h2c) would bypass all rules.
fn wants_websocket(proxy_request: &ProxyRequest<'_>) -> bool {
    let request = proxy_request.ctx.request;
    request.method == Method::Get
        && request.version == Version::Http11
        && request.framing.is_none()
        && request
            .headers
            .only("Upgrade")
            .is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
        && Hops::from_headers(&request.headers).names(b"upgrade")
}

/// Notes who answers a request, and what the rules of the site do to it.
fn explain(request: &ProxyRequest<'_>) {
    trace::note("upstream", || described(request));
    if let Some(rules) = &request.ctx.site.request_rules {
        rules.note(request.ctx.forwarded());
    }
}

/// Returns who answers a request, and why.
fn described(proxy_request: &ProxyRequest<'_>) -> String {
    let (group, path) = (&proxy_request.route.group, proxy_request.path);
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
    request: &mut ProxyRequest<'_>,
    has_tunnel: bool,
    body: &mut ClientBody<'_>,
) -> Result<UpstreamResponse, UpstreamError> {
    if request.ctx.request.method == Method::Trace {
        // TRACE would reveal fields to scripts that browsers hide from them.
        return Err(UpstreamError::new(Status::METHOD_NOT_ALLOWED, "TRACE"));
    }
    if request.websocket && !has_tunnel {
        return Err(UpstreamError::busy("the limit of tunnels is reached"));
    }
    let (limits, route) = (&services.limits.upstream, request.route);
    let begun = observe::begin();
    let chunked = request.ctx.request.framing == Framing::Chunked;
    let answered = if chunked && *route.group.protocol() == Protocol::FastCgi {
        match Spool::fill(body, &route.limits, limits).await {
            Ok(mut spool) => {
                request.spooled = Some(spool.length());
                exchange::ask(request, &mut spool, limits).await
            }
            Err(error) => Err(error),
        }
    } else {
        exchange::ask(request, body, limits).await
    };
    observe::end(Stage::Upstream, begun);
    answered
}

/// Returns the response in place of one of an upstream that has failed: a stored one, or a page.
async fn page_of_error(
    services: &Services,
    ctx: RequestContext<'_>,
    request: &ProxyRequest<'_>,
    fetch: Option<&Fetch>,
    error: &UpstreamError,
    out: &mut Output,
) -> Response {
    if error.status.code() >= 500 {
        print(format_args!(
            "{} for {}: {}: {}",
            error
                .upstream
                .as_deref()
                .unwrap_or(request.route.group.name()),
            request.path.as_str().escape_debug(),
            error.status,
            error.why
        ));
        let stored = fetch.and_then(|it| it.instead_of_error(services, ctx, out, error.status));
        if let Some(response) = stored {
            return response;
        }
    }
    pages::error(services, ctx, out, error.status, error.detail()).await
}

/// Makes a tunnel of the connection, if the client has asked for it.
async fn switch_protocols(
    services: &Services,
    ctx: RequestContext<'_>,
    answered: UpstreamResponse,
    tunnel: Option<Permit>,
    out: &mut Output,
) -> Chosen {
    let member = answered.body.member().clone();
    let (Some(permit), Some(lease)) = (tunnel, answered.body.into_lease()) else {
        print(format_args!(
            "{}: the upstream switched protocols although the client did not ask",
            member.target.name
        ));
        let response = pages::error(services, ctx, out, Status::BAD_GATEWAY, BAD).await;
        return (response, Origin::Here, None);
    };
    answered.head.write_upgrade(ctx, out);
    let response = Response::bare(Status::SWITCHING_PROTOCOLS);
    (response, Origin::Tunnel(Tunnel::new(lease, permit)), None)
}

const BAD: &str = "The upstream server sent no usable response.";

/// Sends the output buffer and the rest of a response. Counts its bytes.
async fn send(
    ctx: RequestContext<'_>,
    output: Output,
    rest: Body,
    origin: Origin,
    body: &mut ClientBody<'_>,
    bytes: &Cell<u64>,
) -> io::Result<Vec<u8>> {
    let (services, stream) = (body.services, body.stream);
    let speed = ctx.site.speeds.of(ctx.request, ctx.before_rewrite);
    match origin {
        Origin::Here => {
            let followed = Followed::ByRequest;
            send_response(services, stream, output, rest, followed, speed).await
        }
        Origin::Upstream(mut upstream, delivery) => {
            let upload = upstream.upload.take();
            let from = &mut upstream.body;
            let relaying = relay(services, stream, output, from, delivery, speed, bytes);
            match upload {
                Some(upload) => while_uploading(relaying, upload, body).await,
                None => relaying.await,
            }
        }
        Origin::Tunnel(tunnel) => {
            let output = send_output(services, stream, output).await?;
            let input = std::mem::take(&mut body.input);
            bytes.set(tunnel.run(services, stream, input).await);
            Ok(output)
        }
    }
}

/// Sends a response while the rest of the request is sent to the upstream, until the response has ended.
async fn while_uploading<T>(
    relaying: impl Future<Output = io::Result<T>>,
    mut upload: Upload,
    body: &mut ClientBody<'_>,
) -> io::Result<T> {
    let limits = &body.services.limits.upstream;
    let deadline = Deadline::new(limits);
    body.set_time(BodyTime::Unlimited);
    let mut relaying = pin!(relaying);
    let mut uploading = pin!(upload.run(body, limits, deadline));
    let mut uploaded = false;
    poll_fn(|context| {
        if let Poll::Ready(sent) = relaying.as_mut().poll(context) {
            return Poll::Ready(sent);
        }
        if !uploaded && let Poll::Ready(result) = uploading.as_mut().poll(context) {
            match result {
                Ok(()) => uploaded = true,
                Err(error) => return Poll::Ready(Err(io::Error::other(error.why))),
            }
        }
        Poll::Pending
    })
    .await
}
