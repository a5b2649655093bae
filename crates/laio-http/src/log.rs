//! Formatting of access log lines.

mod fields;

pub use fields::{LogField, LogValue, push_plain, write_fields};

use crate::text::{push_char, push_decimal};
use crate::{HeadFields, Headers, HttpDate, Request, Status};
use std::str::FromStr;

/// Appends one line, including its line feed.
///
/// A client cannot break the line or forge another one: control characters, quotes, backslashes and
/// bytes outside ASCII are escaped (in JSON, valid UTF-8 stays).
///
/// ```
/// use laio_http::{HttpDate, Limits, LogFormat, LogRecord, Parsed, Status, log, parse};
///
/// let head = b"GET /a HTTP/1.0\r\nUser-Agent: test\r\n\r\n";
/// let Parsed::Complete { request, .. } = parse(head, &Limits::DEFAULT)? else { panic!() };
/// let record = LogRecord {
///     remote: "192.0.2.1",
///     status: Status::OK,
///     bytes: 5,
///     ..LogRecord::from_request(&request, &HttpDate::EPOCH)
/// };
/// let mut lines = Vec::new();
/// log::write_line(LogFormat::Combined, &record, &mut lines);
/// assert_eq!(
///     String::from_utf8(lines).unwrap(),
///     "192.0.2.1 - - [01/Jan/1970:00:00:00 +0000] \"GET /a HTTP/1.0\" 200 5 \"-\" \"test\"\n"
/// );
/// # Ok::<(), laio_http::Rejection>(())
/// ```
pub fn write_line(format: LogFormat, record: &LogRecord<'_>, out: &mut Vec<u8>) {
    match format {
        LogFormat::Common => write_common(record, out),
        LogFormat::Combined => {
            write_common(record, out);
            for value in [record.referer, record.user_agent] {
                out.push(b' ');
                push_quoted(out, &[value.unwrap_or(b"-")]);
            }
        }
        LogFormat::Json => write_json(record, out),
        LogFormat::Logfmt => write_fields(format, &LogField::usual(), record, out),
    }
    out.push(b'\n');
}

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// The common log format: `host - - [time] "request" status bytes`.
    Common,
    /// The common format plus referer and user agent, both quoted.
    #[default]
    Combined,
    /// One JSON object per line.
    Json,
    /// `name=value` pairs, separated by spaces; values with other than visible ASCII characters are quoted.
    Logfmt,
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<LogFormat, Self::Err> {
        match name {
            "common" => Ok(LogFormat::Common),
            "combined" => Ok(LogFormat::Combined),
            "json" => Ok(LogFormat::Json),
            "logfmt" => Ok(LogFormat::Logfmt),
            _ => Err("the formats are common, combined, json and logfmt"),
        }
    }
}

/// The name and value of a field that the server has added to a request.
pub type AddedField = (Box<[u8]>, Box<[u8]>);

/// The logged properties of a request.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// The client's address.
    pub remote: &'a str,
    /// When the request ended.
    pub date: &'a HttpDate,
    /// The method; empty if the request could not be parsed.
    pub method: &'a str,
    /// The target as sent; for a refused request, as much as was parsed.
    pub target: &'a [u8],
    /// The version; empty if it is unknown.
    pub version: &'a str,
    /// The status of the response.
    pub status: Status,
    /// Bytes of content sent.
    pub bytes: u64,
    /// From the first byte of the request to the last of the response, in microseconds.
    pub duration_us: u64,
    /// The `Referer` field.
    pub referer: Option<&'a [u8]>,
    /// The `User-Agent` field.
    pub user_agent: Option<&'a [u8]>,
    /// The host of the request.
    pub host: Option<&'a str>,
    /// The fields of the request.
    pub headers: Option<&'a Headers<'a>>,
    /// Fields that the server has added to those of the request, which have priority.
    pub added: &'a [AddedField],
    /// The fields of the response, if a line may contain them.
    pub response_fields: Option<&'a HeadFields>,
    /// The version and the cipher suite of TLS, if the connection is encrypted.
    pub tls: Option<(&'a str, &'a str)>,
    /// Whether the request was answered in early data, before the handshake of TLS was complete.
    pub early_data: bool,
    /// The upstream that has answered.
    pub upstream: Option<&'a str>,
}

