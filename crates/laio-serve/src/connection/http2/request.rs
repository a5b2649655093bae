//! The fields of an HTTP/2 request.

use h2::RecvStream;
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderValue, TE};
use http::{Method, Request};
use laio_http::RequestFields;

/// Returns the head. The `h2` crate has already refused connection-specific fields and control characters.
pub(super) fn fields(request: &Request<RecvStream>) -> RequestFields {
    let mut fields = RequestFields::default();
    let uri = request.uri();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let target = match uri.path_and_query() {
        Some(target) if request.method() != Method::CONNECT => target.as_str(),
        _ => authority,
    };
    let has_authority = !authority.is_empty();
    if has_authority {
        fields.push(b"host", authority.as_bytes());
    }
    let received = request.headers();
    for (name, value) in received {
        let replaced = (name == HOST && has_authority) || name == TE || name == COOKIE;
        if !replaced {
            fields.push(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if received.contains_key(COOKIE) {
        let cookies = received.get_all(COOKIE).iter();
        fields.push_cookies(cookies.map(HeaderValue::as_bytes));
    }
    fields.finish(request.method().as_str().as_bytes(), target.as_bytes());
    if !request.body().is_end_stream() && !received.contains_key(CONTENT_LENGTH) {
        fields.set_chunked();
    }
    fields
}
