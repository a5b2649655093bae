//! Requests and files that other servers and clients have handled differently: the result of each.

use crate::common::{LONG, Response, Running, asynchronous_backends, certs};
use laio_serve::Symlinks;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("index.html"), "home").unwrap();
    fs::write(root.join("a.txt"), "four").unwrap();
    fs::create_dir_all(root.join("list/inner")).unwrap();
    fs::write(root.join("list/inner/deep.txt"), "deep").unwrap();
    fs::write(root.join("list/ten.txt"), "0123456789").unwrap();
    dir
}

fn listing(root: &Path) -> Running {
    Running::with(root, |options| options.site.listing = true)
}

#[test]
fn a_slash_behind_a_file_is_not_found() {
    let dir = site();
    for lists in [false, true] {
        let server = Running::with(dir.path(), |options| options.site.listing = lists);
        // Several times, because a repeated request may be answered from the cache.
        for _ in 0..3 {
            server.answers(
                r#"
                GET /a.txt => "four"
                GET /a.txt/ => 404
                GET /a.txt// => 404
                GET /a.txt/. => 404
                GET /list/ten.txt/?json => 404
                "#,
            );
        }
    }
}

#[test]
fn a_slash_behind_a_file_gets_the_fallback_as_any_missing_name() {
    let dir = site();
    let server = Running::with(dir.path(), |options| {
        options.site.listing = true;
        options.site.fallback = Some("index.html".to_owned());
    });
    server.answers(r#"GET /a.txt/ | Accept: text/html => 200 | "home""#);
}

fn entries(server: &Running, target: &str) -> Vec<serde_json::Value> {
    let answer = server.get(target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    json["entries"].as_array().unwrap().clone()
}

#[test]
fn a_listing_shows_what_is_served() {
    let dir = site();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let list = dir.path().join("list");
    for (target, name) in [
        ("ten.txt", "to-file"),
        ("inner", "to-directory"),
        ("../a.txt", "to-above"),
        ("absent", "dead"),
        ("circle", "circle"),
        ("ten.txt/x", "behind-a-file"),
        ("fifo", "to-fifo"),
        ("../../../../../../etc/hostname", "out-by-dots"),
    ] {
        symlink(target, list.join(name)).unwrap();
    }
    symlink(outside.path().join("secret"), list.join("out")).unwrap();
    symlink(outside.path(), list.join("out-directory")).unwrap();
    symlink(list.join("ten.txt"), list.join("absolute")).unwrap();
    symlink("/proc/self/exe", list.join("magic")).unwrap();
    let made = Command::new("mkfifo").arg(list.join("fifo")).status();
    assert!(made.unwrap().success(), "mkfifo");

    let followed = "inner out-directory to-directory absolute magic out ten.txt to-above to-file";
    for (symlinks, expected) in [
        (
            Symlinks::Within,
            "inner to-directory ten.txt to-above to-file",
        ),
        (Symlinks::Refuse, "inner ten.txt"),
        (Symlinks::Follow, followed),
    ] {
        let server = Running::with(dir.path(), |options| {
            options.site.listing = true;
            options.site.symlinks = symlinks;
        });
        let entries = entries(&server, "/list/?json");
        let names = entries.iter().map(|entry| entry["name"].as_str().unwrap());
        // The test is also valid on machines without this file.
        let names: Vec<_> = names.filter(|&name| name != "out-by-dots").collect();
        let names = names.join(" ");
        assert_eq!(names, expected, "{symlinks:?}");
        for entry in &entries {
            let name = entry["encoded"].as_str().unwrap();
            let directory = entry["type"] == "directory";
            let slash = if directory { "/" } else { "" };
            let answer = server.get(&format!("/list/{name}{slash}"));
            assert_eq!(answer.status, 200, "{name}, {symlinks:?}");
            if !directory {
                assert_eq!(entry["size"], answer.body.len(), "{name}, {symlinks:?}");
            }
        }
        let page = server.get("/list/");
        page.is("lacks dead | lacks fifo | has ten.txt");
        let link = "<a href=\"./to-directory/\">to-directory/</a>";
        let link = page.text().contains(link);
        assert_eq!(link, symlinks != Symlinks::Refuse);
    }
}

#[test]
fn a_listing_in_json_leads_to_every_file() {
    let dir = site();
    let list = dir.path().join("list");
    for name in ["a b", "50%", "é", "a?b#c", "x:y", "q\"'<&>"] {
        fs::write(list.join(name), name).unwrap();
    }
    fs::write(list.join(OsStr::from_bytes(b"\xff.bin")), "bytes").unwrap();
    fs::create_dir(list.join("d e")).unwrap();
    let server = listing(dir.path());
    let entries = entries(&server, "/list/?json");
    let encoded = |name: &str| {
        let entry = entries.iter().find(|entry| entry["name"] == name);
        let entry = entry.unwrap_or_else(|| panic!("{name}: {entries:?}"));
        entry["encoded"].as_str().unwrap().to_owned()
    };
    for (name, expected) in [
        ("a b", "a%20b"),
        ("50%", "50%25"),
        ("é", "%C3%A9"),
        ("d e", "d%20e"),
    ] {
        assert_eq!(encoded(name), expected);
    }
    for name in ["a b", "50%", "é", "a?b#c", "x:y", "q\"'<&>"] {
        let target = format!("/list/{}", encoded(name));
        assert_eq!(server.get(&target).text(), name, "{target}");
    }
    assert_eq!(encoded("\u{fffd}.bin"), "%FF.bin");
    assert_eq!(server.get("/list/%FF.bin").text(), "bytes");
}

/// No path has these names, because a reader that decodes twice would take it for another one.
#[test]
fn names_that_no_path_reaches_are_not_listed() {
    let dir = site();
    let list = dir.path().join("list");
    let hidden = [
        "a%2Fb", "a%2fb", "%2e%2e", "%2E", "a%00b", "a%5Cb", "a%252Fb",
    ];
    let reached = ["%41", "100%", "a\\b", "a..", "b;..", "x%y", "%zz"];
    for name in hidden {
        fs::write(list.join(name), "hidden").unwrap();
    }
    for (number, name) in reached.iter().enumerate() {
        fs::write(list.join(name), number.to_string()).unwrap();
    }
    let server = Running::with(dir.path(), |options| {
        options.site.listing = true;
        options.site.archives.zip = Some(laio_serve::Zip::Store);
        options.site.uploads.webdav = true;
    });
    let ask = |method, target, field| server.connect().request(method, target, field);
    let page = ask("GET", "/list/", "Accept: text/html\r\n");
    let archive = server.get("/list/?zip");
    let found = ask("PROPFIND", "/list/", "Depth: 1\r\n");
    assert_eq!((archive.status, found.status), (200, 207));
    let entries = entries(&server, "/list/?json");
    let is_packed = |name: &str| {
        // Readers of zip files take a backslash for a separator.
        let name = name.replace('\\', "_").into_bytes();
        let mut parts = archive.body.windows(name.len());
        parts.any(|part| part == name)
    };
    for (number, name) in reached.iter().enumerate() {
        let entry = entries.iter().find(|entry| entry["name"] == *name);
        let entry = entry.unwrap_or_else(|| panic!("{name}: {entries:?}"));
        let encoded = entry["encoded"].as_str().unwrap();
        let path = format!("/list/{encoded}");
        assert_eq!(server.get(&path).text(), number.to_string(), "{path}");
        assert!(page.text().contains(&format!("href=\"./{encoded}\"")));
        assert!(found.text().contains(&path), "{path}: {}", found.text());
        assert!(is_packed(name), "{name}");
    }
    for name in hidden {
        assert!(!entries.iter().any(|entry| entry["name"] == name), "{name}");
        assert!(!is_packed(name), "{name}");
    }
    // Beside these there is a file and a directory.
    assert_eq!(entries.len(), reached.len() + 2, "{entries:?}");
    assert_eq!(page.text().matches("href=\"./").count(), entries.len());
    let responses = found.text().matches("<D:response").count();
    assert_eq!(responses, entries.len() + 1, "{}", found.text());
}

/// Returns the answer to raw bytes on a connection of their own.
fn raw(server: &Running, request: &str) -> Response {
    let mut client = server.connect();
    client.send(request);
    client.answer(false)
}

#[test]
fn a_coding_that_does_not_end_in_chunked_is_refused() {
    let dir = site();
    let server = Running::start(dir.path());
    for (status, codings) in [
        (400, "gzip"),
        (400, "identity"),
        (400, "chunked, gzip"),
        (400, "chunked\r\nTransfer-Encoding: gzip"),
        (400, "chunked, chunked"),
        (400, ""),
        (501, "gzip, chunked"),
        (200, "chunked"),
    ] {
        let head = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {codings}\r\n");
        let found = raw(&server, &(head + "\r\n0\r\n\r\n"));
        assert_eq!(found.status, status, "{codings:?}");
    }
}

#[test]
fn malformed_trailers_are_refused_and_all_are_limited() {
    let dir = site();
    let server = Running::start(dir.path());
    let many = "T: v\r\n".repeat(101);
    for (status, trailers) in [
        (200, ""),
        (200, "T: v\r\nx-y:\r\n"),
        (400, "no colon\r\n"),
        (400, "T : v\r\n"),
        (400, ": v\r\n"),
        (400, " folded: v\r\n"),
        (400, "T: v\r\n folded\r\n"),
        (400, "T: \0\r\n"),
        (400, "T: v\n"),
        (400, "GET /smuggled HTTP/1.1\r\n"),
        (431, &many),
    ] {
        let request = format!(
            "GET /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             1\r\nx\r\n0\r\n{trailers}\r\n"
        );
        assert_eq!(raw(&server, &request).status, status, "{trailers:?}");
    }
}

#[test]
fn a_malformed_port_is_refused() {
    let dir = site();
    let server = Running::start(dir.path());
    let good = "a,a:,a:80,a:65535,[::1]:443"
        .split(',')
        .map(|host| (200, host));
    let bad = "a:65536,a:99999,a:18446744073709551696,a:+80,a:-80,a:8 0,a:0x50,a:http,a:80:80,[::1]:99999,\
               :80";
    for (status, host) in good.chain(bad.split(',').map(|host| (400, host))) {
        let request = format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(raw(&server, &request).status, status, "{host:?}");
        if status == 400 && !host.starts_with(':') {
            let request = format!("GET http://{host}/a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(raw(&server, &request).status, 400, "{host:?}");
        }
    }
}

#[test]
fn http_without_tls_on_a_port_for_tls_is_answered_in_plain_text() {
    let (dir, keys) = (site(), tempfile::tempdir().unwrap());
    let made = certs::make(keys.path(), "localhost");
    let server = Running::with(dir.path(), |options| {
        options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
        options.certificates = vec![made.files.clone()];
    });
    let refused = "400 | Content-Type: text/plain* | Connection: close | has https:// | closed";
    server.answers(&format!(
        r#"
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n" => {refused}
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" => {refused}
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" => {refused}
        "G" => {refused}
        "#
    ));
    // Anything else gets a TLS alert (level 2, fatal), or the end of the connection.
    let mut client = server.connect();
    client.send(b"\x00\x01\x02\x03\x04\x05");
    let mut rest = Vec::new();
    let _ = client.0.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"\x15"), "{rest:?}");
}

#[test]
fn an_invalid_preface_ends_the_connection() {
    let dir = site();
    let server = Running::start(dir.path());
    let mut client = server.connect();
    client.send("INVALID CONNECTION PREFACE\r\n\r\n");
    assert!(client.is_closed(), "nothing is sent");
    // A possible request is answered; so are the same bytes where HTTP/2 is disabled.
    server.answers(
        r#"
        "GET /\r\n\r\n" => 400
        "GET / HTTX\r\n\r\n" => 400
        "GET a HTTP/1.1\r\n\r\n" => 400
        "#,
    );
    let old = Running::with(dir.path(), |options| options.http2 = None);
    assert_eq!(raw(&old, "INVALID CONNECTION PREFACE\r\n\r\n").status, 400);
}

/// Raw HTTP/2 frames.
struct Frames(TcpStream);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl Frames {
    fn connect(server: &Running) -> Frames {
        let stream = TcpStream::connect(server.places()[0].inet().unwrap()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut frames = Frames(stream);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        frames.0.write_all(preface).unwrap();
        frames.send(SETTINGS, 0, 0, b"");
        frames
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.0.write_all(&[&head, payload].concat()).unwrap();
    }

    /// Returns kind, flags, stream and payload of the next frame.
    fn next(&mut self) -> (u8, u8, u32, Vec<u8>) {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).expect("another frame");
        let [_, a, b] = [0, 1, 2].map(|place| usize::from(head[place]));
        let length = usize::from(head[0]) << 16 | a << 8 | b;
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).expect("all of a frame");
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        (head[3], head[4], stream, payload)
    }

    /// Reads until the answer on stream 1 is complete.
    fn answered(&mut self) {
        loop {
            let (kind, flags, stream, _) = self.next();
            assert_ne!(kind, RST_STREAM, "before the answer has come");
            if stream == 1 && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                return;
            }
        }
    }

    /// Returns the error that ends stream 1 or the connection, or none if two pings are answered
    /// first. The answer to one ping may overtake an error; the second ping is sent after both.
    fn error(&mut self) -> Option<u32> {
        let mut pings = 0;
        loop {
            let (kind, flags, stream, payload) = self.next();
            match kind {
                RST_STREAM if stream == 1 => {
                    return Some(u32::from_be_bytes(payload.try_into().unwrap()));
                }
                GOAWAY => return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap())),
                PING if flags == 1 && pings == 1 => return None,
                PING if flags == 1 => {
                    pings += 1;
                    self.send(PING, 0, 0, b"12345678");
                }
                _ => {}
            }
        }
    }
}

