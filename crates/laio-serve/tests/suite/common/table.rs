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
    /// part of it; `Name: value`, the whole field; `Name: start*`, a field that starts so; `Name: -`, no such
    /// field; `closed`, the connection ends. Lines that start with `#` are comments.
    #[track_caller]
    pub(crate) fn answers(&self, table: &str) {
        for line in lines(table) {
            self.connect().answers(line);
        }
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
            let (request, answer) = line.split_once(" => ").expect(line);
            let found = ask(self, request);
            let answer = answer.trim();
            let rest = answer.strip_suffix(" | closed");
            found.compare(rest.unwrap_or(answer), line);
            assert!(rest.is_none() || self.is_closed(), "{line}");
        }
    }
}

fn lines(table: &str) -> impl Iterator<Item = &str> {
    let lines = table.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

impl Response {
    /// Compares a response with an answer as in a table: `found.is("301 | Location: /docs/")`.
    #[track_caller]
    pub(crate) fn is(&self, answer: &str) {
        self.compare(answer, answer);
    }

    #[track_caller]
    fn compare(&self, answer: &str, line: &str) {
        let head = &self.head;
        let body = String::from_utf8_lossy(&self.body);
        for item in answer.split(" | ") {
            if let Some(text) = quoted(item) {
                assert_eq!(body, text, "{line}: {head}");
            } else if let Some(part) = item.strip_prefix("has ") {
                assert!(body.contains(part), "{line}: {head}{body}");
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

fn ask(client: &mut Client, request: &str) -> Response {
    if let Some(text) = quoted(request.trim_end()) {
        let text = text.replace("\\r", "\r").replace("\\n", "\n");
        client.send(text.replace("\\0", "\0"));
        return client.answer(text.starts_with("HEAD"));
    }
    let mut items = request.trim_end().split(" | ");
    let (method, target) = items.next().unwrap().split_once(' ').expect(request);
    let (mut fields, mut body) = (String::new(), "");
    for item in items {
        match quoted(item) {
            Some(text) => {
                body = text;
                fields += &format!("Content-Length: {}\r\n", text.len());
            }
            None => fields += &format!("{item}\r\n"),
        }
    }
    if !fields.lines().any(|field| field.starts_with("Host:")) {
        fields += "Host: test\r\n";
    }
    client.send(format!("{method} {target} HTTP/1.1\r\n{fields}\r\n{body}"));
    let mut found = client.answer(method == "HEAD");
    if found.header("Transfer-Encoding") == Some("chunked") && method != "HEAD" {
        found.body = client.chunks();
    }
    found
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
        r#"206 | "23" | has 3 | Content-Range: bytes 2-3/10 | content-range: bytes* | ETag: -"#,
    );
    for wrong in [
        "200",
        "206 | \"2\"",
        "has 4",
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
