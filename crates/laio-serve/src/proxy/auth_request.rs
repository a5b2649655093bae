//! A request that asks an auth server about the request of a client, and the answer.

use super::cache::Caching;
use super::exchange::{self, UpstreamResponse};
use super::relay::Relayed;
use super::upstream_head::UpstreamHead;
use super::{EmptyBody, ProxyRequest};
use crate::options::UpstreamLimits;
use crate::request::auth_state::AuthState;
use crate::request::response::{RequestContext, Response};
use crate::services::Services;
use crate::site::auth_request::AuthRule;
use crate::upstream::error::UpstreamError;
use crate::upstream::route::Route;
use laio_http::{Framing, Method, Request, RequestPath, Status, Version, ascii_query};
use laio_rt::future::{Either, race};

/// A complete answer of an auth server.
pub(crate) struct Answer {
    head: UpstreamHead,
    body: Vec<u8>,
}

/// Asks one of the auth servers of a rule about a request, and receives the answer.
///
/// # Errors
/// When there is no complete answer within the limits of time and bytes, or the client leaves.
pub(crate) async fn ask(
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
        let answered = exchange::ask(&proxy_request, route, &mut EmptyBody, &limits).await?;
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
        body,
        upstream_head: mut head,
        whole,
        ..
    } = answered;
    if head.status == Status::SWITCHING_PROTOCOLS {
        return Err(UpstreamError::bad_gateway("the answer is 101"));
    }
    let mut relayed = Relayed::new(body, &head, whole, false);
    let mut body = Vec::new();
    let broken =
        |error| UpstreamError::bad_gateway(format_args!("the answer is incomplete: {error}"));
    while !relayed.take(&mut body).map_err(broken)? {
        if body.len() > most {
            break;
        }
        relayed.wait().await.map_err(broken)?;
    }
    if body.len() > most {
        return Err(UpstreamError::bad_gateway(format_args!(
            "the answer has more than {most} bytes (--max-auth-request-bytes)"
        )));
    }
    head.set_length(body.len());
    Ok(Answer { head, body })
}

impl Answer {
    /// Returns the status.
    pub(crate) fn status(&self) -> Status {
        self.head.status
    }

    /// Returns the fields, without those of the connection.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.head
            .fields()
            .iter()
            .map(|(name, value)| (&**name, &**value))
    }

    /// Returns the values of fields that set cookies.
    pub(crate) fn cookies(&self) -> impl Iterator<Item = &[u8]> {
        let fields = self.fields();
        let cookies = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"Set-Cookie"));
        cookies.map(|(_, value)| value)
    }

    /// Writes the answer as the response to the client's request. A cache may keep it only if it says so.
    pub(crate) fn write(&self, ctx: RequestContext<'_>, out: &mut Vec<u8>) -> Response {
        let kept = self
            .fields()
            .any(|(name, _)| name.eq_ignore_ascii_case(b"Cache-Control"));
        let more: &[(&str, &[u8])] = match kept {
            true => &[],
            false => &[("Cache-Control", b"no-store")],
        };
        self.head.write_with(ctx, out, false, false, more);
        if ctx.sends_body() {
            out.extend_from_slice(&self.body);
        }
        ctx.response(self.head.status, self.body.len() as u64)
    }
}
