//! Clients of HTTP/2 and HTTP/3: what they have in common, and the tests that are the same for both.

use super::table::{lines, parts, sides};
use super::{Client, Response};
use http::{HeaderMap, Request, StatusCode};
use laio_serve::{Coding, Options, Redirect, Status};
use std::fs;
use std::future::Future;
use std::io::Read;
use std::path::Path;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A client of HTTP/2 or HTTP/3.
pub(crate) trait Multiplexed {
    const SCHEME: &'static str;

    /// Sends a request as in a table of [`super::Running::answers`], and returns the answer.
    async fn ask(&self, request: &str) -> Response;

    /// Sends each request of a table, one after the other, and compares the answer.
    async fn answers(&self, table: &str) {
        for line in lines(table) {
            let (request, answer) = sides(line);
            self.ask(request).await.compare(answer, line);
        }
    }

    /// Returns the body of a file.
    async fn get(&self, path: &str) -> Vec<u8> {
        let found = self.ask(&format!("GET {path}")).await;
        assert_eq!(found.status, 200, "{path}");
        found.body
    }
}

/// Returns a request of a table without its body.
pub(crate) fn request(scheme: &str, request: &str) -> Request<()> {
    let (method, target, fields, _) = parts(request);
    let mut request = Request::builder().method(method);
    request = request.uri(format!("{scheme}://test{target}"));
    for field in fields {
        let (name, value) = field.split_once(": ").expect(field);
        request = request.header(name, value);
    }
    request.body(()).unwrap()
}

/// Returns a response as one of HTTP/1.1 is.
pub(crate) fn response(status: StatusCode, fields: &HeaderMap, body: Vec<u8>) -> Response {
    let fields = fields.iter();
    let fields = fields.map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
    Response {
        status: status.as_u16(),
        head: format!("{}\n", status.as_u16()) + &fields.collect::<String>(),
        body,
    }
}

/// Runs a test with a time limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let limit = Duration::from_secs(300);
    let done = runtime.block_on(async { tokio::time::timeout(limit, test).await });
    done.expect("the requests were not all answered within five minutes");
}

/// Waits for all of several futures at the same time.
pub(crate) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in all.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                *output = Some(value);
            }
        }
        if all.iter().all(|(_, output)| output.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}

pub(crate) fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("docs")).unwrap();
    fs::write(dir.path().join("docs/a.txt"), "a").unwrap();
    // The entity tag of a recently changed file is weak.
    let before = SystemTime::now() - Duration::from_secs(3600);
    for (name, content) in [
        ("index.html", b"<h1>home</h1>".to_vec()),
        ("ten.txt", b"0123456789".to_vec()),
        ("empty.txt", Vec::new()),
        ("text.txt", text()),
        ("large.bin", large()),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
        let file = fs::File::options().append(true).open(dir.path().join(name));
        file.unwrap().set_modified(before).unwrap();
    }
    dir
}

/// Returns the content of `text.txt`, which can be compressed.
pub(crate) fn text() -> Vec<u8> {
    b"laio ".repeat(100_000)
}

/// Returns the content of `large.bin`, which cannot.
pub(crate) fn large() -> Vec<u8> {
    let words = (0..500_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes());
    words.collect()
}

/// Options that change the fields of responses.
pub(crate) fn features(options: &mut Options) {
    options.site.listing = true;
    options.site.compress = vec![Coding::Gzip];
    options.site.redirects = vec![Redirect {
        from: "/old".to_owned(),
        to: "/ten.txt".to_owned(),
        status: Status::PERMANENT_REDIRECT,
    }];
    options.site.message_fields.response =
        ["set X-All: 1", "ext=txt add X-Text: 1", "remove Server"]
            .map(|rule| rule.parse().unwrap())
            .into();
}

/// A server with [`features`] answers as one of HTTP/1.1 does.
pub(crate) async fn answers_as_http_1(client: &impl Multiplexed, connect: impl Fn() -> Client) {
    const REQUESTS: &str = r#"
        GET /
        HEAD /ten.txt
        GET /empty.txt
        GET /large.bin
        GET /large.bin | Range: bytes=100000-1900000
        GET /ten.txt | Range: bytes=2-4
        GET /ten.txt | Range: bytes=20-
        GET /ten.txt | If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT
        GET /ten.txt | If-None-Match: *
        GET /ten.txt | If-Match: "x"
        GET /docs
        GET /docs/
        GET /docs/ | Accept: application/json
        GET /old
        GET /nothing?x=y
        GET /%00
        OPTIONS /
        PUT /ten.txt
        BREW /ten.txt
        GET /ten.txt | Expect: a miracle
    "#;
    for line in lines(REQUESTS) {
        let (own, other) = (client.ask(line).await, connect().ask(line));
        assert_eq!(own.status, other.status, "{line}");
        assert!(own.body == other.body, "{line}: the bodies differ");
        let fields = |found: &Response| {
            let fields = found.head.lines().filter_map(|it| it.split_once(": "));
            let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
            let mut fields: Vec<_> = fields.filter(|(name, _)| name != "connection").collect();
            let date = fields.iter_mut().find(|(name, _)| name == "date").unwrap();
            date.1.clear();
            fields.sort();
            fields
        };
        assert_eq!(fields(&own), fields(&other), "{line}");
    }
}

/// A server with [`features`] sends several ranges, and compresses.
pub(crate) async fn answers_with_several_ranges_and_compressed(client: &impl Multiplexed) {
    let found = client.ask("GET /large.bin | Range: bytes=0-1,1000000-1000001");
    let found = found.await;
    let length = found.body.len();
    found.is(&format!(
        "206 | Content-Type: multipart/byteranges* | Content-Length: {length}"
    ));
    let found = client.ask("GET /text.txt | Accept-Encoding: gzip").await;
    found.is("Content-Encoding: gzip | Transfer-Encoding: -");
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&found.body[..]);
    decoder.read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == text());
}

/// A server answers each of these requests the same way each time.
pub(crate) async fn answers_each_time(
    client: &impl Multiplexed,
    asked: &[(&str, &str)],
    times: usize,
) {
    for (method, path) in asked {
        let mut first = None;
        for _ in 0..times {
            let found = client.ask(&format!("{method} {path}")).await;
            let head = found.head.lines().filter(|it| !it.starts_with("date: "));
            let found = (found.status, head.collect::<String>(), found.body);
            let expected = first.get_or_insert_with(|| found.clone());
            assert!(found == *expected, "{method} {path}: it differs");
        }
    }
}

/// A server notices each change of a file in this directory.
pub(crate) async fn answers_with_changes(client: &impl Multiplexed, root: &Path) {
    for number in 0..50 {
        let text = number.to_string();
        fs::write(root.join("ten.txt"), &text).unwrap();
        for _ in 0..3 {
            assert_eq!(client.get("/ten.txt").await, text.as_bytes());
        }
    }
}
