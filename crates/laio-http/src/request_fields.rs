//! A request of HTTP/2 or HTTP/3, made of fields instead of text (RFC 9113, section 8.3; RFC 9114,
//! section 4.3).

use crate::headers::Headers;
use crate::request::{RequestLine, is_token_byte, judge};
use crate::{Limits, Method, Rejection, Request, Version};

/// The head of a request of HTTP/2 or HTTP/3, from which [`Request::from_fields`] makes a request.
///
/// ```
/// use laio_http::{Framing, Limits, Request, RequestFields};
///
/// let mut fields = RequestFields::default();
/// fields.push(b"host", b"example.org");
/// fields.push_cookies([&b"a=1"[..], b"b=2"]);
/// fields.finish(b"GET", b"/a?b");
/// let request = Request::from_fields(&fields, &Limits::DEFAULT)?;
/// assert_eq!((request.host, request.query), (Some("example.org"), Some("b")));
/// assert_eq!(request.headers.get("Cookie"), Some(&b"a=1; b=2"[..]));
/// assert_eq!(request.framing, Framing::None);
/// # Ok::<(), laio_http::Rejection>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFields {
    /// The fields, each as the lengths of its name and value, and these. Then the method and the target.
    bytes: Vec<u8>,
    count: usize,
    fields_len: usize,
    method_len: usize,
    /// A body of unknown length follows.
    is_chunked: bool,
    is_malformed: bool,
    /// A field does not fit.
    is_too_large: bool,
}

/// Bytes that few heads exceed.
const USUAL_BYTES: usize = 512;

/// The bytes of the lengths before a field: as many as a line of HTTP/1.1 has besides its name and value.
const LENGTHS: usize = 4;

/// The bytes that a head of HTTP/1.1 has besides its method, target and fields.
const REST_OF_TEXT: usize = b"  HTTP/1.1\r\n\r\n".len();

/// The field that says in HTTP/1.1 that a body of unknown length follows.
const CHUNKED_LINE: usize = b"transfer-encoding: chunked\r\n".len();

/// Fields that HTTP/2 and HTTP/3 forbid because they concern an HTTP/1.1 connection (RFC 9113,
/// section 8.2.2).
const CONNECTION_SPECIFIC: [&[u8]; 5] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"transfer-encoding",
    b"upgrade",
];

/// Whether HTTP/2 and HTTP/3 forbid a field, because it concerns an HTTP/1.1 connection (RFC 9113,
/// section 8.2.2). The name is compared without case.
#[must_use]
pub fn is_connection_specific(name: &[u8]) -> bool {
    // Comparing the length first rules out most fields.
    matches!(name.len(), 7 | 10 | 16 | 17)
        && CONNECTION_SPECIFIC
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
}

impl<'b> Request<'b> {
    /// Makes a request of the fields of a head of HTTP/2 or HTTP/3, with the checks and limits of
    /// [`parse`](crate::parse), as if it had arrived in HTTP/1.1. [`Limits::head_bytes`] counts the
    /// bytes that the head would have in HTTP/1.1.
    ///
    /// # Errors
    ///
    /// Returns the [`Rejection`] with its status.
    pub fn from_fields(
        fields: &'b RequestFields,
        limits: &Limits,
    ) -> Result<Request<'b>, Rejection> {
        let line = fields.request_line(limits)?;
        if fields.count > limits.headers_in_force() {
            return Err(Rejection::TooManyHeaders);
        }
        if fields.is_malformed {
            return Err(Rejection::Header);
        }
        let chunked = if fields.is_chunked { CHUNKED_LINE } else { 0 };
        let text_len = fields.bytes.len() + REST_OF_TEXT + chunked;
        if fields.is_too_large || text_len > limits.head_bytes_in_force() {
            return Err(Rejection::HeadTooLarge);
        }
        let headers = Headers::of_fields(&fields.bytes, fields.fields_len, fields.count);
        judge(line, headers, fields.is_chunked)
    }
}

impl RequestFields {
    /// Returns a head of which nothing is known but that it is too large.
    #[must_use]
    pub fn too_large() -> RequestFields {
        let mut fields = RequestFields {
            is_too_large: true,
            ..RequestFields::default()
        };
        fields.finish(b"GET", b"/");
        fields
    }

