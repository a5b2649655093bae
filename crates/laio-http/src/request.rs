//! A request head, parsed from the bytes received so far (RFC 9112, sections 2, 3 and 5).

use crate::framing::{ConnectionFields, FramingFields};
use crate::{Framing, Headers, Limits, Method, Rejection, RequestPath, Version, target};

/// Parses one request head at the start of `buffer`.
///
/// [`Parsed::Partial`] means: receive more and call again with all bytes so far. The outcome never
/// depends on how the bytes were split, and a rejection is reported as early as possible. The
/// request borrows from `buffer`; only a path that is not in canonical form allocates. Every call
/// starts from the beginning; the limit on the head bounds the cost when bytes arrive one by one.
///
/// The parser accepts what RFC 9112 allows a server to accept, except everything that two
/// recipients could interpret differently: lines end in CRLF only (section 2.2 would allow a bare
/// LF), there is exactly one space between the parts of the request line, no folded lines, no space
/// before a colon, no control characters. Empty lines before the request line are skipped (section
/// 2.2).
///
/// # Errors
///
/// Returns the [`Rejection`] with its status; the connection must be closed afterwards.
pub fn parse<'b>(buffer: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Rejection> {
    // Ignore bytes beyond the limit, or the outcome would depend on the split.
    let head_bytes = limits.head_bytes_in_force();
    let head = &buffer[..buffer.len().min(head_bytes)];
    match parse_within(head, limits)? {
        Parsed::Partial if head.len() == head_bytes => Err(Rejection::HeadTooLarge),
        parsed => Ok(parsed),
    }
}

/// The result of parsing the bytes received so far.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation per request"
)]
pub enum Parsed<'b> {
    /// The head is incomplete, and valid so far.
    Partial,
    /// The head is complete.
    Complete {
        /// The request.
        request: Request<'b>,
        /// The length of the head; the body, or the next request, begins after it.
        head_len: usize,
    },
}

/// A parsed request head, with its framing.
#[derive(Clone, Debug)]
pub struct Request<'b> {
    /// The method.
    pub method: Method<'b>,
    /// The target as sent, for the log only.
    pub target: &'b str,
    /// The path of the target, or the reason why it is refused. After such a refusal the connection
    /// stays open.
    pub path: Result<RequestPath<'b>, Rejection>,
    /// The query, without the question mark.
    pub query: Option<&'b str>,
    /// The host the request is for, with its port if one was given: the authority of the target, or
    /// the `Host` field. `None` in HTTP/1.0 without `Host`.
    pub host: Option<&'b str>,
    /// The version.
    pub version: Version,
    /// Whether the client wants the connection to stay open (RFC 9112, section 9.3).
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110,
    /// section 10.1.1). [`crate::Output::push_continue`] writes the response.
    pub expects_continue: bool,
    /// How the body is delimited; [`crate::BodySkip`] reads past it.
    pub framing: Framing,
    /// All fields.
    pub headers: Headers<'b>,
}

fn parse_within<'b>(head: &'b [u8], limits: &Limits) -> Result<Parsed<'b>, Rejection> {
    let Some(line) = request_line(head, limits)? else {
        return Ok(Parsed::Partial);
    };
    match Headers::parse(head, line.len, limits) {
        Ok(None) => Ok(Parsed::Partial),
        Ok(Some((headers, head_len))) => {
            refuse_bare_line_feed(&head[..head_len])?;
            let request = judge(line, headers, false)?;
            Ok(Parsed::Complete { request, head_len })
        }
        Err(httparse::Error::TooManyHeaders) => Err(Rejection::TooManyHeaders),
        Err(_) => Err(Rejection::Header),
    }
}

/// A parsed request line.
pub(crate) struct RequestLine<'b> {
    pub(crate) method: Method<'b>,
    pub(crate) target: &'b str,
    pub(crate) version: Version,
    /// The length up to the first field, including empty lines before the request line.
    pub(crate) len: usize,
}

