//! Translating an HTTP/2 request head to HTTP/1.1.

use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderName, HeaderValue, TE};
use http::{Method, Request};

/// Bytes that few heads exceed.
const USUAL_HEAD: usize = 512;

/// Returns the head as an HTTP/1.1 client would have sent it. The HTTP/1.1 parser then checks it.
/// The `h2` crate has already refused connection-specific fields and control characters.
pub(super) fn head(request: &Request<RecvStream>) -> Vec<u8> {
    let mut head = Vec::with_capacity(USUAL_HEAD);
    let uri = request.uri();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let target = match uri.path_and_query() {
        Some(target) if request.method() != Method::CONNECT => target.as_str(),
        _ => authority,
    };
    for part in [request.method().as_str(), " ", target, " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    let has_authority = !authority.is_empty();
    if has_authority {
        push(&mut head, &HOST, authority.as_bytes());
    }
    let fields = request.headers();
    for (name, value) in fields {
        let replaced = (name == HOST && has_authority) || name == TE || name == COOKIE;
        if !replaced {
            push(&mut head, name, value.as_bytes());
        }
    }
    push_cookies(&mut head, fields.get_all(COOKIE).iter());
    if !request.body().is_end_stream() && !fields.contains_key(CONTENT_LENGTH) {
        head.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Joins the cookie fields, which HTTP/2 allows a client to split (RFC 9113, section 8.2.3).
fn push_cookies<'v>(head: &mut Vec<u8>, cookies: impl Iterator<Item = &'v HeaderValue>) {
    let cookies: Vec<_> = cookies.map(HeaderValue::as_bytes).collect();
    if !cookies.is_empty() {
        push(head, &COOKIE, &cookies.join(&b"; "[..]));
    }
}

fn push(head: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}