/// Returns the head of a request for `/a.txt`, with a length if it is not `-`.
fn head(length: &str) -> Vec<u8> {
    let mut block = b"\x82\x86\x04\x06/a.txt\x41\x04test".to_vec();
    if length != "-" {
        block.extend_from_slice(&[0x0f, 0x0d, length.len() as u8]);
        block.extend_from_slice(length.as_bytes());
    }
    block
}

#[test]
fn errors_on_a_stream_that_is_answered_are_its_errors() {
    // The case, the length in the head, the frames after the answer (`.` ends the stream), and the error.
    const CASES: &str = "
        a body | - | DATA abc. | -
        trailers | - | DATA abc, HEADERS t. | -
        the length | 3 | DATA ab, DATA c. | -
        a second head | - | HEADERS t | 1
        capitals behind | - | HEADERS T. | 1
        too short | 3 | DATA a. | 1
        too long | 3 | DATA abcd | 1
        too long in two | 3 | DATA ab, DATA cd | 1
        windows | - | WINDOW_UPDATE 2147483647, WINDOW_UPDATE 2147483647 | 3
        a window | - | WINDOW_UPDATE 65280 | -
    ";
    let dir = site();
    let server = Running::start(dir.path());
    for case in CASES.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let [what, length, frames, expected] = case.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let mut client = Frames::connect(&server);
        client.send(HEADERS, END_HEADERS, 1, &head(length));
        client.answered();
        for frame in frames.split(", ") {
            let (kind, text) = frame.split_once(' ').unwrap();
            let (text, ends) = text
                .strip_suffix('.')
                .map_or((text, 0), |text| (text, END_STREAM));
            match kind {
                "DATA" => client.send(DATA, ends, 1, text.as_bytes()),
                "HEADERS" => {
                    let field = format!("\0\x01{text}\x01v");
                    client.send(HEADERS, END_HEADERS | ends, 1, field.as_bytes());
                }
                _ => client.send(
                    WINDOW_UPDATE,
                    0,
                    1,
                    &text.parse::<u32>().unwrap().to_be_bytes(),
                ),
            }
        }
        client.send(PING, 0, 0, b"12345678");
        // PROTOCOL_ERROR is 1, FLOW_CONTROL_ERROR is 3.
        assert_eq!(client.error(), expected.parse().ok(), "{what}");
        // The `h2` crate ends the connection for an invalid field name, as it may (section
        // 5.4.1).
        if what == "capitals behind" {
            continue;
        }
        // Otherwise the connection stays usable.
        client.send(HEADERS, END_HEADERS | END_STREAM, 3, &head("-"));
        while client.next().2 != 3 {}
    }
}