/// Parses `method SP request-target SP HTTP-version CRLF` (RFC 9112, section 3), or returns `None`
/// when it is incomplete. Reads strictly forward, so that a refusal does not depend on later bytes.
fn request_line<'b>(head: &'b [u8], limits: &Limits) -> Result<Option<RequestLine<'b>>, Rejection> {
    let empty = 2 * head.chunks(2).take_while(|line| *line == b"\r\n").count();
    let rest = &head[empty..];
    if rest == b"\r" {
        return Ok(None);
    }

    let token = until(rest, Limits::METHOD_BYTES_MAX, |byte| !is_token_byte(byte));
    let Some(method) = word(token, Rejection::RequestLine, Rejection::MethodTooLong)? else {
        return Ok(None);
    };
    let rest = &rest[method.len() + 1..];

    let visible = until(rest, limits.target_bytes, |byte| {
        byte <= b' ' || byte == 0x7f
    });
    let Some(target) = word(visible, Rejection::RequestLine, Rejection::TargetTooLong)? else {
        return Ok(None);
    };
    let rest = &rest[target.len() + 1..];

    let Some(version) = version(rest)? else {
        return Ok(None);
    };
    let method = Method::from_name(str::from_utf8(method).map_err(|_| Rejection::RequestLine)?);
    let target = str::from_utf8(target).map_err(|_| Rejection::Target)?;
    let len = head.len() - rest.len() + VERSION_LINE_LEN;
    Ok(Some(RequestLine {
        method,
        target,
        version,
        len,
    }))
}

/// The end of a word of the request line.
enum Until<'b> {
    /// The word ends at this byte.
    Stop(&'b [u8], u8),
    /// The end was not received yet.
    Unknown,
    /// The word exceeds its limit.
    TooLong,
}

/// Returns the bytes before the first one that stops, at most `max`.
fn until(bytes: &[u8], max: usize, stops: impl Fn(u8) -> bool) -> Until<'_> {
    let window = &bytes[..bytes.len().min(max.saturating_add(1))];
    match window.iter().position(|&byte| stops(byte)) {
        Some(end) => Until::Stop(&bytes[..end], bytes[end]),
        None if window.len() > max => Until::TooLong,
        None => Until::Unknown,
    }
}

/// Parses a word, which must not be empty and ends in a space.
fn word(
    found: Until<'_>,
    malformed: Rejection,
    too_long: Rejection,
) -> Result<Option<&[u8]>, Rejection> {
    match found {
        Until::Stop(word, b' ') if !word.is_empty() => Ok(Some(word)),
        Until::Stop(..) => Err(malformed),
        Until::Unknown => Ok(None),
        Until::TooLong => Err(too_long),
    }
}

const VERSION_LINE_LEN: usize = b"HTTP/1.1\r\n".len();

/// Parses the version and the end of its line. The name is case-sensitive (RFC 9112, section 2.3).
fn version(bytes: &[u8]) -> Result<Option<Version>, Rejection> {
    let line = &bytes[..bytes.len().min(VERSION_LINE_LEN)];
    for (&byte, &expected) in line.iter().zip(b"HTTP/0.0\r\n") {
        match expected {
            b'0' if byte.is_ascii_digit() => {}
            _ if byte == expected => {}
            b'\r' if byte == b'\n' => return Err(Rejection::BareLineFeed),
            _ => return Err(Rejection::RequestLine),
        }
    }
    match *line {
        [_, _, _, _, _, b'1', _, b'0', _, _] => Ok(Some(Version::Http10)),
        [_, _, _, _, _, b'1', _, _, _, _] => Ok(Some(Version::Http11)),
        [_, _, _, _, _, _, _, _, _, _] => Err(Rejection::Version),
        _ => Ok(None),
    }
}

