//! A request of HTTP/2 in the words of HTTP/1.1.

use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderName, HeaderValue, TE};
use http::{Method, Request};

/// The head, as a client of HTTP/1.1 would have sent it; it is parsed, and refused, as theirs are. The `h2`
/// crate has refused what could not be said in it: fields of connections, control characters.
pub(super) fn head(request: &Request<RecvStream>) -> Vec<u8> {
    let mut head = Vec::new();
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
        let said = (name == HOST && has_authority) || name == TE || name == COOKIE;
        if !said {
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

/// One field of those that HTTP/2 lets a client make of it (RFC 9113, section 8.2.3).
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
