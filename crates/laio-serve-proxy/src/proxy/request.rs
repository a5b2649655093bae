//! Requests as HTTP upstreams get them: without the fields that concern the client's connection,
//! and with fields that describe the client (RFC 9110, section 7.6; RFC 7239).

use super::fields::{HOP_BY_HOP, Hops, VIA, push_field};
use super::proxy_request::{Caching, ProxyRequest};
use laio_http::{Framing, ascii_query};
use laio_serve_base::field_names::{is_one_of, is_same_variable};
use laio_serve_core::site::message_fields::Field;
use laio_serve_net::stream::Stream;
use laio_serve_upstream::target::Target;
use std::borrow::Cow;
use std::io::Write;

/// Fields that the server replaces or removes.
const REPLACED: [&str; 3] = ["Content-Length", "Expect", "Host"];

/// Fields that only a trusted proxy in front of this server can set.
const FORWARDED: [&str; 6] = [
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Prefix",
    "X-Forwarded-Proto",
    "X-Real-IP",
];

/// Fields that ask for a response only if the client does not have it.
const CONDITIONS: [&str; 2] = ["If-Modified-Since", "If-None-Match"];

/// Fields that make some upstreams use another path than that of the request line. They are removed
/// even from trusted proxies, which may pass on a client's fields, because only the path of the
/// request line was checked by guards.
const OTHER_PATHS: [&str; 14] = [
    "X-Envoy-Original-Path",
    "X-Forwarded-Path",
    "X-Forwarded-URI",
    "X-Forwarded-URL",
    "X-HTTP-Path-Override",
    "X-HTTP-URL-Override",
    "X-Original-Path",
    "X-Original-URI",
    "X-Original-URL",
    "X-Path-Info",
    "X-Request-URI",
    "X-Rewrite-URI",
    "X-Rewrite-URL",
    "X-Script-Name",
];

/// Whether a field would become the same variable as one of `names`.
fn is_variable_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|own| is_same_variable(name, own))
}

/// Returns the fields that are passed on to any kind of upstream.
fn passed_fields<'a>(
    proxy_request: &ProxyRequest<'a>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let headers = &proxy_request.ctx.request.headers;
    let (hops, trusts_peer) = (Hops::from_headers(headers), proxy_request.peer.is_trusted);
    let cached = !matches!(proxy_request.caching, Caching::Off);
    headers.iter().filter(move |(name, _)| {
        let is = |names: &[&str]| is_variable_of(name, names);
        !(hops.has(name)
            || is(&HOP_BY_HOP)
            || is(&REPLACED)
            || is(&OTHER_PATHS)
            // CGI programs would read it as the variable HTTP_PROXY (CVE-2016-5385).
            || is(&["Proxy"])
            || (is(&FORWARDED) && !trusts_peer)
            || (cached && is_one_of(name, &CONDITIONS)))
    })
}

