//! Response heads and error pages (RFC 9112, sections 4 and 5).

use crate::etag::ETag;
use crate::output::{HeadFields, Output};
use crate::text::{push_decimal, push_html_escaped};
use crate::{ByteRange, ContentType, HttpDate, Status, Version};

/// Writes a response head to an output, field by field.
///
/// Allocates nothing except for the output. No value can end a line: control characters become spaces.
///
/// ```
/// use laio_http::{ContentType, Output, ResponseHead, Status, Version};
///
/// let mut out = Output::default();
/// ResponseHead::new(&mut out, Status::OK)
///     .content_type(ContentType::HTML)
///     .content_length(5)
///     .connection(Version::Http11, false)
///     .finish();
/// out.bytes.extend_from_slice(b"hello");
/// assert_eq!(out.field("content-length"), Some(&b"5"[..]));
/// assert_eq!(
///     out.bytes,
///     b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5\r\n\
///       Connection: close\r\n\r\nhello"
/// );
/// ```
#[derive(Debug)]
#[must_use = "a head ends with `finish`"]
pub struct ResponseHead<'v> {
    out: &'v mut Output,
}

impl<'v> ResponseHead<'v> {
    /// Writes the status line. The version is the server's, whatever the client's (RFC 9110,
    /// section 6.2).
    pub fn new(out: &'v mut Output, status: Status) -> Self {
        out.begin(status);
        ResponseHead { out }
    }

    /// Returns what is written so far.
    pub fn output(&self) -> &Output {
        self.out
    }

    /// Writes fields of another head.
    pub fn copied_fields(self, fields: &HeadFields) -> Self {
        self.out.push_copied(fields);
        self
    }

    /// Writes `Date`, from the server's [`crate::DateCache`].
    pub fn date(self, date: &HttpDate) -> Self {
        self.field("Date", |out| out.extend_from_slice(date.as_bytes()))
    }

    /// Writes `Server`.
    pub fn server(self, name: &str) -> Self {
        self.header("Server", name.as_bytes())
    }

    /// Writes `Content-Type`.
    pub fn content_type(self, content_type: ContentType) -> Self {
        self.field("Content-Type", |out| {
            out.extend_from_slice(content_type.essence.as_bytes());
            out.extend_from_slice(content_type.parameter().as_bytes());
        })
    }

    /// Writes `Content-Length`: of the body, or for HEAD and 304 of the omitted body.
    pub fn content_length(self, length: u64) -> Self {
        self.field("Content-Length", |out| push_decimal(out, length))
    }

    /// Writes `Content-Encoding`.
    pub fn content_encoding(self, name: &str) -> Self {
        self.header("Content-Encoding", name.as_bytes())
    }

    /// Writes `Last-Modified`.
    pub fn last_modified(self, date: &HttpDate) -> Self {
        self.field("Last-Modified", |out| {
            out.extend_from_slice(date.as_bytes())
        })
    }

    /// Writes `ETag`.
    pub fn etag(self, etag: &ETag) -> Self {
        self.field("ETag", |out| out.extend_from_slice(etag.as_bytes()))
    }

    /// Writes `Accept-Ranges: bytes`.
    pub fn accept_ranges(self) -> Self {
        self.header("Accept-Ranges", b"bytes")
    }

    /// Writes `Content-Range` of a 206.
    pub fn content_range(self, range: ByteRange, size: u64) -> Self {
        self.field("Content-Range", |out| range.push_content_range(size, out))
    }

    /// Writes `Content-Range` of a 416.
    pub fn content_range_unsatisfied(self, size: u64) -> Self {
        self.field("Content-Range", |out| {
            ByteRange::push_unsatisfied(size, out)
        })
    }

    /// Writes `Cache-Control`.
    pub fn cache_control(self, directives: &str) -> Self {
        self.header("Cache-Control", directives.as_bytes())
    }

    /// Writes `Vary`.
    pub fn vary(self, fields: &str) -> Self {
        self.header("Vary", fields.as_bytes())
    }

    /// Writes `Allow`, which every 405 must have (RFC 9110, section 15.5.6).
    pub fn allow(self, methods: &str) -> Self {
        self.header("Allow", methods.as_bytes())
    }

    /// Writes `Location`, for example from [`crate::path::encode`].
    pub fn location(self, target: &[u8]) -> Self {
        self.header("Location", target)
    }

    /// Writes `Connection`, where the version does not imply it: `close` to an HTTP/1.1 client,
    /// `keep-alive` to an HTTP/1.0 client (RFC 9112, section 9.3).
    pub fn connection(self, version: Version, keep_alive: bool) -> Self {
        match (version, keep_alive) {
            (Version::Http11, false) => self.header("Connection", b"close"),
            (Version::Http10, true) => self.header("Connection", b"keep-alive"),
            (Version::Http11, true) | (Version::Http10, false) => self,
        }
    }

    /// Writes any other field. `name` is a token.
    pub fn header(mut self, name: &str, value: &[u8]) -> Self {
        self.add(name.as_bytes(), value);
        self
    }

