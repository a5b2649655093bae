//! A request: its head, translated to HTTP/1.1, and its body.

use super::frames::{FrameHead, Frames, kind};
use super::{Failure, ReceiveStreams, code, qpack};
use crate::net::quic::StreamId;
use crate::options::Http3;
use bytes::Bytes;
use std::task::{Context, Poll, ready};

/// The stream of a request.
pub(crate) struct RequestStream {
    frames: Frames,
    /// The field section that is being read, if it is one.
    section: Option<Vec<u8>>,
    /// Bytes of the present frame that are skipped.
    skips: bool,
    stage: Stage,
    /// The length of the body that the head announces.
    announced: Option<u64>,
    received: u64,
    /// Bytes of frames whose type is unknown.
    unknown: u64,
    /// Bytes of a field section, at most.
    most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Body,
    Trailers,
    End,
}

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// As an HTTP/1.1 client would have sent it.
    Text(HeadText),
    /// It is larger than the limit.
    TooLarge,
}

/// The head of a request in HTTP/1.1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeadText {
    pub(crate) text: Vec<u8>,
    pub(crate) to_head: bool,
    /// The value of `Content-Length`; without one the body is presented in chunks.
    pub(crate) length: Option<u64>,
}

/// What the next frame begins or continues.
enum Part {
    /// A whole field section.
    Section(Vec<u8>),
    /// A field section that is larger than the limit.
    TooLarge,
    Data(Bytes),
    End,
}

impl RequestStream {
    pub(crate) fn new(id: StreamId, most: usize) -> RequestStream {
        RequestStream {
            frames: Frames::new(id),
            section: None,
            skips: false,
            stage: Stage::Head,
            announced: None,
            received: 0,
            unknown: 0,
            most,
        }
    }

    /// Reads the head.
    pub(crate) fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<Head, Failure>> {
        let section = match ready!(self.poll_part(context, quic))? {
            Part::Section(section) => section,
            Part::TooLarge => return Poll::Ready(Ok(Head::TooLarge)),
            Part::Data(_) => return Poll::Ready(Err(unexpected())),
            Part::End => return Poll::Ready(Err(Failure::Stream(code::REQUEST_INCOMPLETE))),
        };
        self.stage = Stage::Body;
        let head = translate(&section, self.most)?;
        if let Head::Text(head) = &head {
            self.announced = head.length;
        }
        Poll::Ready(Ok(head))
    }

