//! Tables of requests and the answers to them, for tests of what one request means.

use super::{Client, Response, Running};
use laio_serve::Options;
use std::path::Path;

impl Running {
    /// Sends each request of a table, on a connection of its own, and compares the answer. A line is, for
    /// example,
    ///
    /// ```text
    /// GET /ten.txt | Range: bytes=2-3 => 206 | Content-Range: bytes 2-3/10 | "23"
    /// ```
    ///
    /// A request has fields, and with `"text"` a body of this length. One that begins with `"` is sent as it
    /// is, with `\r`, `\n` and `\0`. An answer has its status and any of: `"text"`, the whole body; `has text`, a
    /// part of it; `lacks text`, no part of it; `Name: value`, the whole field; `Name: start*`, a field that
    /// starts so; `Name: -`, no such field; `closed`, the connection ends. Lines that start with `#` are
    /// comments.
    #[track_caller]
    pub(crate) fn answers(&self, table: &str) {
        for line in lines(table) {
            self.connect().answers(line);
        }
    }

    /// Sends a request as in a table on a new connection, and returns the answer.
    #[track_caller]
    pub(crate) fn ask(&self, request: &str) -> Response {
        self.connect().ask(request)
    }

    /// Compares why a server with these options does not start with a part of the message.
    #[track_caller]
    pub(crate) fn refuses(root: &Path, part: &str, change: impl FnOnce(&mut Options)) {
        let started = Running::try_with(root, change).map(drop);
        let error = started.expect_err(part).to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

impl Client {
    /// Sends each request of a table on this connection.
    #[track_caller]
    pub(crate) fn answers(&mut self, table: &str) {
        for line in lines(table) {
            let (request, answer) = sides(line);
            let found = self.ask(request);
            let rest = answer.strip_suffix(" | closed");
            found.compare(rest.unwrap_or(answer), line);
            assert!(rest.is_none() || self.is_closed(), "{line}");
        }
    }

    /// Sends a request as in a table on this connection, and returns the answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: &str) -> Response {
        if let Some(text) = quoted(request.trim()) {
            let text = text.replace("\\r", "\r").replace("\\n", "\n");
            self.send(text.replace("\\0", "\0"));
            return self.answer(text.starts_with("HEAD"));
        }
        let (method, target, fields, body) = parts(request);
        let mut lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        if let Some(body) = body {
            lines += &format!("Content-Length: {}\r\n", body.len());
        }
        if !fields.iter().any(|field| field.starts_with("Host:")) {
            lines += "Host: test\r\n";
        }
        let body = body.unwrap_or_default();
        self.send(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n{body}"));
        let mut found = self.answer(method == "HEAD");
        if found.header("Transfer-Encoding") == Some("chunked") && method != "HEAD" {
            found.body = self.chunks();
        }
        found
    }
}

/// Returns the lines of a table that are no comments.
pub(crate) fn lines(table: &str) -> impl Iterator<Item = &str> {
    let lines = table.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the request of a line, and the answer to it.
pub(crate) fn sides(line: &str) -> (&str, &str) {
    let (request, answer) = line.split_once(" => ").expect(line);
    (request.trim(), answer.trim())
}

impl Response {
    /// Compares a response with an answer as in a table: `found.is("301 | Location: /docs/")`.
    #[track_caller]
    pub(crate) fn is(&self, answer: &str) {
        self.compare(answer, answer);
    }

    #[track_caller]
    pub(crate) fn compare(&self, answer: &str, line: &str) {
        let head = &self.head;
        let body = String::from_utf8_lossy(&self.body);
        for item in answer.split(" | ") {
            if let Some(text) = quoted(item) {
                assert_eq!(body, text, "{line}: {head}");
            } else if let Some(part) = item.strip_prefix("has ") {
                assert!(body.contains(part), "{line}: {head}{body}");
            } else if let Some(part) = item.strip_prefix("lacks ") {
                assert!(!body.contains(part), "{line}: {head}{body}");
            } else if let Some((name, wanted)) = item.split_once(": ") {
                let is_as_wanted = match (self.header(name), wanted.strip_suffix('*')) {
                    (value, _) if wanted == "-" => value.is_none(),
                    (Some(value), Some(start)) => value.starts_with(start),
                    (value, _) => value == Some(wanted),
                };
                assert!(is_as_wanted, "{line}: {head}");
            } else {
                assert_eq!(item, self.status.to_string(), "{line}: {head}{body}");
            }
        }
    }
}

/// Returns the method, the target, the fields and the body of a request as in a table.
pub(crate) fn parts(request: &str) -> (&str, &str, Vec<&str>, Option<&str>) {
    let mut items = request.trim().split(" | ");
    let (method, target) = items.next().unwrap().split_once(' ').expect(request);
    let (bodies, fields): (Vec<_>, Vec<_>) = items.partition(|item| quoted(item).is_some());
    let body = bodies.first().and_then(|item| quoted(item));
    (method, target, fields, body)
}

fn quoted(item: &str) -> Option<&str> {
    item.strip_prefix('"')?.strip_suffix('"')
}

#[test]
fn a_table_notices_each_difference() {
    let found = Response {
        status: 206,
        head: "HTTP/1.1 206 Partial Content\nContent-Range: bytes 2-3/10".to_owned(),
        body: b"23".to_vec(),
    };
    found.is(
        r#"206 | "23" | has 3 | lacks 4 | Content-Range: bytes 2-3/10 | content-range: bytes* | ETag: -"#,
    );
    for wrong in [
        "200",
        "206 | \"2\"",
        "has 4",
        "lacks 3",
        "Content-Range: bytes 2-3",
        "Content-Range: -",
        "ETag: \"a\"",
        "ETag: *",
    ] {
        assert!(
            std::panic::catch_unwind(|| found.is(wrong)).is_err(),
            "{wrong}"
        );
    }
}
