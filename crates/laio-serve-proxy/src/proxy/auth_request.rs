//! A request that asks an auth server about the request of a client, and the answer.

use super::exchange::{self, UpstreamResponse};
use super::proxy_request::{Caching, EmptyBody, ProxyRequest};
use super::upstream_head::UpstreamHead;
use laio_http::log::AddedField;
use laio_http::{Framing, Method, Output, Request, RequestPath, Status, Version, ascii_query};
use laio_rt::future::{Either, race};
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::request::auth_servers::{Asking, AuthAnswer, AuthServers};
use laio_serve_core::request::auth_state::AuthState;
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::services::Services;
use laio_serve_core::site::auth_request::AuthRule;
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::route::Route;

/// Asks auth servers like upstreams.
pub struct AskedAsUpstreams;

impl AuthServers for AskedAsUpstreams {
    fn ask<'a>(
        &'a self,
        services: &'a Services,
        ctx: RequestContext<'a>,
        state: &'a AuthState<'a>,
        route: &'a Route,
        rule: &'a AuthRule,
    ) -> Asking<'a> {
        Box::pin(async move {
            let answer = ask(services, ctx, state, route, rule).await?;
            Ok(Box::new(answer) as Box<dyn AuthAnswer>)
        })
    }
}

struct Answer {
    head: UpstreamHead,
    body: Vec<u8>,
}

async fn ask(
    services: &Services,
    ctx: RequestContext<'_>,
    state: &AuthState<'_>,
    route: &Route,
    rule: &AuthRule,
) -> Result<Answer, UpstreamError> {
    let path = RequestPath::new(&rule.path).map_err(UpstreamError::bad_gateway)?;
    let sent = state.sent;
    let request = Request {
        method: Method::Get,
        target: &rule.path,
        path: Ok(path.clone()),
        query: rule.query.as_deref(),
        host: sent.host,
        version: Version::Http11,
        keep_alive: true,
        expects_continue: false,
        framing: Framing::None,
        headers: sent.headers.filtered(|name| state.rules.sends(name)),
    };
    let proxy_request = ProxyRequest {
        ctx: RequestContext {
            request: &request,
            before_rewrite: None,
            auth: None,
            ..ctx
        },
        route,
        path: &path,
        script: None,
        peer: &state.peer,
        websocket: false,
        stream: None,
        rules: None,
        more: &described(ctx, sent),
        spooled: None,
        caching: Caching::Off,
    };
    let limits = limits(&services.limits.upstream, state, route);
    let answer = async {
        let answered = exchange::ask(&proxy_request, &mut EmptyBody, &limits).await?;
        receive(answered, state.rules.body_bytes).await
    };
    match race(state.client.left(), answer).await {
        Either::Left(()) => Err(UpstreamError::client_gone()),
        Either::Right(answer) => answer,
    }
}

/// Returns the limits of asking. Each step may take as long as the answer; the whole takes twice as long if there is
/// another server to ask.
fn limits(limits: &UpstreamLimits, state: &AuthState<'_>, route: &Route) -> UpstreamLimits {
    let time = state.rules.time;
    let whole = match route.group.targets() {
        [_] => time,
        _ => time.saturating_mul(2),
    };
    UpstreamLimits {
        queue_time: limits.queue_time.min(time),
        connect_time: limits.connect_time.min(time),
        first_byte_time: limits.first_byte_time.min(time),
        between_time: limits.between_time.min(time),
        whole_time: Some(limits.whole_time.map_or(whole, |limit| limit.min(whole))),
        ..limits.clone()
    }
}

/// Returns the fields that describe a request. What they say of its path is what this server reads in it.
fn described(ctx: RequestContext<'_>, sent: &Request<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let path = sent.path.as_ref().map_or("/", |path| path.as_str());
    let query = sent.query.map(|query| format!("?{}", ascii_query(query)));
    let uri = format!("{path}{}", query.unwrap_or_default());
    let scheme = if ctx.secure { "https" } else { "http" };
    let url = format!("{scheme}://{}{uri}", sent.host.unwrap_or("localhost"));
    let method = sent.method.as_str().as_bytes();
    vec![
        ("X-Forwarded-Method", method.to_vec()),
        ("X-Forwarded-Uri", uri.clone().into_bytes()),
        ("X-Original-Method", method.to_vec()),
        ("X-Original-URI", uri.into_bytes()),
        ("X-Original-URL", url.into_bytes()),
    ]
}

/// Receives the body of an answer.
async fn receive(answered: UpstreamResponse, most: usize) -> Result<Answer, UpstreamError> {
    let UpstreamResponse {
        mut head,
        body: mut arriving,
        ..
    } = answered;
    if head.status == Status::SWITCHING_PROTOCOLS {
        return Err(UpstreamError::bad_gateway("the answer is 101"));
    }
    let mut body = Vec::new();
    let broken =
        |error| UpstreamError::bad_gateway(format_args!("the answer is incomplete: {error}"));
    while !arriving.take(&mut body, usize::MAX).map_err(broken)? {
        if body.len() > most {
            break;
        }
        arriving.wait().await.map_err(broken)?;
    }
    if body.len() > most {
        return Err(UpstreamError::bad_gateway(format_args!(
            "the answer has more than {most} bytes (--max-auth-request-bytes)"
        )));
    }
    head.set_length(body.len());
    Ok(Answer { head, body })
}

impl AuthAnswer for Answer {
    fn status(&self) -> Status {
        self.head.status
    }

    fn fields(&self) -> &[AddedField] {
        self.head.fields()
    }

    fn write(&self, ctx: RequestContext<'_>, out: &mut Output) -> Response {
        let is_caching = |(name, _): &AddedField| name.eq_ignore_ascii_case(b"Cache-Control");
        let more: &[(&str, &[u8])] = if self.fields().iter().any(is_caching) {
            &[]
        } else {
            &[("Cache-Control", b"no-store")]
        };
        self.head.write_with(ctx, out, false, false, more);
        if ctx.sends_body() {
            out.bytes.extend_from_slice(&self.body);
        }
        ctx.response(self.head.status, self.body.len() as u64)
    }
}
