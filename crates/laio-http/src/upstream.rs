//! The heads of upstream responses: from an HTTP server (RFC 9112, section 4) or a CGI program (RFC
//! 3875, section 6).
//!
//! As strict as with requests: with a response that two readers could interpret differently, an
//! upstream could inject a second response, for the next client.

use crate::framing::{ConnectionFields, FramingFields};
use crate::request::refuse_bare_line_feed;
use crate::{Framing, Headers, Limits, Rejection, Status, Version};
use std::fmt;

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Response<'b> {
    /// The status.
    pub status: Status,
    /// How the body is delimited; none if it ends with the connection.
    pub framing: Option<Framing>,
    /// Whether the connection can be used again after the body.
    pub keep_alive: bool,
    /// All fields.
    pub headers: Headers<'b>,
}

/// Parses the head of a response at the start of `buffer`. Returns it with its length, or none if it
/// is incomplete. `to_head` is set if the request was HEAD, so that no body follows.
///
/// ```
/// use laio_http::{Framing, Limits, Status, upstream::parse_response};
///
/// let received = b"HTTP/1.1 299 Made Up\r\nContent-Length: 5\r\n\r\nhello";
/// let (response, length) = parse_response(received, &Limits::DEFAULT, false)?.expect("complete");
/// assert_eq!((response.status.code(), response.framing), (299, Some(Framing::Length(5))));
/// assert_eq!(&received[length..], b"hello");
/// # Ok::<(), laio_http::upstream::BadResponse>(())
/// ```
///
/// # Errors
///
/// Returns the [`BadResponse`], after which the connection must be closed.
pub fn parse_response<'b>(
    buffer: &'b [u8],
    limits: &Limits,
    to_head: bool,
) -> Result<Option<(Response<'b>, usize)>, BadResponse> {
    let head = &buffer[..buffer.len().min(limits.head_bytes_in_force())];
    let line = status_line(head)?;
    let fields = line.map(|line| fields(head, line.len, limits).map(|found| (line, found)));
    let Some((line, Some((headers, head_len)))) = fields.transpose()? else {
        return incomplete(head, limits);
    };
    refuse_bare_line_feed(&head[..head_len]).map_err(|_| BadResponse::BareLineFeed)?;
    let (framing, connection) = delimit(&headers).map_err(BadResponse::Framing)?;
    let framing = framing
        .judge_response(line.version)
        .map_err(BadResponse::Framing)?;
    let bodiless = to_head || line.status.is_bodiless();
    let response = Response {
        status: line.status,
        framing: if bodiless {
            Some(Framing::None)
        } else {
            framing
        },
        keep_alive: connection.keep_alive(line.version),
        headers,
    };
    Ok(Some((response, head_len)))
}

/// Parses the head of a CGI program's output, like [`parse_response`]. Lines may end in LF alone, as
/// in old programs. Without a `Status` field it is 200, or 302 if there is a `Location`.
///
/// # Errors
///
/// Returns the [`BadResponse`], if the output is malformed.
pub fn parse_cgi<'b>(
    buffer: &'b [u8],
    limits: &Limits,
    to_head: bool,
) -> Result<Option<(Response<'b>, usize)>, BadResponse> {
    let head = &buffer[..buffer.len().min(limits.head_bytes_in_force())];
    let Some((headers, head_len)) = fields(head, 0, limits)? else {
        return incomplete(head, limits);
    };
    if headers.is_empty() {
        return Err(BadResponse::Header); // RFC 3875, section 6.2: at least one field
    }
    let status = match headers.get("Status") {
        Some(value) => status_code(value).ok_or(BadResponse::StatusLine)?,
        None if headers.get("Location").is_some() => Status::FOUND,
        None => Status::OK,
    };
    if status.code() < 200 {
        return Err(BadResponse::StatusLine);
    }
    let mut framing = FramingFields::default();
    for value in headers.all("Content-Length") {
        framing
            .content_length(value)
            .map_err(BadResponse::Framing)?;
    }
    let framing = framing
        .judge_response(Version::Http11)
        .map_err(BadResponse::Framing)?;
    let bodiless = to_head || status.is_bodiless();
    let response = Response {
        status,
        framing: if bodiless {
            Some(Framing::None)
        } else {
            framing
        },
        keep_alive: true,
        headers,
    };
    Ok(Some((response, head_len)))
}

