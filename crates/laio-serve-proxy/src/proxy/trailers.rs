//! The fields after the body of a response (RFC 9110, section 6.5).

use super::fields::push_field;
use http::{HeaderMap, HeaderName, HeaderValue};
use laio_http::Request;

/// Fields that a recipient needs before the body, or that frame the message (RFC 9110, section 6.5.1).
const NOT_TRAILERS: [&str; 24] = [
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
];

/// Whether the client of a request in HTTP/1.1 takes trailers (`TE: trailers`).
pub(super) fn takes_trailers(request: &Request<'_>) -> bool {
    let values = request.headers.all("TE");
    values
        .flat_map(|value| value.split(|&byte| byte == b','))
        .any(|coding| {
            let end = coding.iter().position(|&byte| byte == b';');
            let name = &coding[..end.unwrap_or(coding.len())];
            name.trim_ascii().eq_ignore_ascii_case(b"trailers")
        })
}

/// Parses the lines that [`laio_http::BodySkip`] has checked. Leaves out what may not follow a body.
pub(super) fn parse(lines: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value)
            && may_follow(&name)
        {
            fields.append(name, value);
        }
    }
    fields
}

/// Appends the last chunk of a body, with the fields after it.
pub(super) fn push_last_chunk(out: &mut Vec<u8>, fields: Option<&HeaderMap>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in fields.into_iter().flatten() {
        // Control characters other than a tab are in no `HeaderValue`.
        if may_follow(name) {
            push_field(out, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn may_follow(name: &HeaderName) -> bool {
    !NOT_TRAILERS.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_chunks() {
        let fields = parse(b"Grpc-Status: 0\r\nContent-Length: 5\r\nX-A:b \r\nX-A: c\r\n");
        assert_eq!(fields.len(), 3);
        let mut out = Vec::new();
        push_last_chunk(&mut out, Some(&fields));
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "0\r\ngrpc-status: 0\r\nx-a: b\r\nx-a: c\r\n\r\n");
        let mut out = Vec::new();
        push_last_chunk(&mut out, None);
        assert_eq!(out, b"0\r\n\r\n");
    }
}