/// Returns the fields that describe the client, in addition to those of a trusted proxy, those of the
/// cache, and those that auth servers have set.
fn forwarded(proxy_request: &ProxyRequest<'_>) -> Vec<(Cow<'static, str>, Vec<u8>)> {
    let request = proxy_request.ctx.request;
    let proto = |secure| if secure { "https" } else { "http" };
    let peer = &*proxy_request.peer.client.name;
    let known = |name: &str| proxy_request.peer.is_trusted && request.headers.get(name).is_some();
    let mut fields: Vec<(Cow<'static, str>, Vec<u8>)> = Vec::new();
    let node = match peer {
        "-" => "unknown".to_owned(),
        peer if peer.contains(':') => format!("\"[{peer}]\""),
        peer => peer.to_owned(),
    };
    // Each element is about one connection, here that of the peer.
    let secure = proxy_request.stream.map(Stream::is_secure);
    let own_proto = proto(secure.unwrap_or(proxy_request.ctx.secure));
    let mut forwarded = format!("for={node};proto={own_proto}").into_bytes();
    if let Some(host) = request.host {
        let _ = write!(forwarded, ";host=\"{host}\"");
    }
    fields.push(("Forwarded".into(), forwarded));
    if peer != "-" {
        fields.push(("X-Forwarded-For".into(), peer.as_bytes().to_vec()));
    }
    if !known("X-Forwarded-Proto") {
        let proto = proto(proxy_request.ctx.secure);
        fields.push(("X-Forwarded-Proto".into(), proto.as_bytes().to_vec()));
    }
    if let Some(host) = request.host.filter(|_| !known("X-Forwarded-Host")) {
        fields.push(("X-Forwarded-Host".into(), host.as_bytes().to_vec()));
    }
    // An upstream may refuse it with 425, and the client then sends it again.
    let is_early = proxy_request.stream.is_some_and(Stream::is_early);
    if is_early && request.headers.get("Early-Data").is_none() {
        fields.push(("Early-Data".into(), b"1".to_vec()));
    }
    if let Caching::Revalidate { etag, modified } = proxy_request.caching {
        let own = [("If-None-Match", etag), ("If-Modified-Since", modified)];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), value?.to_vec())));
        fields.extend(own);
    }
    let more = proxy_request.more.iter();
    fields.extend(more.map(|(name, value)| ((*name).into(), value.clone())));
    if let Some(auth) = proxy_request.ctx.auth {
        auth.copy_fields(&mut fields);
    }
    fields
}

/// Calls `push` with each field for any kind of upstream, as the rules of the site leave them.
pub(super) fn for_each_field(proxy_request: &ProxyRequest<'_>, mut push: impl FnMut(&[u8], &[u8])) {
    let forwarded = forwarded(proxy_request);
    let Some(rules) = proxy_request.rules else {
        for (name, value) in passed_fields(proxy_request) {
            push(name, value);
        }
        for (name, value) in &forwarded {
            push(name.as_bytes(), value);
        }
        return;
    };
    let passed = passed_fields(proxy_request);
    let passed = passed.map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)));
    let forwarded = forwarded.iter();
    let forwarded = forwarded.map(|(name, value)| (name.as_bytes().into(), (&**value).into()));
    let mut fields: Vec<Field<'_>> = passed.chain(forwarded).collect();
    rules.apply(proxy_request.ctx.forwarded(), &mut fields);
    for (name, value) in &fields {
        push(name, value);
    }
}

/// Returns the host for an upstream: that of the request, unless a rule sets another one.
pub(super) fn host<'a>(proxy_request: &ProxyRequest<'a>) -> Option<Cow<'a, str>> {
    let ctx = proxy_request.ctx;
    match proxy_request
        .rules
        .and_then(|rules| rules.host(ctx.forwarded()))
    {
        Some(host) => Some(host.into()),
        None => ctx.request.host.map(Cow::Borrowed),
    }
}

/// Appends the head of an HTTP/1.1 request.
pub(super) fn push_head(out: &mut Vec<u8>, proxy_request: &ProxyRequest<'_>, target: &Target) {
    let request = proxy_request.ctx.request;
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.mount.upstream_path(proxy_request.path).as_bytes());
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(ascii_query(query).as_bytes());
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let host = host(proxy_request);
    push_field(
        out,
        b"Host",
        host.as_deref().unwrap_or("localhost").as_bytes(),
    );
    for_each_field(proxy_request, |name, value| push_field(out, name, value));
    let version = request.version.as_str().trim_start_matches("HTTP/");
    push_field(out, b"Via", format!("{version} {VIA}").as_bytes());
    match request.framing {
        Framing::Length(length) => {
            push_field(out, b"Content-Length", length.to_string().as_bytes())
        }
        Framing::Chunked => push_field(out, b"Transfer-Encoding", b"chunked"),
        // Methods that usually have a body announce an empty one (RFC 9110, section 8.6).
        Framing::None if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") => {
            push_field(out, b"Content-Length", b"0");
        }
        Framing::None => {}
    }
    if proxy_request.websocket {
        push_field(out, b"Connection", b"Upgrade");
        push_field(out, b"Upgrade", b"websocket");
    }
    out.extend_from_slice(b"\r\n");
}