    /// Reads the next bytes of the body; none at its end, after checking trailers, which are
    /// discarded.
    pub(crate) fn poll_data(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            if self.stage == Stage::End {
                return Poll::Ready(Ok(None));
            }
            match ready!(self.poll_part(context, quic))? {
                Part::Data(bytes) => {
                    self.received += bytes.len() as u64;
                    if self.announced.is_some_and(|length| self.received > length) {
                        return Poll::Ready(Err(malformed()));
                    }
                    return Poll::Ready(Ok(Some(bytes)));
                }
                Part::Section(section) => {
                    check_trailers(&section)?;
                    self.stage = Stage::Trailers;
                }
                Part::TooLarge => return Poll::Ready(Err(malformed())),
                Part::End => {
                    self.stage = Stage::End;
                    if self.announced.is_some_and(|length| self.received < length) {
                        return Poll::Ready(Err(malformed()));
                    }
                }
            }
        }
    }

    /// Whether the request has ended with its head, as far as it is known now.
    pub(crate) fn poll_is_over(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> bool {
        self.frames.poll_is_over(context, quic)
    }

    fn poll_part(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<Part, Failure>> {
        loop {
            let piece = ready!(self.frames.poll_payload(context, quic))?;
            match (piece, &mut self.section) {
                (Some(_), _) if self.skips => {}
                (Some(bytes), Some(section)) => section.extend_from_slice(&bytes),
                (Some(bytes), None) => return Poll::Ready(Ok(Part::Data(bytes))),
                (None, Some(_)) => {
                    let section = self.section.take().unwrap_or_default();
                    return Poll::Ready(Ok(Part::Section(section)));
                }
                (None, None) => {
                    self.skips = false;
                    let Some(head) = ready!(self.frames.poll_head(context, quic))? else {
                        return Poll::Ready(Ok(Part::End));
                    };
                    if !self.begin(head)? {
                        return Poll::Ready(Ok(Part::TooLarge));
                    }
                }
            }
        }
    }

    /// Begins a frame. Returns false if it is a field section that is too large.
    fn begin(&mut self, FrameHead { kind, length }: FrameHead) -> Result<bool, Failure> {
        match (kind, self.stage) {
            (kind::HEADERS, Stage::Head | Stage::Body) => {
                // A compressed section is hardly longer than the fields.
                if length > self.most as u64 {
                    return Ok(false);
                }
                self.section = Some(Vec::new());
            }
            (kind::DATA, Stage::Body) => {}
            (kind::DATA | kind::HEADERS, _) => return Err(unexpected()),
            (
                kind::CANCEL_PUSH
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::MAX_PUSH_ID,
                _,
            ) => return Err(unexpected()),
            _ if kind::is_of_http2(kind) => return Err(unexpected()),
            _ => {
                self.skips = true;
                self.unknown = self.unknown.saturating_add(length);
                if self.unknown > Http3::UNKNOWN_FRAMES {
                    return Err(Failure::Stream(code::EXCESSIVE_LOAD));
                }
            }
        }
        Ok(true)
    }
}

fn unexpected() -> Failure {
    Failure::Connection(code::FRAME_UNEXPECTED, "a frame is not allowed here")
}

fn malformed() -> Failure {
    Failure::Stream(code::MESSAGE_ERROR)
}

/// Why a field section is refused.
enum Refusal {
    Failure(Failure),
    TooLarge,
}

impl From<qpack::Malformed> for Refusal {
    fn from(_: qpack::Malformed) -> Refusal {
        let code = code::QPACK_DECOMPRESSION_FAILED;
        Refusal::Failure(Failure::Connection(
            code,
            "a field section cannot be decoded",
        ))
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal::Failure(failure)
    }
}

/// The fields of a head, as they are decoded.
#[derive(Default)]
struct Fields {
    method: Option<Vec<u8>>,
    scheme: Option<Vec<u8>>,
    authority: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    host: Option<Vec<u8>>,
    length: Option<Vec<u8>>,
    /// The lines of all other fields.
    lines: Vec<u8>,
    /// The values of the cookie fields, which a client may split.
    cookies: Vec<u8>,
    is_after_pseudo_fields: bool,
    /// The size of all fields, as the limit that is announced counts it.
    size: usize,
}

/// Bytes that each field counts for, besides its name and value (RFC 9114, section 4.2.2).
const FIELD_OVERHEAD: usize = 32;

/// Translates the head of a request to HTTP/1.1, whose parser then checks it.
fn translate(section: &[u8], most: usize) -> Result<Head, Failure> {
    let mut fields = Fields::default();
    let decoded = qpack::decode(section, |name, value| {
        fields.size += name.len() + value.len() + FIELD_OVERHEAD;
        if fields.size <= most {
            fields.add(name, value).map_err(Refusal::from)
        } else {
            Err(Refusal::TooLarge)
        }
    });
    match decoded {
        Ok(()) => fields.head().map(Head::Text).ok_or_else(malformed),
        Err(Refusal::TooLarge) => Ok(Head::TooLarge),
        Err(Refusal::Failure(failure)) => Err(failure),
    }
}

fn check_trailers(section: &[u8]) -> Result<(), Failure> {
    let decoded = qpack::decode(section, |name, value| {
        let valid = is_field_name(name) && is_field_value(value);
        valid.then_some(()).ok_or(Refusal::Failure(malformed()))
    });
    match decoded {
        Ok(()) => Ok(()),
        Err(Refusal::Failure(failure)) => Err(failure),
        Err(Refusal::TooLarge) => Err(malformed()),
    }
}

impl Fields {
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Failure> {
        if let [b':', rest @ ..] = name {
            let field = match rest {
                b"method" => &mut self.method,
                b"scheme" => &mut self.scheme,
                b"authority" => &mut self.authority,
                b"path" => &mut self.path,
                _ => return Err(malformed()),
            };
            let valid = !self.is_after_pseudo_fields && field.is_none() && is_word(value);
            *field = Some(value.to_vec());
            return valid.then_some(()).ok_or_else(malformed);
        }
        self.is_after_pseudo_fields = true;
        if !is_field_name(name) || !is_field_value(value) {
            return Err(malformed());
        }
        let own = match name {
            // Fields of a connection (RFC 9114, section 4.2).
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => return Err(malformed()),
            b"te" if !value.eq_ignore_ascii_case(b"trailers") => return Err(malformed()),
            b"te" => return Ok(()),
            b"cookie" => {
                if !self.cookies.is_empty() {
                    self.cookies.extend_from_slice(b"; ");
                }
                self.cookies.extend_from_slice(value);
                return Ok(());
            }
            b"host" => &mut self.host,
            b"content-length" => &mut self.length,
            _ => {
                push(&mut self.lines, name, value);
                return Ok(());
            }
        };
        let is_new = own.replace(value.to_vec()).is_none();
        is_new.then_some(()).ok_or_else(malformed)
    }

    /// Returns the head, or none if pseudo-fields are missing or contradict others.
    fn head(self) -> Option<HeadText> {
        let method = self.method.filter(|method| is_token(method))?;
        let target = if method == b"CONNECT" {
            let others = self.scheme.is_some() || self.path.is_some();
            self.authority.clone().filter(|_| !others)?
        } else {
            self.scheme.filter(|scheme| !scheme.is_empty())?;
            self.path.filter(|path| !path.is_empty())?
        };
        let host = match (self.authority, self.host) {
            (Some(authority), Some(host)) if authority != host => return None,
            (Some(authority), _) => authority,
            (None, host) => host?,
        };
        if host.is_empty() {
            return None;
        }
        let length = match &self.length {
            Some(value) => {
                let digits = value.iter().all(u8::is_ascii_digit);
                let value = std::str::from_utf8(value).ok().filter(|_| digits)?;
                Some(value.parse().ok()?)
            }
            None => None,
        };
        let mut text = Vec::with_capacity(self.lines.len() + target.len() + 128);
        for part in [&method[..], b" ", &target, b" HTTP/1.1\r\n"] {
            text.extend_from_slice(part);
        }
        push(&mut text, b"host", &host);
        text.extend_from_slice(&self.lines);
        if !self.cookies.is_empty() {
            push(&mut text, b"cookie", &self.cookies);
        }
        if let Some(length) = &self.length {
            push(&mut text, b"content-length", length);
        }
        Some(HeadText {
            to_head: method == b"HEAD",
            text,
            length,
        })
    }
}

impl HeadText {
    /// Ends the head. `has_body`: the request does not end with it.
    pub(crate) fn finish(mut self, has_body: bool) -> Vec<u8> {
        if has_body && self.length.is_none() {
            push(&mut self.text, b"transfer-encoding", b"chunked");
        }
        self.text.extend_from_slice(b"\r\n");
        self.text
    }
}

fn push(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

fn is_token(name: &[u8]) -> bool {
    let is_token_byte =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_token_byte)
}

/// Whether this is a token in lower case.
fn is_field_name(name: &[u8]) -> bool {
    is_token(name) && !name.iter().any(u8::is_ascii_uppercase)
}

/// Whether a value can be a line of HTTP/1.1: it has no control characters, and no space at its ends.
fn is_field_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_allowed = |&byte: &u8| byte == b'\t' || byte >= b' ' && byte != 0x7f;
    value.iter().all(is_allowed) && !is_space(value.first()) && !is_space(value.last())
}