impl<'a> LogRecord<'a> {
    /// Returns a record with the properties of the request; status and sizes are those of an empty
    /// response.
    #[must_use]
    pub fn from_request(request: &'a Request<'a>, date: &'a HttpDate) -> Self {
        LogRecord {
            method: request.method.as_str(),
            target: request.target.as_bytes(),
            version: request.version.as_str(),
            referer: request.headers.get("Referer"),
            user_agent: request.headers.get("User-Agent"),
            host: request.host,
            headers: Some(&request.headers),
            ..LogRecord::unread(date)
        }
    }

    /// Returns a record for a request that could not be parsed.
    #[must_use]
    pub fn unread(date: &'a HttpDate) -> Self {
        LogRecord {
            remote: "-",
            date,
            method: "",
            target: b"",
            version: "",
            status: Status::BAD_REQUEST,
            bytes: 0,
            duration_us: 0,
            referer: None,
            user_agent: None,
            host: None,
            headers: None,
            added: &[],
            response_fields: None,
            tls: None,
            early_data: false,
            upstream: None,
        }
    }
}

fn write_common(record: &LogRecord<'_>, out: &mut Vec<u8>) {
    push_escaped(out, record.remote.as_bytes());
    out.extend_from_slice(b" - - [");
    push_clf_time(out, record.date);
    out.extend_from_slice(b"] ");
    match (record.method, record.target) {
        ("", b"") => push_quoted(out, &[b"-"]),
        ("", target) => push_quoted(out, &[target]),
        (method, target) => {
            push_quoted(
                out,
                &[
                    method.as_bytes(),
                    b" ",
                    target,
                    b" ",
                    record.version.as_bytes(),
                ],
            );
        }
    }
    out.push(b' ');
    push_decimal(out, u64::from(record.status.code()));
    out.push(b' ');
    push_decimal(out, record.bytes);
}

fn write_json(record: &LogRecord<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"time\":\"");
    push_rfc3339(out, record.date);
    out.push(b'"');
    for (name, value) in [
        ("remote", Some(record.remote.as_bytes())),
        ("method", Some(record.method.as_bytes())),
        ("target", Some(record.target)),
        ("version", Some(record.version.as_bytes())),
        ("referer", record.referer),
        ("user_agent", record.user_agent),
    ] {
        if let Some(value) = value {
            push_json_name(out, name);
            push_json_string(out, value);
        }
    }
    for (name, value) in [
        ("status", u64::from(record.status.code())),
        ("bytes", record.bytes),
        ("duration_us", record.duration_us),
    ] {
        push_json_name(out, name);
        push_decimal(out, value);
    }
    out.push(b'}');
}

/// Appends `06/Nov/1994:08:49:37 +0000` for `Sun, 06 Nov 1994 08:49:37 GMT`.
fn push_clf_time(out: &mut Vec<u8>, date: &HttpDate) {
    let text = date.as_bytes();
    for part in [
        &text[5..7],
        b"/",
        &text[8..11],
        b"/",
        &text[12..16],
        b":",
        &text[17..25],
    ] {
        out.extend_from_slice(part);
    }
    out.extend_from_slice(b" +0000");
}

/// Appends `1994-11-06T08:49:37Z` for `Sun, 06 Nov 1994 08:49:37 GMT`.
fn push_rfc3339(out: &mut Vec<u8>, date: &HttpDate) {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let text = date.as_bytes();
    let month = MONTHS
        .chunks(3)
        .position(|name| name == &text[8..11])
        .unwrap_or(0) as u8
        + 1;
    let month = [b'0' + month / 10, b'0' + month % 10];
    for part in [
        &text[12..16],
        b"-",
        &month,
        b"-",
        &text[5..7],
        b"T",
        &text[17..25],
        b"Z",
    ] {
        out.extend_from_slice(part);
    }
}

fn push_quoted(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.push(b'"');
    for part in parts {
        push_escaped(out, part);
    }
    out.push(b'"');
}