    /// Writes any other field. `name` is a token.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        self.out.push(name, |out| {
            let start = out.len();
            out.extend_from_slice(value);
            for byte in &mut out[start..] {
                if byte.is_ascii_control() && *byte != b'\t' {
                    *byte = b' ';
                }
            }
        });
    }

    /// Removes the fields whose names `keep` does not accept.
    pub fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        self.out.retain(keep);
    }

    /// Ends the head. The body goes into the same buffer, after it.
    pub fn finish(self) -> &'v mut Vec<u8> {
        self.out.bytes.extend_from_slice(b"\r\n");
        &mut self.out.bytes
    }

    fn field(self, name: &str, push_value: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.out.push(name.as_bytes(), push_value);
        self
    }
}

impl Output {
    /// Lets `change` change the fields of a finished head.
    pub fn change_fields(&mut self, change: impl FnOnce(&mut ResponseHead<'_>)) {
        let rest = self.take_rest();
        change(&mut ResponseHead { out: self });
        self.bytes.extend_from_slice(&rest);
    }
}

/// Appends a small error page. `detail` is text and is escaped.
///
/// ```
/// use laio_http::{Status, response};
///
/// let mut page = Vec::new();
/// response::error_body(&mut page, Status::NOT_FOUND, "Nothing is at <this> address.");
/// let page = String::from_utf8(page).unwrap();
/// assert!(page.contains("<h1>404 Not Found</h1>"));
/// assert!(page.contains("Nothing is at &lt;this&gt; address."));
/// ```
pub fn error_body(out: &mut Vec<u8>, status: Status, detail: &str) {
    let title = |out: &mut Vec<u8>| {
        push_decimal(out, u64::from(status.code()));
        out.push(b' ');
        out.extend_from_slice(status.reason().as_bytes());
    };
    out.extend_from_slice(PAGE_START);
    title(out);
    out.extend_from_slice(PAGE_MIDDLE);
    title(out);
    out.extend_from_slice(b"</h1>\n");
    if !detail.is_empty() {
        out.extend_from_slice(b"<p>");
        push_html_escaped(out, detail.as_bytes());
        out.extend_from_slice(b"</p>\n");
    }
    out.extend_from_slice(b"</main>\n</html>\n");
}

const PAGE_START: &[u8] = b"<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>";

const PAGE_MIDDLE: &[u8] = b"</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { display: grid; place-content: center; min-height: 90vh; margin: 0 1.5rem }
h1 { margin: 0; font-size: 1.5rem }
p { margin: .5rem 0 0; opacity: .75 }
</style>
<main>
<h1>";

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(ResponseHead<'_>) -> ResponseHead<'_>) -> String {
        let mut out = Output::default();
        write(ResponseHead::new(&mut out, Status::OK)).finish();
        String::from_utf8(out.bytes).unwrap()
    }

    #[test]
    fn all_fields() {
        let head = written(|head| {
            head.date(&HttpDate::EPOCH)
                .server("laio")
                .content_type(ContentType::of_path(b"a.css"))
                .content_length(7)
                .content_encoding("br")
                .last_modified(&HttpDate::EPOCH)
                .etag(&ETag::of_file(1, 2, 3, 4))
                .accept_ranges()
                .content_range(ByteRange { start: 1, end: 8 }, 10)
                .content_range_unsatisfied(10)
                .cache_control("no-cache")
                .vary("Accept-Encoding")
                .allow("GET, HEAD, OPTIONS")
                .location(b"/a/")
                .header("X-Other", b"yes")
        });
        assert_eq!(
            head,
            "HTTP/1.1 200 OK\r\n\
             Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             Server: laio\r\n\
             Content-Type: text/css; charset=utf-8\r\n\
             Content-Length: 7\r\n\
             Content-Encoding: br\r\n\
             Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             ETag: \"1-2-3.4\"\r\n\
             Accept-Ranges: bytes\r\n\
             Content-Range: bytes 1-7/10\r\n\
             Content-Range: bytes */10\r\n\
             Cache-Control: no-cache\r\n\
             Vary: Accept-Encoding\r\n\
             Allow: GET, HEAD, OPTIONS\r\n\
             Location: /a/\r\n\
             X-Other: yes\r\n\r\n"
        );
    }

    #[test]
    fn connection_is_written_only_if_needed() {
        let connection = |version, keep_alive| written(|head| head.connection(version, keep_alive));
        assert!(connection(Version::Http11, false).contains("Connection: close\r\n"));
        assert!(connection(Version::Http10, true).contains("Connection: keep-alive\r\n"));
        assert!(!connection(Version::Http11, true).contains("Connection"));
        assert!(!connection(Version::Http10, false).contains("Connection"));
    }

    #[test]
    fn a_value_cannot_end_its_line() {
        let head = written(|head| head.location(b"/a\r\nSet-Cookie: x\0\ty"));
        assert!(head.ends_with("Location: /a  Set-Cookie: x \ty\r\n\r\n"));
    }

    #[test]
    fn error_pages_are_complete_and_escaped() {
        let page = |detail| {
            let mut out = Vec::new();
            error_body(&mut out, Status::FORBIDDEN, detail);
            String::from_utf8(out).unwrap()
        };
        let with_detail = page("<script>");
        assert!(with_detail.starts_with("<!doctype html>"));
        assert!(with_detail.ends_with("</html>\n"));
        assert!(with_detail.contains("<title>403 Forbidden</title>"));
        assert!(with_detail.contains("<p>&lt;script&gt;</p>"));
        assert!(!page("").contains("<p>"));
    }
}