/// Whether a value can be a word of a request line.
fn is_word(value: &[u8]) -> bool {
    value.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Result<Head, Failure> {
        let mut section = Vec::new();
        qpack::begin(&mut section);
        for (name, value) in fields {
            qpack::encode(name.as_bytes(), value.as_bytes(), &mut section);
        }
        translate(&section, 1000)
    }

    fn text(fields: &[(&str, &str)]) -> String {
        match head(fields) {
            Ok(Head::Text(head)) => String::from_utf8(head.finish(false)).unwrap(),
            other => panic!("{fields:?}: {other:?}"),
        }
    }

    const USUAL: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/b?c"),
    ];

    fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&USUAL, more].concat()
    }

    #[test]
    fn heads_become_those_of_http_1() {
        assert_eq!(text(&USUAL), "GET /b?c HTTP/1.1\r\nhost: a\r\n\r\n");
        let fields = [
            ("accept", "*/*"),
            ("cookie", "a=1"),
            ("te", "trailers"),
            ("host", "a"),
            ("cookie", "b=2"),
        ];
        assert_eq!(
            text(&with(&fields)),
            "GET /b?c HTTP/1.1\r\nhost: a\r\naccept: */*\r\ncookie: a=1; b=2\r\n\r\n"
        );
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert_eq!(text(&connect), "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n");
    }

    #[test]
    fn a_body_has_a_length_or_is_chunked() {
        let ends_with = |fields: &[(&str, &str)], end: &str| match head(fields) {
            Ok(Head::Text(head)) => head.finish(true).ends_with(end.as_bytes()),
            _ => false,
        };
        let length = with(&[("content-length", "12")]);
        assert!(ends_with(&length, "content-length: 12\r\n\r\n"));
        assert!(ends_with(&USUAL, "transfer-encoding: chunked\r\n\r\n"));
    }

    #[test]
    fn malformed_heads_are_refused() {
        let heads: [Vec<(&str, &str)>; 18] = [
            vec![],
            USUAL[..3].to_vec(),
            USUAL[1..].to_vec(),
            vec![USUAL[0], USUAL[1], USUAL[3]],
            vec![USUAL[0], USUAL[2], USUAL[3]],
            with(&[(":path", "/")]),
            with(&[(":status", "200")]),
            with(&[("a", "b"), (":scheme", "https")]),
            with(&[("host", "b")]),
            with(&[("Upper", "b")]),
            with(&[("a b", "b")]),
            with(&[("", "b")]),
            with(&[("a", "b\r\nc: d")]),
            with(&[("a", " b")]),
            with(&[("connection", "close")]),
            with(&[("te", "gzip")]),
            with(&[("content-length", "+1")]),
            with(&[("content-length", "1"), ("content-length", "1")]),
        ];
        for fields in heads {
            assert_eq!(head(&fields), Err(malformed()), "{fields:?}");
        }
        for path in ["", "/a b", "/a\r\nb: c", "/a\0"] {
            let mut fields = USUAL;
            fields[3].1 = path;
            assert_eq!(head(&fields), Err(malformed()), "{path:?}");
        }
    }

    #[test]
    fn large_heads_are_not_collected() {
        let large = "x".repeat(1000);
        let mut fields = USUAL.to_vec();
        fields.push(("a", &large));
        assert_eq!(head(&fields), Ok(Head::TooLarge));
        let many = with(&[("a", ""); 40]);
        assert_eq!(head(&many), Ok(Head::TooLarge));
    }
}