#[test]
fn a_request_whose_rest_never_comes_ends() {
    let dir = site();
    let server = Running::with(dir.path(), |options| {
        options.limits.body_bytes = 10;
    });
    let mut client = Frames::connect(&server);
    client.send(HEADERS, END_HEADERS, 1, &head("-"));
    client.answered();
    client.send(DATA, 0, 1, b"more than the limit");
    loop {
        let (kind, _, stream, payload) = client.next();
        if (kind, stream) == (RST_STREAM, 1) {
            // Without an error, because the answer is complete (RFC 9113, section 8.1).
            assert_eq!(payload, [0; 4]);
            return;
        }
    }
}

#[test]
fn idle_connections_are_evicted_at_the_limit_of_connections() {
    let dir = site();
    for backend in asynchronous_backends() {
        let server = Running::on(backend, dir.path(), |options| {
            options.workers = Some(1);
            options.limits.connections = 3;
            options.limits.idle_time = LONG * 10;
        });
        let mut idle: Vec<_> = (0..3).map(|_| server.connect()).collect();
        for client in &mut idle {
            assert_eq!(client.get("/a.txt").text(), "four");
        }
        for _ in 0..3 {
            assert_eq!(server.get("/a.txt").text(), "four", "{backend}");
        }
        assert!(idle[0].is_closed(), "{backend}: it has waited longest");
    }
}

