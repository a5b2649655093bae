//! A request that an upstream answers: the steps between the client's connection and `proxy`.

use super::state::Next;
use laio_http::log::LogRecord;
use laio_http::{Framing, RequestPath};
use laio_rt::future::{Either, race};
use laio_serve_core::log::micros_since;
use laio_serve_core::request::auth_state::AuthState;
use laio_serve_core::request::body::{BodyTime, ClientBody};
use laio_serve_core::request::lookup::{Answerer, Script};
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::request::send_response::{Followed, send_response};
use laio_serve_net::buffers::Buffers;
use laio_serve_net::client_watch::ClientWatch;
use laio_serve_proxy::cache::{self, Caching, ResponseCache};
use laio_serve_proxy::forward::{Forwarded, forward};
use laio_serve_proxy::relay::relay;
use laio_serve_proxy::{ProxyRequest, Source, Upload};
use laio_serve_upstream::link::Deadline;
use laio_serve_upstream::route::Route;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

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

    /// Whether the upstream executes a script.
    pub(super) fn is_script(&self) -> bool {
        self.script.is_some()
    }

    /// Returns the upstream for what answers a request, if it is not the site itself.
    pub(super) fn for_request(
        ctx: RequestContext<'a>,
        answerer: &'a Answerer,
    ) -> Option<Destination<'a>> {
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
    response_cache: Option<&Rc<ResponseCache>>,
    ctx: RequestContext<'_>,
    Destination {
        route,
        path,
        script,
    }: Destination<'_>,
    started: Instant,
    mut body: ClientBody<'_>,
) -> io::Result<(Vec<u8>, Next)> {
    let (services, stream) = (body.services, body.stream);
    let Buffers { mut output, name } = services.buffer_pool.take();
    let proxy_request = ProxyRequest {
        ctx,
        path,
        script,
        peer: body.peer,
        websocket: !stream.is_multiplexed(),
        stream: Some(stream),
        rules: ctx.site.request_rules.as_ref(),
        more: &[],
        spooled: None,
        caching: Caching::Off,
    };
    let client = ClientWatch::new(stream, ctx.request.framing != Framing::None);
    let forwarded = forward(
        services,
        response_cache,
        proxy_request,
        route,
        &mut body,
        &mut output,
    );
    let forwarded = race(client.left(), forwarded).await;
    let Either::Right(Some(forwarded)) = forwarded else {
        return Ok((body.input, Next::End));
    };
    let Forwarded {
        response,
        relayed,
        upload,
        tunnel,
        refresh,
        keep_alive,
    } = forwarded;
    ctx.apply_rules(&response, &name, &mut output);
    let mut length = response.length;
    let member = relayed.as_ref().map(|relayed| relayed.member().clone());
    let fields = services.log.fields_of(&output);
    let sent = match relayed {
        Some(mut relayed) => {
            let speed = ctx.site.speeds.of(ctx.request, ctx.before_rewrite);
            let relaying = relay(services, stream, output, &mut relayed, speed);
            let sent = match upload {
                Some(upload) => while_uploading(relaying, upload, &mut body).await,
                None => relaying.await,
            };
            length = relayed.content();
            sent
        }
        None => {
            let followed = Followed::ByRequest;
            let speed = ctx.site.speeds.of(ctx.request, ctx.before_rewrite);
            send_response(services, stream, output, response.body, followed, speed).await
        }
    };
    let (mut input, whole) = (std::mem::take(&mut body.input), body.is_done());
    if let (Some(tunnel), Ok(_)) = (tunnel, &sent) {
        length = tunnel
            .run(services, stream, std::mem::take(&mut input))
            .await;
    }
    let added = ctx.auth.map(AuthState::fields);
    services.log.write(&LogRecord {
        added: added.as_deref().unwrap_or_default(),
        remote: &ctx.client.name,
        status: response.status,
        bytes: length,
        duration_us: micros_since(started),
        version: stream.version().unwrap_or(ctx.request.version.as_str()),
        response_fields: fields.as_ref(),
        tls: stream.tls().filter(|_| services.log.needs_tls()),
        early_data: stream.is_early(),
        upstream: Some(match &member {
            Some(member) => &member.target.name,
            None => route.group.name(),
        }),
        ..LogRecord::from_request(ctx.request, ctx.date)
    });
    drop(added);
    let output = sent?.into();
    services.buffer_pool.put_back(Buffers { output, name });
    if let Some(fetch) = refresh {
        // The client has its response; a further request on this connection waits.
        cache::refresh(services, proxy_request, route, fetch).await;
    }
    let next = match (keep_alive, whole) {
        (true, _) => Next::Request,
        (false, true) if input.is_empty() => Next::End,
        (false, _) => Next::Linger,
    };
    Ok((input, next))
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