/// Appends text, with `\xHH` for everything but visible ASCII characters and spaces, and for `"`
/// and `\`.
fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\' {
            out.push(byte);
        } else {
            out.extend_from_slice(b"\\x");
            push_hex_byte(out, byte);
        }
    }
}

fn push_json_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends a JSON string (RFC 8259, section 7). Invalid UTF-8 becomes U+FFFD.
fn push_json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..b' ' | 0x7f => {
                    out.extend_from_slice(b"\\u00");
                    push_hex_byte(out, byte);
                }
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            push_char(out, char::REPLACEMENT_CHARACTER);
        }
    }
    out.push(b'"');
}

fn push_hex_byte(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: HttpDate = HttpDate::EPOCH;

    fn record() -> LogRecord<'static> {
        LogRecord {
            remote: "2001:db8::1",
            method: "GET",
            target: b"/a?b=\"c\"\n\xff",
            version: "HTTP/1.1",
            status: Status::NOT_FOUND,
            bytes: 123,
            duration_us: 456,
            referer: Some(b"http://x/\xc3\xa9"),
            user_agent: Some(b"a\\b\x1b[31m"),
            ..LogRecord::unread(&DATE)
        }
    }

    fn line(format: LogFormat, record: &LogRecord<'_>) -> String {
        let mut out = Vec::new();
        write_line(format, record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn common() {
        assert_eq!(
            line(LogFormat::Common, &record()),
            "2001:db8::1 - - [01/Jan/1970:00:00:00 +0000] \
             \"GET /a?b=\\x22c\\x22\\x0a\\xff HTTP/1.1\" 404 123\n"
        );
    }

    #[test]
    fn combined() {
        let text = line(LogFormat::Combined, &record());
        assert!(
            text.ends_with(" 404 123 \"http://x/\\xc3\\xa9\" \"a\\x5cb\\x1b[31m\"\n"),
            "{text}"
        );
    }

    #[test]
    fn json() {
        assert_eq!(
            line(LogFormat::Json, &record()),
            "{\"time\":\"1970-01-01T00:00:00Z\",\"remote\":\"2001:db8::1\",\"method\":\"GET\",\
             \"target\":\"/a?b=\\\"c\\\"\\u000a\u{fffd}\",\"version\":\"HTTP/1.1\",\
             \"referer\":\"http://x/é\",\"user_agent\":\"a\\\\b\\u001b[31m\",\
             \"status\":404,\"bytes\":123,\"duration_us\":456}\n"
        );
    }

    #[test]
    fn requests_that_could_not_be_read() {
        let unread = LogRecord::unread(&DATE);
        let text = line(LogFormat::Combined, &unread);
        assert_eq!(
            text,
            "- - - [01/Jan/1970:00:00:00 +0000] \"-\" 400 0 \"-\" \"-\"\n"
        );
        let text = line(
            LogFormat::Common,
            &LogRecord {
                target: b"\x16\x03",
                ..unread
            },
        );
        assert!(text.contains("] \"\\x16\\x03\" 400 0"), "{text}");
        let text = line(LogFormat::Json, &unread);
        assert!(
            text.contains("\"method\":\"\"") && !text.contains("referer"),
            "{text}"
        );
    }

    #[test]
    fn times_of_all_months() {
        #[rustfmt::skip]
        let cases = [
            (784_111_777, "06/Nov/1994:08:49:37 +0000", "1994-11-06T08:49:37Z"),
            (951_782_400, "29/Feb/2000:00:00:00 +0000", "2000-02-29T00:00:00Z"),
            (1_767_225_599, "31/Dec/2025:23:59:59 +0000", "2025-12-31T23:59:59Z"),
        ];
        for (seconds, clf, rfc3339) in cases {
            let date = HttpDate::from_unix(seconds).unwrap();
            let (mut first, mut second) = (Vec::new(), Vec::new());
            push_clf_time(&mut first, &date);
            push_rfc3339(&mut second, &date);
            assert_eq!(first, clf.as_bytes());
            assert_eq!(second, rfc3339.as_bytes());
        }
    }
}