    /// Adds a field, without white space around its value. Returns whether it is valid; if not, the
    /// request is refused.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> bool {
        let value = trim(value);
        let lengths = (u16::try_from(name.len()), u16::try_from(value.len()));
        let (Ok(name_len), Ok(value_len)) = lengths else {
            self.is_too_large = true;
            return true;
        };
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(USUAL_BYTES);
        }
        self.bytes.extend_from_slice(&name_len.to_ne_bytes());
        self.bytes.extend_from_slice(&value_len.to_ne_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.count += 1;
        let is_valid = is_name(name) && is_value(value) && !is_connection_specific(name);
        self.is_malformed |= !is_valid;
        is_valid
    }

    /// Adds the cookie fields as one, because a client may split them (RFC 9113, section 8.2.3).
    pub fn push_cookies<'v>(&mut self, values: impl IntoIterator<Item = &'v [u8]>) {
        let start = self.bytes.len();
        if !self.push(b"cookie", b"") {
            return;
        }
        let value_start = self.bytes.len();
        for value in values {
            if self.bytes.len() > value_start {
                self.bytes.extend_from_slice(b"; ");
            }
            self.bytes.extend_from_slice(trim(value));
            self.is_malformed |= !is_value(value);
        }
        match u16::try_from(self.bytes.len() - value_start) {
            Ok(len) => self.bytes[start + 2..start + LENGTHS].copy_from_slice(&len.to_ne_bytes()),
            Err(_) => self.is_too_large = true,
        }
    }

    /// Adds the method and the target, after all fields.
    pub fn finish(&mut self, method: &[u8], target: &[u8]) {
        self.fields_len = self.bytes.len();
        self.method_len = method.len();
        self.bytes.extend_from_slice(method);
        self.bytes.extend_from_slice(target);
    }

    /// Notes that a body follows whose length no field announces.
    pub fn set_chunked(&mut self) {
        self.is_chunked = true;
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        &self.bytes[self.fields_len..][..self.method_len]
    }

    /// Returns the bytes of memory that the head takes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    fn request_line(&self, limits: &Limits) -> Result<RequestLine<'_>, Rejection> {
        let (method, target) = self.bytes[self.fields_len..].split_at(self.method_len);
        let start = |word: &'_ [u8], most: usize| word.len().min(most.saturating_add(1));
        let checked = &method[..start(method, Limits::METHOD_BYTES_MAX)];
        if checked.is_empty() || !checked.iter().all(|&byte| is_token_byte(byte)) {
            return Err(Rejection::RequestLine);
        }
        if method.len() > Limits::METHOD_BYTES_MAX {
            return Err(Rejection::MethodTooLong);
        }
        let checked = &target[..start(target, limits.target_bytes)];
        let is_visible = |&byte: &u8| byte > b' ' && byte != 0x7f;
        if checked.is_empty() || !checked.iter().all(is_visible) {
            return Err(Rejection::RequestLine);
        }
        if target.len() > limits.target_bytes {
            return Err(Rejection::TargetTooLong);
        }
        let method = str::from_utf8(method).map_err(|_| Rejection::RequestLine)?;
        Ok(RequestLine {
            method: Method::from_name(method),
            target: str::from_utf8(target).map_err(|_| Rejection::Target)?,
            version: Version::Http11,
            len: 0,
        })
    }
}

/// Removes the white space that is no part of a value (RFC 9110, section 5.5).
pub(crate) fn trim(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value
        .iter()
        .position(|byte| !is_space(byte))
        .unwrap_or(value.len());
    let end = value
        .iter()
        .rposition(|byte| !is_space(byte))
        .map_or(start, |last| last + 1);
    &value[start..end]
}

/// The bytes of a name: `tchar` without upper case (RFC 9113, section 8.2.1).
const NAME_BYTES: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let is_upper = byte >= b'A' && byte <= b'Z';
        allowed[byte as usize] = is_token_byte(byte) && !is_upper;
        byte += 1;
    }
    allowed
};

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| NAME_BYTES[usize::from(byte)])
}