/// Interprets the request line and the fields that affect parsing. `is_chunked`: a body of unknown
/// length follows, which no field says.
pub(crate) fn judge<'b>(
    line: RequestLine<'b>,
    headers: Headers<'b>,
    is_chunked: bool,
) -> Result<Request<'b>, Rejection> {
    let RequestLine {
        method,
        target,
        version,
        ..
    } = line;
    let target::Target {
        authority,
        path,
        query,
    } = target::split(method, target)?;

    let mut host = None;
    let mut framing = FramingFields::default();
    let mut connection = ConnectionFields::default();
    let mut expects_continue = false;
    if is_chunked {
        framing.transfer_encoding(b"chunked");
    }
    for (name, value) in headers.iter() {
        // Comparing the length first rules out most fields.
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                let value = str::from_utf8(value).map_err(|_| Rejection::Host)?;
                if host.replace(value).is_some() {
                    return Err(Rejection::HostRepeated);
                }
                if !target::is_host(value) {
                    return Err(Rejection::Host);
                }
            }
            6 if name.eq_ignore_ascii_case(b"expect") => {
                // RFC 9110, section 10.1.1 defines no other expectation.
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Rejection::Expectation);
                }
                expects_continue = true;
            }
            10 if name.eq_ignore_ascii_case(b"connection") => connection.connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => framing.content_length(value)?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                framing.transfer_encoding(value);
            }
            _ => {}
        }
    }
    if host.is_none() && version == Version::Http11 {
        return Err(Rejection::HostMissing); // RFC 9112, section 3.2
    }
    let framing = framing.judge(version)?;
    Ok(Request {
        method,
        target: line.target,
        path: RequestPath::new(path),
        query,
        host: authority.or(host),
        version,
        keep_alive: connection.keep_alive(version),
        expects_continue: expects_continue && version == Version::Http11 && !framing.is_none(),
        framing,
        headers,
    })
}

/// One pass without a branch per byte. Needed because the field parser accepts a bare LF as a line
/// end.
pub(crate) fn refuse_bare_line_feed(head: &[u8]) -> Result<(), Rejection> {
    let pairs = head.iter().zip(&head[1..]);
    let is_bare = pairs.fold(false, |is_bare, (&before, &byte)| {
        is_bare | ((byte == b'\n') & (before != b'\r'))
    });
    if is_bare {
        Err(Rejection::BareLineFeed)
    } else {
        Ok(())
    }
}

