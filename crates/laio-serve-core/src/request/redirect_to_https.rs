//! Redirects requests that arrive without TLS to https, and answers an authority that checks a name.

use super::pages;
use super::response::{RequestContext, Response};
use laio_http::{Method, Output, Request};
use laio_serve_base::trace;
use laio_serve_net::tls::published::Published;
use std::sync::Arc;

/// Redirects the requests of an address without TLS.
pub struct RedirectToHttps {
    /// The port of https, if they are redirected.
    pub port: Option<u16>,
    /// Answers to the challenges of an authority.
    pub published: Option<Arc<Published>>,
}

/// The answer to a request that arrived without TLS.
pub enum ToHttps {
    /// A redirect to this URL.
    Redirect(Vec<u8>),
    /// The request names no host, so there is no URL.
    NoHost,
}

impl RedirectToHttps {
    /// Returns the answer for an authority that checks a name.
    pub fn challenge(&self, request: &Request<'_>) -> Option<String> {
        let published = self.published.as_ref()?;
        let path = request.path.as_ref().ok()?;
        let reads = matches!(request.method, Method::Get | Method::Head);
        published.http_answer(path.as_str()).filter(|_| reads)
    }

    /// Returns the answer to a request, or none if the site answers it: malformed paths, and requests about
    /// the whole server.
    pub fn answer(&self, ctx: RequestContext<'_>) -> Option<ToHttps> {
        let path = ctx.as_sent().path.as_ref().ok()?;
        let port = self.port?;
        if path.is_whole_server() {
            return None;
        }
        trace::note("redirect", || {
            "the request arrived without TLS: --redirect-http answers".to_owned()
        });
        let host = ctx.request.host.map(without_port);
        Some(match host.filter(|host| !host.is_empty()) {
            Some(host) => {
                ToHttps::Redirect(location(host, port, path.as_str(), ctx.as_sent().query))
            }
            None => ToHttps::NoHost,
        })
    }
}

impl ToHttps {
    /// Writes the response.
    pub(crate) fn write(self, ctx: RequestContext<'_>, out: &mut Output) -> Response {
        match self {
            ToHttps::Redirect(location) => pages::to_https(ctx, out, &location),
            ToHttps::NoHost => pages::no_host(ctx, out),
        }
    }
}

/// Whether the client uses https according to a proxy in front.
pub fn came_by_https(request: &Request<'_>) -> bool {
    request.headers.iter().any(|(name, value)| {
        if name.eq_ignore_ascii_case(b"x-forwarded-proto") {
            // Of several proxies, the first one has seen the client.
            let first = value.split(|&byte| byte == b',').next().unwrap_or_default();
            return first.trim_ascii().eq_ignore_ascii_case(b"https");
        }
        if !name.eq_ignore_ascii_case(b"forwarded") {
            return false;
        }
        let first = value.split(|&byte| byte == b',').next().unwrap_or_default();
        first.split(|&byte| byte == b';').any(|pair| {
            let pair = pair.trim_ascii().to_ascii_lowercase();
            matches!(&*pair, b"proto=https" | b"proto=\"https\"")
        })
    })
}

/// Returns a host without its port. The parser of the request has checked its characters.
fn without_port(host: &str) -> &str {
    let end = match host.rfind(']') {
        Some(end) => end + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    &host[..end]
}

fn location(host: &str, port: u16, path: &str, query: Option<&str>) -> Vec<u8> {
    let mut location = format!("https://{host}");
    if port != 443 {
        location += &format!(":{port}");
    }
    location += path;
    if let Some(query) = query {
        location.push('?');
        location += query;
    }
    let mut escaped = Vec::with_capacity(location.len());
    for byte in location.bytes() {
        // Clients send bytes outside ASCII unescaped.
        if byte.is_ascii_graphic() {
            escaped.push(byte)
        } else {
            escaped.extend_from_slice(format!("%{byte:02X}").as_bytes())
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{Limits, Parsed, parse};

    fn with_request<T>(head: &str, then: impl FnOnce(&Request<'_>) -> T) -> T {
        match parse(head.as_bytes(), &Limits::default()).unwrap() {
            Parsed::Complete { request, .. } => then(&request),
            Parsed::Partial => panic!("the head is incomplete"),
        }
    }

    #[test]
    fn urls() {
        let url = |host, port, path, query| {
            String::from_utf8(location(without_port(host), port, path, query)).unwrap()
        };
        assert_eq!(url("a.b:80", 443, "/", None), "https://a.b/");
        assert_eq!(
            url("a.b", 8443, "/x", Some("q=1")),
            "https://a.b:8443/x?q=1"
        );
        assert_eq!(url("[::1]:80", 444, "/", Some("")), "https://[::1]:444/?");
        assert_eq!(url("[::1]", 443, "/é", None), "https://[::1]/%C3%A9");
    }

    #[test]
    fn proxies_that_use_https() {
        let came = |field: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
            with_request(&head, came_by_https)
        };
        for field in [
            "X-Forwarded-Proto: https",
            "x-forwarded-proto: HTTPS, http",
            "Forwarded: for=1.2.3.4;proto=https;host=a",
            "Forwarded: Proto=\"https\"",
        ] {
            assert!(came(field), "{field}");
        }
        for field in [
            "X-Forwarded-Proto: http, https",
            "X-Forwarded-For: https",
            "Forwarded: for=1.2.3.4;proto=http, proto=https",
            "Forwarded: xproto=https",
        ] {
            assert!(!came(field), "{field}");
        }
    }
}
