//! Request targets and host names (RFC 9112, section 3.2; RFC 9110, section 7.2).

use crate::{Method, Rejection};

/// The parts of a request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'b> {
    /// The authority of an absolute-form target, which replaces `Host` (section 3.2.2).
    pub authority: Option<&'b str>,
    /// The path as sent: it begins with a slash, or is `*`.
    pub path: &'b str,
    /// The text after the first `?`.
    pub query: Option<&'b str>,
}

/// Splits a target into its parts.
///
/// Accepted are origin-form (`/path?query`), absolute-form (`http://host/path?query`, which every
/// server must understand) and asterisk-form (`*`, for `OPTIONS` alone). `CONNECT`, the only method
/// with authority-form, is refused. A `#` is refused: a fragment is never sent.
///
/// Bytes outside ASCII are accepted if they are UTF-8, because common clients send them unescaped.
pub(crate) fn split<'b>(method: Method<'_>, target: &'b str) -> Result<Target<'b>, Rejection> {
    if method == Method::Connect {
        return Err(Rejection::Connect);
    }
    if target.contains('#') {
        return Err(Rejection::Target);
    }
    if target.starts_with('/') {
        return Ok(with_query(None, target));
    }
    if target == "*" && method == Method::Options {
        return Ok(Target {
            authority: None,
            path: "*",
            query: None,
        });
    }
    let rest = strip_scheme(target).ok_or(Rejection::Target)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if authority.is_empty() || !is_host(authority) {
        return Err(Rejection::Host);
    }
    let mut split = with_query(Some(authority), rest);
    if split.path.is_empty() {
        // An empty path is "/"; for OPTIONS it stands for "*" (section 3.2.4).
        let whole_server = method == Method::Options && split.query.is_none();
        split.path = if whole_server { "*" } else { "/" };
    }
    Ok(split)
}

/// Whether `text` is `uri-host [ ":" port ]` (RFC 9110, section 7.2); the empty text is one.
pub(crate) fn is_host(text: &str) -> bool {
    let port_start = match text.strip_prefix('[') {
        Some(literal) => {
            let Some(end) = literal.find(']') else {
                return false;
            };
            let inside = &literal[..end];
            // IPv6, or the unused IPvFuture: both consist of these characters.
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'.');
            if inside.is_empty() || !inside.bytes().all(allowed) {
                return false;
            }
            end + 2
        }
        None => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(port_start);
    let port_is_fine = match port.strip_prefix(':') {
        // A port needs a name before it.
        Some(digits) => !host.is_empty() && is_port(digits),
        None => port.is_empty(),
    };
    port_is_fine && (host.starts_with('[') || host.bytes().all(is_name_byte))
}

/// Whether `digits` can be a port: up to 65535, or empty for the port of the scheme (RFC 3986,
/// section 3.2.3).
fn is_port(digits: &str) -> bool {
    let number = digits.bytes().try_fold(0u16, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    });
    number.is_some()
}

/// Whether a byte may be in a registered name (RFC 3986, section 3.2.2).
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte)
}

fn with_query<'b>(authority: Option<&'b str>, path_and_query: &'b str) -> Target<'b> {
    match path_and_query.split_once('?') {
        Some((path, query)) => Target {
            authority,
            path,
            query: Some(query),
        },
        None => Target {
            authority,
            path: path_and_query,
            query: None,
        },
    }
}

fn strip_scheme(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_once("://")?;
    let known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    known.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str) -> Result<(Option<&str>, &str, Option<&str>), Rejection> {
        split(Method::Get, target).map(|t| (t.authority, t.path, t.query))
    }

    #[test]
    fn origin_form() {
        assert_eq!(get("/"), Ok((None, "/", None)));
        assert_eq!(get("/a/b?c=d?e"), Ok((None, "/a/b", Some("c=d?e"))));
        assert_eq!(get("/a?"), Ok((None, "/a", Some(""))));
        assert_eq!(get("//host/x"), Ok((None, "//host/x", None)));
        assert_eq!(get("/http://x/"), Ok((None, "/http://x/", None)));
        assert_eq!(get("/é"), Ok((None, "/é", None)));
    }

    #[test]
    fn absolute_form() {
        assert_eq!(get("http://h/a?b"), Ok((Some("h"), "/a", Some("b"))));
        assert_eq!(get("HTTPS://h:1/"), Ok((Some("h:1"), "/", None)));
        assert_eq!(get("http://h"), Ok((Some("h"), "/", None)));
        assert_eq!(get("http://h?q"), Ok((Some("h"), "/", Some("q"))));
        assert_eq!(
            get("http://[::1]:8080/x"),
            Ok((Some("[::1]:8080"), "/x", None))
        );
        assert_eq!(get("http:///x"), Err(Rejection::Host));
        assert_eq!(get("http://user@h/x"), Err(Rejection::Host));
        assert_eq!(get("ftp://h/x"), Err(Rejection::Target));
    }

    #[test]
    fn other_forms() {
        assert_eq!(split(Method::Options, "*").map(|t| t.path), Ok("*"));
        assert_eq!(split(Method::Options, "http://h").map(|t| t.path), Ok("*"));
        assert_eq!(
            split(Method::Options, "http://h?q").map(|t| t.path),
            Ok("/")
        );
        assert_eq!(split(Method::Connect, "h:80"), Err(Rejection::Connect));
        for bad in ["*", "a", "a/b", "h:80", "?q", "/a#b", "http:/x", "*x"] {
            assert_eq!(get(bad), Err(Rejection::Target), "{bad}");
        }
    }

    #[test]
    fn hosts() {
        for good in [
            "",
            "a",
            "a.b:80",
            "127.0.0.1",
            "[::1]",
            "[fe80::1]:8080",
            "a:",
            "a:0",
            "a:65535",
            "a:00080",
            "[::1]:65535",
            "x_y-z",
            "%41",
        ] {
            assert!(is_host(good), "{good}");
        }
        for bad in [
            "a b",
            "a,b c",
            "a/b",
            "a:b",
            "a:80:81",
            "u@h",
            "[::1",
            "[]",
            "[::1]x",
            ":80",
            "a:65536",
            "a:99999",
            "a:18446744073709551697",
            "a:+80",
            "a:-1",
            "a: 80",
            "a:0x50",
            "[::1]:65536",
            "[::1]:+80",
        ] {
            assert!(!is_host(bad), "{bad}");
        }
        assert!(!is_host("é"));
        assert!(!is_host("[:: 1]"));
    }
}