/// The reason why a response cannot be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadResponse {
    /// The response does not begin with `HTTP/1.x`, a status from 100 to 599 and a reason.
    StatusLine,
    /// The head is longer than [`Limits::head_bytes`].
    HeadTooLarge,
    /// More fields than [`Limits::headers`].
    TooManyHeaders,
    /// A field line is malformed.
    Header,
    /// A line ends in LF alone.
    BareLineFeed,
    /// The end of the body is ambiguous.
    Framing(Rejection),
}

impl fmt::Display for BadResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadResponse::StatusLine => "the status line is malformed",
            BadResponse::HeadTooLarge => "the head is too large",
            BadResponse::TooManyHeaders => "there are too many header fields",
            BadResponse::Header => "a header field is malformed",
            BadResponse::BareLineFeed => "a line ends without a carriage return",
            BadResponse::Framing(rejection) => {
                let detail = rejection.detail().trim_end_matches('.');
                return write!(f, "the end of the body is ambiguous: {detail}");
            }
        })
    }
}

impl std::error::Error for BadResponse {}

/// A parsed status line.
#[derive(Clone, Copy)]
struct StatusLine {
    version: Version,
    status: Status,
    len: usize,
}

/// Parses `HTTP-version SP status-code SP [reason] CRLF`; the last space may be missing if there is
/// no reason. Reads strictly forward, so that a refusal does not depend on later bytes.
fn status_line(head: &[u8]) -> Result<Option<StatusLine>, BadResponse> {
    const FORM: &[u8] = b"HTTP/1.0 200";
    for (place, (&byte, &form)) in head.iter().zip(FORM).enumerate() {
        let fits = match place {
            7 => byte.is_ascii_digit(),
            9 => (b'1'..=b'5').contains(&byte),
            10 | 11 => byte.is_ascii_digit(),
            _ => byte == form,
        };
        if !fits {
            return Err(BadResponse::StatusLine);
        }
    }
    let Some(rest) = head.get(FORM.len()..) else {
        return Ok(None);
    };
    let text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    let end = rest.iter().position(|&byte| !text(byte));
    let reason = &rest[..end.unwrap_or(rest.len())];
    if reason.first().is_some_and(|&byte| byte != b' ') {
        return Err(BadResponse::StatusLine);
    }
    match end.map(|end| &rest[end..]) {
        None | Some(b"\r") => return Ok(None),
        Some(rest) if rest.starts_with(b"\r\n") => {}
        Some([b'\n', ..]) => return Err(BadResponse::BareLineFeed),
        Some(_) => return Err(BadResponse::StatusLine),
    }
    let status = status_code(&head[9..FORM.len()]).ok_or(BadResponse::StatusLine)?;
    let version = match head[7] {
        b'0' => Version::Http10,
        _ => Version::Http11,
    };
    let len = FORM.len() + reason.len() + 2;
    Ok(Some(StatusLine {
        version,
        status,
        len,
    }))
}

/// Parses three digits and an optional reason after a space.
fn status_code(text: &[u8]) -> Option<Status> {
    let (code, rest) = text.split_at_checked(3)?;
    let number = code.iter().try_fold(0, |number: u16, byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u16::from(byte - b'0'))
    })?;
    let ends = rest.first().is_none_or(|&byte| byte == b' ');
    Status::of_another(number).filter(|_| ends)
}

fn fields<'b>(
    head: &'b [u8],
    from: usize,
    limits: &Limits,
) -> Result<Option<(Headers<'b>, usize)>, BadResponse> {
    Headers::parse(head, from, limits).map_err(|error| match error {
        httparse::Error::TooManyHeaders => BadResponse::TooManyHeaders,
        _ => BadResponse::Header,
    })
}

fn incomplete<T>(head: &[u8], limits: &Limits) -> Result<Option<T>, BadResponse> {
    if head.len() == limits.head_bytes_in_force() {
        Err(BadResponse::HeadTooLarge)
    } else {
        Ok(None)
    }
}

