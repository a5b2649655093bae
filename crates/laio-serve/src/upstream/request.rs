//! The request as an upstream gets it: what concerns this connection only is left out, and what the upstream
//! cannot see by itself is added (RFC 9110, section 7.6; RFC 7239).

use super::client::Asking;
use super::target::Target;
use laio_http::{Framing, Headers, Method, Version};
use std::io::Write;

/// How this server calls itself in `Via`.
pub(super) const VIA: &str = "laio";

/// Fields that concern one connection, besides those that `Connection` names (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [&str; 9] = [
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// Fields of a request that are said anew, or not at all.
const SAID_ANEW: [&str; 3] = ["Content-Length", "Expect", "Host"];

/// What a client says that only a proxy before us can know.
const FORWARDED: [&str; 6] = [
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Prefix",
    "X-Forwarded-Proto",
    "X-Real-IP",
];

/// Fields by which some upstreams take another path than that of the request line. The path that was guarded is
/// the only one that goes on, also from a proxy that is trusted: it may have passed on what its client says.
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

/// Which fields of a message concern its connection only.
pub(super) struct Hops<'b>(Vec<&'b [u8]>);

impl<'b> Hops<'b> {
    pub(super) fn of(headers: &Headers<'b>) -> Hops<'b> {
        let values = headers.all("Connection");
        let options = values.flat_map(|value| value.split(|&byte| byte == b','));
        Hops(options.map(<[u8]>::trim_ascii).collect())
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        is_one_of(name, &HOP_BY_HOP) || self.names(name)
    }

    pub(super) fn names(&self, name: &[u8]) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

pub(super) fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Whether a field would become the same variable as one of these, in an upstream that makes variables of fields:
/// a hyphen and an underscore are one there.
fn is_variable_of(name: &[u8], names: &[&str]) -> bool {
    let same =
        |(own, byte): (u8, &u8)| own.eq_ignore_ascii_case(byte) || (own == b'-' && *byte == b'_');
    let mut names = names.iter();
    names.any(|own| own.len() == name.len() && own.bytes().zip(name).all(same))
}

/// Whether a client asks for its connection to become a WebSocket. Nothing else is passed on: a tunnel to
/// whatever an upstream speaks besides (h2c) would lead past all rules.
pub(super) fn wants_websocket(asking: &Asking<'_>) -> bool {
    let request = asking.asked.request;
    request.method == Method::Get
        && request.version == Version::Http11
        && request.framing.is_none()
        && request
            .headers
            .only("Upgrade")
            .is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"))
        && Hops::of(&request.headers).names(b"upgrade")
}

/// The fields that any upstream gets, whatever it speaks.
pub(super) fn passed<'a>(
    asking: &Asking<'a>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let headers = &asking.asked.request.headers;
    let (hops, trusts) = (Hops::of(headers), asking.trusts);
    headers.iter().filter(move |(name, _)| {
        let is = |names: &[&str]| is_variable_of(name, names);
        !(hops.has(name)
            || is(&HOP_BY_HOP)
            || is(&SAID_ANEW)
            || is(&OTHER_PATHS)
            // Programs would take it for their own setting (CVE-2016-5385).
            || is(&["Proxy"])
            || (is(&FORWARDED) && !trusts))
    })
}

/// The fields that say who asks, as they are added to what a trusted proxy has said.
pub(super) fn forwarded(asking: &Asking<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let request = asking.asked.request;
    let proto = if asking.secure { "https" } else { "http" };
    let known = |name: &str| asking.trusts && request.headers.get(name).is_some();
    let mut fields = Vec::new();
    let node = match asking.peer {
        "-" => "unknown".to_owned(),
        peer if peer.contains(':') => format!("\"[{peer}]\""),
        peer => peer.to_owned(),
    };
    let mut forwarded = format!("for={node};proto={proto}").into_bytes();
    if let Some(host) = request.host {
        let _ = write!(forwarded, ";host=\"{host}\"");
    }
    fields.push(("Forwarded", forwarded));
    if asking.peer != "-" {
        fields.push(("X-Forwarded-For", asking.peer.as_bytes().to_vec()));
    }
    if !known("X-Forwarded-Proto") {
        fields.push(("X-Forwarded-Proto", proto.as_bytes().to_vec()));
    }
    if let Some(host) = request.host.filter(|_| !known("X-Forwarded-Host")) {
        fields.push(("X-Forwarded-Host", host.as_bytes().to_vec()));
    }
    fields
}

/// Appends the head of a request in HTTP/1.1.
pub(super) fn push_head(out: &mut Vec<u8>, asking: &Asking<'_>, target: &Target) {
    let request = asking.asked.request;
    out.extend_from_slice(request.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.mount.upstream_path(asking.path).as_bytes());
    if let Some(query) = request.query {
        out.push(b'?');
        out.extend_from_slice(query.as_bytes());
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    push_field(out, b"Host", request.host.unwrap_or("localhost").as_bytes());
    for (name, value) in passed(asking) {
        push_field(out, name, value);
    }
    for (name, value) in forwarded(asking) {
        push_field(out, name.as_bytes(), &value);
    }
    let version = request.version.as_str().trim_start_matches("HTTP/");
    push_field(out, b"Via", format!("{version} {VIA}").as_bytes());
    match request.framing {
        Framing::Length(length) => {
            push_field(out, b"Content-Length", length.to_string().as_bytes())
        }
        Framing::Chunked => push_field(out, b"Transfer-Encoding", b"chunked"),
        // Methods that usually have a body say so when there is none (RFC 9110, section 8.6).
        Framing::None if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") => {
            push_field(out, b"Content-Length", b"0");
        }
        Framing::None => {}
    }
    if asking.websocket {
        push_field(out, b"Connection", b"Upgrade");
        push_field(out, b"Upgrade", b"websocket");
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a field whose value was checked when it was parsed.
pub(super) fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whether it may be made twice (RFC 9110, section 9.2.2).
pub(super) fn is_idempotent(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete
    )
}
