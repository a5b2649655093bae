//! The head of an answer, and what of it is passed on.

use super::request::{Hops, VIA, is_one_of, push_field};
use crate::SERVER_NAME;
use crate::reply::Asked;
use laio_http::upstream::Answer;
use laio_http::{Framing, ResponseHead, Status, Version};

/// Fields that name a file to be sent in place of the body: their names, and whether the file is removed.
const FILES: [(&str, bool); 4] = [
    ("X-Sendfile", false),
    ("X-LIGHTTPD-send-file", false),
    ("X-LIGHTTPD-send-temp-file", true),
    ("X-LIGHTTPD-send-tempfile", true),
];

/// Fields that the server says itself when it sends a file.
const OF_A_FILE: [&str; 6] = [
    "Accept-Ranges",
    "Content-Range",
    "Date",
    "ETag",
    "Last-Modified",
    "Server",
];

/// Name and value.
type Field = (Box<[u8]>, Box<[u8]>);

/// The head of an answer, as far as it matters here.
pub(super) struct Passed {
    pub(super) status: Status,
    /// None: the body ends with the connection.
    pub(super) framing: Option<Framing>,
    pub(super) keep_alive: bool,
    pub(super) file: Option<NamedFile>,
    /// What is passed on.
    fields: Vec<Field>,
    /// The length that was claimed, also where no body follows.
    length: Option<Box<[u8]>>,
}

/// A file that an upstream wants to have sent.
pub(super) struct NamedFile {
    pub(super) path: Box<[u8]>,
    pub(super) temporary: bool,
}

impl Passed {
    /// `program` says that the answer is a CGI program's.
    pub(super) fn of(answer: &Answer<'_>, program: bool) -> Passed {
        let hops = Hops::of(&answer.headers);
        let mut passed = Passed {
            status: answer.status,
            framing: answer.framing,
            keep_alive: answer.keep_alive,
            file: None,
            fields: Vec::new(),
            length: None,
        };
        for (name, value) in answer.headers.iter() {
            if let Some((_, temporary)) = FILES
                .iter()
                .find(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes()))
            {
                passed.file = Some(NamedFile {
                    path: value.into(),
                    temporary: *temporary,
                });
            } else if name.eq_ignore_ascii_case(b"Content-Length") {
                passed.length = Some(value.into());
            } else if !(hops.has(name) || program && name.eq_ignore_ascii_case(b"Status")) {
                passed.fields.push((name.into(), value.into()));
            }
        }
        passed
    }

    /// Writes the head as the client gets it.
    pub(super) fn write(&self, asked: Asked<'_>, out: &mut Vec<u8>, chunked: bool, close: bool) {
        let mut head = ResponseHead::new(out, self.status);
        if !self.has("Date") {
            head = head.date(asked.date);
        }
        if !self.has("Server") {
            head = head.server(SERVER_NAME);
        }
        for (name, value) in &self.fields {
            // The parser has let through token characters only.
            head = head.header(std::str::from_utf8(name).unwrap_or("X"), value);
        }
        head = head.header("Via", format!("1.1 {VIA}").as_bytes());
        match &self.length {
            // Of 1xx and 204 there is none, whatever the upstream says (RFC 9110, section 8.6).
            Some(length) if self.status.code() >= 200 && self.status != Status::NO_CONTENT => {
                head = head.header("Content-Length", length);
            }
            _ if chunked => head = head.header("Transfer-Encoding", b"chunked"),
            _ => {}
        }
        head.connection(asked.request.version, asked.keep_alive && !close)
            .finish();
    }

    /// Writes the head of an answer after which the connection is a tunnel.
    pub(super) fn write_upgrade(&self, asked: Asked<'_>, out: &mut Vec<u8>) {
        let mut head = ResponseHead::new(out, self.status).date(asked.date);
        head = head.header("Connection", b"Upgrade");
        head = head.header("Upgrade", b"websocket");
        for (name, value) in &self.fields {
            head = head.header(std::str::from_utf8(name).unwrap_or("X"), value);
        }
        head.finish();
    }

    /// Whether a client of this version is told the end of the body by chunks; if not, and there is no length,
    /// by the end of the connection.
    pub(super) fn is_chunked(&self, version: Version) -> bool {
        self.ends_unannounced() && version == Version::Http11
    }

    /// Whether a body follows whose length was not said.
    pub(super) fn ends_unannounced(&self) -> bool {
        matches!(self.framing, None | Some(Framing::Chunked))
    }

    /// Puts what the upstream has said of a file into the head that the server has made for it.
    pub(super) fn amend(&self, out: &mut Vec<u8>, file_is_whole: bool) {
        let Some(end) = out.windows(4).position(|four| four == b"\r\n\r\n") else {
            return;
        };
        let body = out.split_off(end + 2);
        let own_type = self.has("Content-Type") && file_is_whole;
        let mut lines = Vec::with_capacity(out.len() + 256);
        for line in out.split_inclusive(|&byte| byte == b'\n') {
            let replaced = own_type && starts_with(line, "Content-Type:");
            if !replaced {
                lines.extend_from_slice(line);
            }
        }
        for (name, value) in &self.fields {
            let replaced = name.eq_ignore_ascii_case(b"Content-Type") && !own_type;
            if !replaced && !is_one_of(name, &OF_A_FILE) {
                push_field(&mut lines, name, value);
            }
        }
        push_field(&mut lines, b"Via", format!("1.1 {VIA}").as_bytes());
        *out = lines;
        out.extend_from_slice(&body);
    }

    fn has(&self, name: &str) -> bool {
        self.fields
            .iter()
            .any(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))
    }
}

fn starts_with(line: &[u8], name: &str) -> bool {
    line.get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
}