/// `tchar` (RFC 9110, section 5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(head: &[u8]) -> (Request<'_>, usize) {
        match parse(head, &Limits::DEFAULT) {
            Ok(Parsed::Complete { request, head_len }) => (request, head_len),
            other => panic!("{other:?}"),
        }
    }

    fn is_partial(head: &[u8]) -> bool {
        matches!(parse(head, &Limits::DEFAULT), Ok(Parsed::Partial))
    }

    fn rejection(head: &[u8]) -> Rejection {
        parse(head, &Limits::DEFAULT).expect_err("must be refused")
    }

    #[test]
    fn a_common_request() {
        let head = b"GET /a/b?q=1 HTTP/1.1\r\nHost: example.org:80\r\nAccept: */*\r\n\r\nrest";
        let (request, head_len) = complete(head);
        assert_eq!(&head[head_len..], b"rest");
        assert_eq!(request.method, Method::Get);
        assert_eq!(request.target, "/a/b?q=1");
        assert_eq!(request.path, RequestPath::new("/a/b"));
        assert_eq!(request.query, Some("q=1"));
        assert_eq!(request.host, Some("example.org:80"));
        assert_eq!(request.version, Version::Http11);
        assert!(request.keep_alive && !request.expects_continue);
        assert_eq!(request.framing, Framing::None);
        assert_eq!(request.headers.get("accept"), Some(&b"*/*"[..]));
    }

    #[test]
    fn http_1_0_needs_no_host_and_closes() {
        let (request, _) = complete(b"GET / HTTP/1.0\r\n\r\n");
        assert_eq!(request.version.to_string(), "HTTP/1.0");
        assert_eq!(request.host, None);
        assert!(!request.keep_alive);
    }

    #[test]
    fn the_authority_of_the_target_wins_over_host() {
        let (request, _) = complete(b"GET http://a/x HTTP/1.1\r\nHost: b\r\n\r\n");
        assert_eq!(
            (request.host, request.path),
            (Some("a"), RequestPath::new("/x"))
        );
    }

    #[test]
    fn empty_lines_before_the_request_are_skipped() {
        let (request, head_len) = complete(b"\r\n\r\nGET / HTTP/1.0\r\nA: b\r\n\r\n");
        assert_eq!((request.path, head_len), (RequestPath::new("/"), 28));
        assert_eq!(request.headers.get("a"), Some(&b"b"[..]));
        assert!(is_partial(b"") && is_partial(b"\r") && is_partial(b"\r\n\r"));
        assert_eq!(rejection(b"\n"), Rejection::RequestLine);
        assert_eq!(rejection(b"\rGET"), Rejection::RequestLine);
    }

    #[test]
    fn body_framing_and_expectation() {
        let (request, _) = complete(
            b"PUT / HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n",
        );
        assert_eq!(
            (request.framing, request.expects_continue),
            (Framing::Length(3), true)
        );
        let (request, _) =
            complete(b"GET / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(
            (request.framing, request.expects_continue),
            (Framing::Chunked, false)
        );
        // There is no body to continue with, or the version does not support it (RFC 9110, 10.1.1).
        let (request, _) = complete(b"GET / HTTP/1.1\r\nHost:\r\nExpect: 100-continue\r\n\r\n");
        assert!(!request.expects_continue);
        let (request, _) =
            complete(b"PUT / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
        assert!(!request.expects_continue);
        let other = b"GET / HTTP/1.1\r\nHost:\r\nExpect: the worst\r\n\r\n";
        assert_eq!(rejection(other), Rejection::Expectation);
    }

    #[test]
    fn versions() {
        assert_eq!(
            complete(b"GET / HTTP/1.7\r\nHost:\r\n\r\n").0.version,
            Version::Http11
        );
        assert_eq!(rejection(b"PRI * HTTP/2.0\r\n"), Rejection::Version);
        assert_eq!(rejection(b"GET / HTTP/0.9\r\n"), Rejection::Version);
        assert_eq!(rejection(b"GET / http/1.1\r\n"), Rejection::RequestLine);
        assert_eq!(rejection(b"GET / HTTP/1.10"), Rejection::RequestLine);
        assert_eq!(rejection(b"GET /\r\n"), Rejection::RequestLine);
        assert_eq!(rejection(b"GET / HTTP/1.1\n"), Rejection::BareLineFeed);
    }

    #[test]
    fn an_impossible_request_is_refused_at_once() {
        assert_eq!(rejection(b"\x16\x03\x01"), Rejection::RequestLine); // a TLS hello
        assert_eq!(rejection(b" GET"), Rejection::RequestLine);
        assert_eq!(rejection(b"GET  "), Rejection::RequestLine);
        assert_eq!(rejection(b"GET /a\0"), Rejection::RequestLine);
        assert_eq!(rejection(b"GET / HTTX"), Rejection::RequestLine);
        assert_eq!(rejection(b"GET /\xff HTTP/1.1\r\n"), Rejection::Target);
    }

    #[test]
    fn limits_hold_exactly() {
        let limits = Limits {
            head_bytes: 64,
            target_bytes: 8,
            headers: 2,
        };
        let parse = |head: &[u8]| match parse(head, &limits) {
            Ok(Parsed::Complete { head_len, .. }) => Ok(Some(head_len)),
            Ok(Parsed::Partial) => Ok(None),
            Err(rejection) => Err(rejection),
        };
        assert_eq!(parse(b"GET /1234567 HTTP/1.0\r\n\r\n"), Ok(Some(25)));
        assert_eq!(parse(b"GET /1234567"), Ok(None));
        assert_eq!(parse(b"GET /12345678"), Err(Rejection::TargetTooLong));

        let fields = |n: usize| [b"GET / HTTP/1.0\r\n", &b"A:\r\n".repeat(n)[..], b"\r\n"].concat();
        assert_eq!(parse(&fields(2)), Ok(Some(26)));
        assert_eq!(parse(&fields(3)), Err(Rejection::TooManyHeaders));

        let padded = |n: usize| format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "x".repeat(n));
        assert_eq!(parse(padded(41).as_bytes()), Ok(Some(64)));
        assert_eq!(parse(padded(42).as_bytes()), Err(Rejection::HeadTooLarge));
        assert_eq!(parse(&b"\r\n".repeat(32)), Err(Rejection::HeadTooLarge));

        let method = "M".repeat(Limits::METHOD_BYTES_MAX);
        assert!(is_partial(method.as_bytes()));
        assert_eq!(
            rejection(format!("{method}M").as_bytes()),
            Rejection::MethodTooLong
        );
    }

    #[test]
    fn at_most_a_hundred_fields_by_default() {
        let head = |n: usize| format!("GET / HTTP/1.0\r\n{}\r\n", "Ab: cd\r\n".repeat(n));
        assert_eq!(complete(head(100).as_bytes()).0.headers.len(), 100);
        assert_eq!(rejection(head(101).as_bytes()), Rejection::TooManyHeaders);
    }
}