/// Whether a value has no control character but tabs, in one pass without a branch per byte.
fn is_value(value: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') | (byte == 0x7f);
    !value
        .iter()
        .fold(false, |found, &byte| found | is_control(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Framing, Parsed, parse};

    const CHUNKED: &str = "transfer-encoding: chunked";

    /// Returns the fields of a head whose lines end at bars.
    fn collected(head: &str) -> RequestFields {
        let mut collected = RequestFields::default();
        let (line, fields) = head.split_once('|').unwrap_or((head, ""));
        let is_field = |line: &&str| !line.is_empty() && *line != CHUNKED;
        for field in fields.split('|').filter(is_field) {
            let (name, value) = field.split_once(':').unwrap();
            collected.push(name.as_bytes(), value.as_bytes());
        }
        let (method, target) = line.split_once(' ').unwrap();
        collected.finish(method.as_bytes(), target.as_bytes());
        if head.ends_with(CHUNKED) {
            collected.set_chunked();
        }
        collected
    }

    /// Returns the head in HTTP/1.1.
    fn text(head: &str) -> String {
        let (line, fields) = head.split_once('|').unwrap_or((head, ""));
        let fields = fields
            .split_inclusive('|')
            .map(|it| it.trim_end_matches('|'));
        let fields: String = fields.map(|field| format!("{field}\r\n")).collect();
        format!("{line} HTTP/1.1\r\n{fields}\r\n")
    }

    /// Checks that the parser of HTTP/1.1 gives the same request, or the same refusal, and returns it.
    fn same_as_parsed(head: &str, limits: &Limits) -> String {
        // Only HTTP/1.1 has this field.
        let keep = |name: &[u8]| !name.starts_with(b"transfer-");
        let shown = |request: Result<Request<'_>, Rejection>| {
            let request = request.map(|request| Request {
                headers: request.headers.filtered(keep),
                ..request
            });
            format!("{request:?}")
        };
        let text = text(head);
        let parsed = match parse(text.as_bytes(), limits) {
            Ok(Parsed::Complete { request, head_len }) if head_len == text.len() => Ok(request),
            Err(rejection) => Err(rejection),
            other => panic!("{text:?}: {other:?}"),
        };
        let made = shown(Request::from_fields(&collected(head), limits));
        assert_eq!(made, shown(parsed), "{text:?}");
        made
    }

    #[test]
    fn fields_and_text_give_the_same_request() {
        let many: String = (0..30).map(|it| format!("|f{it}: {it}")).collect();
        #[rustfmt::skip]
        let cases = [
            ("GET /|host: a:80", "Ok"),
            ("GET /a%20b/../c?d=e?f|host: a|accept: */*|x:", "Ok"),
            ("HEAD /é|host: a|x:  \té\t ", "Ok"),
            (&*format!("GET /|host: a{many}"), "Ok"),
            ("OPTIONS *|host: a", "Ok"),
            ("BREW /|host: a|transfer-encoding: chunked", "Chunked"),
            ("POST /|host: a|content-length: 12", "Length(12)"),
            ("POST /|host: a|expect: 100-continue|transfer-encoding: chunked", "continue: true"),
            ("GET /|host: a|expect: 100-continue", "continue: false"),
            ("GET http://b/x|host: a", "host: Some(\"b\")"),
            ("GET /|host:", "Ok"),
            ("GET /%00|host: a", "Err(PathNul)"),
            ("GET /../..|host: a", "Err(PathAboveRoot)"),
            ("CONNECT a:1|host: a", "Err(Connect)"),
            ("GET *|host: a", "Err(Target)"),
            ("GET /a#b|host: a", "Err(Target)"),
            ("GET ftp://b/|host: a", "Err(Target)"),
            ("GET http://u@b/|host: a", "Err(Host)"),
            ("G(T /|host: a", "Err(RequestLine)"),
            (" /|host: a", "Err(RequestLine)"),
            ("GET /a\u{1}|host: a", "Err(RequestLine)"),
            ("GET |host: a", "Err(RequestLine)"),
            ("AVERYLONGMETHODNAMETHATISUNKNOWNA /", "Err(MethodTooLong)"),
            ("GET /", "Err(HostMissing)"),
            ("GET /|host: a|host: a", "Err(HostRepeated)"),
            ("GET /|host: a b", "Err(Host)"),
            ("GET /|host: é", "Err(Host)"),
            ("GET /|host: a|a b: c", "Err(Header)"),
            ("GET /|host: a|: c", "Err(Header)"),
            ("GET /|host: a|a: b\u{7f}", "Err(Header)"),
            ("GET /|host: a|a: b\0", "Err(Header)"),
            ("PUT /|host: a|content-length: +1", "Err(ContentLength)"),
            ("PUT /|host: a|content-length: 1|content-length: 1", "Err(ContentLengthRepeated)"),
            ("PUT /|host: a|content-length: 1|transfer-encoding: chunked", "Err(LengthAndEncoding)"),
            ("GET /|host: a|expect: more", "Err(Expectation)"),
        ];
        for (head, part) in cases {
            let made = same_as_parsed(head, &Limits::DEFAULT);
            assert!(made.contains(part), "{made} has no {part}");
        }
    }

    #[test]
    fn limits_count_as_in_text() {
        for fields in ["host: a|b: c|d: ", "host: a|transfer-encoding: chunked"] {
            let head = format!("PUT /abc|{fields}");
            let exact = Limits {
                head_bytes: text(&head).len(),
                target_bytes: 4,
                ..Limits::DEFAULT
            };
            assert!(same_as_parsed(&head, &exact).starts_with("Ok"));
            let [mut head_bytes, mut target_bytes, mut headers] = [exact; 3];
            head_bytes.head_bytes -= 1;
            target_bytes.target_bytes -= 1;
            headers.headers = 0;
            assert_eq!(same_as_parsed(&head, &head_bytes), "Err(HeadTooLarge)");
            assert_eq!(same_as_parsed(&head, &target_bytes), "Err(TargetTooLong)");
            assert_eq!(same_as_parsed(&head, &headers), "Err(TooManyHeaders)");
        }
    }

    /// Positions have 16 bits.
    #[test]
    fn no_field_is_too_long_for_its_position() {
        let limits = Limits {
            head_bytes: usize::MAX,
            ..Limits::DEFAULT
        };
        for length in [65_000, 65_535, 65_536, 70_000] {
            let long = "x".repeat(length);
            let fields = collected(&format!("GET /|host: a|b: {long}"));
            let request = Request::from_fields(&fields, &limits);
            let found = request.map(|request| request.headers.get("b").map(<[u8]>::len));
            let is_short = length == 65_000;
            assert_eq!(
                found,
                if is_short {
                    Ok(Some(length))
                } else {
                    Err(Rejection::HeadTooLarge)
                }
            );
            let mut fields = RequestFields::default();
            fields.push(b"host", b"a");
            fields.push_cookies([long.as_bytes(), b"y"]);
            fields.finish(b"GET", b"/");
            assert_eq!(Request::from_fields(&fields, &limits).is_ok(), is_short);
        }
        let large = RequestFields::too_large();
        assert_eq!(
            Request::from_fields(&large, &limits).err(),
            Some(Rejection::HeadTooLarge)
        );
    }

    #[test]
    fn http_2_and_3_forbid_more_fields() {
        for name in [
            "connection",
            "keep-alive",
            "proxy-connection",
            "transfer-encoding",
            "upgrade",
            "Upper",
        ] {
            let mut fields = RequestFields::default();
            assert!(fields.push(b"host", b"a"));
            assert!(!fields.push(name.as_bytes(), b"x"), "{name}");
            fields.finish(b"GET", b"/");
            let request = Request::from_fields(&fields, &Limits::DEFAULT);
            assert_eq!(request.err(), Some(Rejection::Header), "{name}");
        }
        assert!(
            is_connection_specific(b"Transfer-Encoding") && !is_connection_specific(b"upgrades")
        );
    }

    #[test]
    fn split_cookies_are_joined() {
        for (values, joined) in [
            (&[][..], ""),
            (&[&b"a=1"[..]][..], "a=1"),
            (&[b"a=1", b" b=2 ", b""], "a=1; b=2; "),
        ] {
            let mut fields = RequestFields::default();
            fields.push(b"host", b"a");
            fields.push_cookies(values.iter().copied());
            fields.push(b"last", b"x");
            fields.finish(b"PUT", b"/");
            fields.set_chunked();
            let request = Request::from_fields(&fields, &Limits::DEFAULT).unwrap();
            assert_eq!(request.headers.get("cookie"), Some(joined.as_bytes()));
            assert_eq!(request.headers.get("last"), Some(&b"x"[..]));
            assert_eq!(request.framing, Framing::Chunked);
            assert!(request.keep_alive);
        }
        let mut fields = RequestFields::default();
        fields.push_cookies([&b"a\r\nb: c"[..]]);
        fields.finish(b"GET", b"/");
        assert_eq!(
            Request::from_fields(&fields, &Limits::DEFAULT).err(),
            Some(Rejection::Header)
        );
    }
}