#[test]
fn silent_connections_are_evicted_after_the_time_for_a_head() {
    let dir = site();
    let server = Running::with(dir.path(), |options| {
        options.workers = Some(1);
        options.limits.connections = 3;
        options.limits.head_time = std::time::Duration::from_millis(100);
        options.limits.idle_time = LONG * 10;
    });
    let silent: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let mut client = server.connect();
    client.answers("GET /a.txt | Connection: close => 200");
    drop(silent);
}

/// The client asks for the end, the server decides on it (the limit of requests), or unread bytes follow the
/// request; for files that are sent at once, in pieces, and from each place that a file can be in.
#[test]
fn the_last_response_of_a_connection_arrives_whole() {
    let dir = site();
    let sizes = [1_000, 100_000, 3_000_000];
    let contents = sizes.map(|size| b"0123456".iter().copied().cycle().take(size).collect());
    let contents: [Vec<u8>; 3] = contents;
    for (size, contents) in sizes.iter().zip(&contents) {
        fs::write(dir.path().join(size.to_string()), contents).unwrap();
    }
    for (backend, requests) in asynchronous_backends()
        .into_iter()
        .flat_map(|one| [(one, 1), (one, 100)])
    {
        let server = Running::on(backend, dir.path(), |options| {
            options.workers = Some(1);
            options.limits.requests = requests;
        });
        for (size, contents) in sizes.iter().zip(&contents) {
            let head = format!("GET /{size} HTTP/1.1\r\nHost: a\r\n");
            let cases = [
                format!("{head}Connection: close\r\n\r\n"),
                format!("{head}Connection: close\r\n\r\nmore"),
                format!("GET /{size} HTTP/1.0\r\n\r\n"),
            ];
            // Not cached, then cached.
            for (case, again) in cases.iter().flat_map(|case| (0..3).map(move |n| (case, n))) {
                let mut client = server.connect();
                client.send(case);
                let what = format!("{backend}, {requests}, request {again}: {case}");
                assert!(client.answer(false).body == *contents, "{what}");
                assert!(client.is_closed(), "{what}");
            }
            if requests == 1 {
                let mut client = server.connect();
                assert!(client.get(&format!("/{size}")).body == *contents);
                assert!(client.is_closed(), "{backend}, {size}");
            }
        }
        server.stop();
    }
}