fn delimit(headers: &Headers<'_>) -> Result<(FramingFields, ConnectionFields), Rejection> {
    let mut framing = FramingFields::default();
    let mut connection = ConnectionFields::default();
    for (name, value) in headers.iter() {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => connection.connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => framing.content_length(value)?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                framing.transfer_encoding(value);
            }
            _ => {}
        }
    }
    Ok((framing, connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<(u16, Option<Framing>, bool)>, BadResponse> {
        let parsed = parse_response(text.as_bytes(), &Limits::DEFAULT, false)?;
        Ok(parsed.map(|(response, length)| {
            assert!(length <= text.len());
            (
                response.status.code(),
                response.framing,
                response.keep_alive,
            )
        }))
    }

    #[test]
    fn where_bodies_end() {
        #[rustfmt::skip]
        let cases = [
            ("HTTP/1.1 200 OK\r\n\r\n", (200, None, true)),
            ("HTTP/1.1 200\r\n\r\n", (200, None, true)),
            ("HTTP/1.0 200 \r\n\r\n", (200, None, false)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (200, Some(Framing::None), true)),
            ("HTTP/1.1 404 No\r\ncontent-length: 7\r\n\r\n", (404, Some(Framing::Length(7)), true)),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                (200, Some(Framing::Chunked), false),
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", (204, Some(Framing::None), true)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", (304, Some(Framing::None), true)),
            ("HTTP/1.1 599 \u{e9}\r\n\r\n", (599, None, true)),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text), Ok(Some(expected)), "{text:?}");
            for end in 0..text.len() {
                let part = parse_response(&text.as_bytes()[..end], &Limits::DEFAULT, false);
                assert!(matches!(part, Ok(None)), "{:?}", &text.as_bytes()[..end]);
            }
        }
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
        let (response, _) = parse_response(head, &Limits::DEFAULT, true)
            .unwrap()
            .unwrap();
        assert_eq!(response.framing, Some(Framing::None));
    }

    #[test]
    fn malformed_responses_are_refused() {
        let line = "HTTP/1.1 200 OK\r\n";
        for (text, expected) in [
            ("HTTP/2.0 200 OK\r\n\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 099 OK\r\n\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 600 OK\r\n\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 20 OK\r\n\r\n", BadResponse::StatusLine),
            ("HTTP/1.1  200 OK\r\n\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 2000 OK\r\n\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 200 O\0K\r\n\r\n", BadResponse::StatusLine),
            ("HTTP/1.1 200 OK\n\n", BadResponse::BareLineFeed),
            ("<html>", BadResponse::StatusLine),
            ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", BadResponse::Header),
            ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", BadResponse::Header),
            (
                "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
                BadResponse::BareLineFeed,
            ),
        ] {
            assert_eq!(parsed(text), Err(expected), "{text:?}");
        }
        for fields in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 1, 1\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
        ] {
            let response = parsed(&format!("{line}{fields}\r\n"));
            assert!(
                matches!(response, Err(BadResponse::Framing(_))),
                "{fields:?}"
            );
        }
        let old = parsed("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(matches!(old, Err(BadResponse::Framing(_))));
        let long = format!("{line}A: {}", "x".repeat(Limits::HEAD_BYTES_MAX));
        assert_eq!(parsed(&long), Err(BadResponse::HeadTooLarge));
        let many = format!("{line}{}\r\n", "A: b\r\n".repeat(101));
        assert_eq!(parsed(&many), Err(BadResponse::TooManyHeaders));
    }

    #[test]
    fn output_of_programs() {
        let parsed = |text: &str| {
            let parsed = parse_cgi(text.as_bytes(), &Limits::DEFAULT, false)?;
            Ok(parsed.map(|(response, _)| (response.status.code(), response.framing)))
        };
        assert_eq!(parsed("Content-Type: a/b\n\nx"), Ok(Some((200, None))));
        assert_eq!(
            parsed("Status: 404 Not Found\r\nA: b\r\n\r\n"),
            Ok(Some((404, None)))
        );
        assert_eq!(parsed("Location: /there\n\n"), Ok(Some((302, None))));
        let length = "Status: 201\nContent-Length: 3\n\n";
        assert_eq!(parsed(length), Ok(Some((201, Some(Framing::Length(3))))));
        assert_eq!(parsed("A: b\r\n"), Ok(None));
        assert_eq!(parsed("\n"), Err(BadResponse::Header));
        assert_eq!(parsed("Status: OK\n\n"), Err(BadResponse::StatusLine));
        assert_eq!(parsed("Status: 100\n\n"), Err(BadResponse::StatusLine));
        assert_eq!(parsed("Status: 2000\n\n"), Err(BadResponse::StatusLine));
    }
}
