//! Responses of upstreams that are compressed while they are passed on.

use super::*;
use crate::common::{Client, Response};
use laio_serve::Coding;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

const HTML: &str = "Content-Type: text/html; charset=utf-8\r\n";

fn page() -> String {
    let line = |number: u32| format!("<p>{}</p>\n", number.wrapping_mul(2_654_435_761));
    (0..3000).map(line).collect()
}

fn compressing(backend: &Backend) -> (Running, tempfile::TempDir) {
    serve_with(BackendKind::Lazy, vec![http("/", backend)], |options| {
        options.site.compress = vec![Coding::Zstd, Coding::Brotli, Coding::Gzip];
        options.site.compress_upstreams = true;
    })
}

/// Requests a page, and reads its body with or without chunks.
fn get(client: &mut Client, path: &str, coding: &str) -> Response {
    let fields = format!("Accept-Encoding: {coding}\r\n");
    let mut answer = client.request("GET", path, &fields);
    if answer.header("Transfer-Encoding").is_some() {
        answer.body = client.chunks();
    }
    answer
}

fn decoded(coding: &str, bytes: &[u8]) -> String {
    let mut plain = String::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_string(&mut plain),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut plain),
        _ => zstd::stream::read::Decoder::new(bytes)
            .unwrap()
            .read_to_string(&mut plain),
    }
    .unwrap();
    plain
}

#[test]
fn text_is_compressed_for_clients_that_accept_it() {
    let backend = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let (length, page) = (page().len(), page());
            let is_head = head.starts_with("HEAD");
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{HTML}ETag: \"e\"\r\nAccept-Ranges: bytes\r\nContent-Length: {length}\r\n\r\n"
            ));
            if !is_head {
                peer.send(page);
            }
        }
    });
    let (server, _root) = compressing(&backend);
    let mut client = server.connect();
    for coding in ["zstd", "br", "gzip"] {
        let accept = format!("Accept-Encoding: {coding}\r\n");
        let answer = get(&mut client, "/", coding);
        assert_eq!(answer.header("Content-Encoding"), Some(coding));
        answer.is(r#"ETag: W/"e" | Vary: Accept-Encoding | Content-Length: -"#);
        answer.is("Accept-Ranges: -");
        assert!(answer.body.len() < page().len() / 2);
        assert!(decoded(coding, &answer.body) == page(), "{coding}");
        let head = client.request("HEAD", "/", &accept);
        assert_eq!(head.header("Content-Encoding"), Some(coding));
        assert_eq!(head.header("Content-Length"), None);
    }
    let plain = client.request("GET", "/", "Accept-Encoding: identity\r\n");
    plain.is(r#"Content-Encoding: - | ETag: "e" | Vary: Accept-Encoding"#);
    assert!(plain.text() == page());
    // A client of HTTP/1.0 gets no chunks.
    client.send("GET / HTTP/1.0\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n");
    let old = client.answer(false);
    assert!(old.header("Content-Encoding").is_none() && old.text() == page());
}

#[test]
fn what_is_not_compressed() {
    let backend = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let fields = match head.split(' ').nth(1).unwrap() {
                "/image" => "Content-Type: image/png\r\n",
                "/encoded" => "Content-Type: text/css\r\nContent-Encoding: x-own\r\n",
                "/fixed" => "Content-Type: text/css\r\nCache-Control: private, no-transform\r\n",
                "/events" => "Content-Type: text/event-stream\r\n",
                "/short" => "Content-Type: text/plain\r\nContent-Length: 5\r\n",
                _ => "",
            };
            let (framing, body) = if fields.contains("Length") {
                ("", "hello")
            } else {
                ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")
            };
            peer.send(format!("HTTP/1.1 200 OK\r\n{fields}{framing}\r\n{body}"));
        }
    });
    let (server, _root) = compressing(&backend);
    let mut client = server.connect();
    for path in [
        "/image", "/encoded", "/fixed", "/events", "/short", "/unknown",
    ] {
        let answer = get(&mut client, path, "gzip, br, zstd");
        assert_eq!(answer.text(), "hello", "{path}");
        assert_eq!(answer.header("Vary"), None, "{path}");
        let coding = (path == "/encoded").then_some("x-own");
        assert_eq!(answer.header("Content-Encoding"), coding, "{path}");
    }
}

/// Sends a page in two parts, the second one when the test says so.
fn in_two_parts(first: &'static str, wait: Receiver<()>) -> Backend {
    let wait = Mutex::new(wait);
    Backend::start(move |peer| {
        while peer.request().is_some() {
            let length = first.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{HTML}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{first}\r\n"
            ));
            let _ = wait.lock().unwrap().recv();
            peer.send("4\r\nrest\r\n0\r\n\r\n");
        }
    })
}

#[test]
fn the_client_can_decode_what_the_upstream_has_sent_so_far() {
    for coding in ["zstd", "br", "gzip"] {
        let (go_on, wait) = channel();
        let backend = in_two_parts("the first part of a page", wait);
        let (server, _root) = compressing(&backend);
        let mut stream = TcpStream::connect(server.places()[0].inet().unwrap()).unwrap();
        write!(
            stream,
            "GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: {coding}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        // What a decoder makes of the bytes so far. It may find that the end is missing.
        let so_far = |received: &[u8]| {
            let mut body = Vec::new();
            let text = received.windows(4).position(|four| four == b"\r\n\r\n");
            let Some(mut rest) = text.map(|at| &received[at + 4..]) else {
                return String::new();
            };
            while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
                let size = std::str::from_utf8(&rest[..end]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                match rest.get(end + 2..end + 2 + size) {
                    Some(chunk) if size > 0 => body.extend_from_slice(chunk),
                    _ => break,
                }
                rest = rest.get(end + 4 + size..).unwrap_or_default();
            }
            let mut plain = Vec::new();
            let mut buffer = [0; 64];
            let mut decoder: Box<dyn Read + '_> = match coding {
                "gzip" => Box::new(flate2::read::GzDecoder::new(&body[..])),
                "br" => Box::new(brotli::Decompressor::new(&body[..], 64)),
                _ => Box::new(zstd::stream::read::Decoder::new(&body[..]).unwrap()),
            };
            while let Ok(count @ 1..) = decoder.read(&mut buffer) {
                plain.extend_from_slice(&buffer[..count]);
            }
            String::from_utf8(plain).unwrap()
        };
        while so_far(&received) != "the first part of a page" {
            let count = stream.read(&mut chunk).unwrap();
            assert!(count > 0, "{coding}: the response ended early");
            received.extend_from_slice(&chunk[..count]);
        }
        go_on.send(()).unwrap();
        stream.read_to_end(&mut received).unwrap();
        assert_eq!(
            so_far(&received),
            "the first part of a pagerest",
            "{coding}"
        );
        drop(go_on);
    }
}

#[test]
fn a_stored_response_is_compressed_for_each_client() {
    let backend = Backend::start(|peer| {
        while peer.request().is_some() {
            let (length, page) = (page().len(), page());
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{HTML}Cache-Control: max-age=1000\r\nContent-Length: {length}\r\n\r\n{page}"
            ));
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.limits.upstream.cache_bytes = 1 << 20;
        options.site.compress = vec![Coding::Gzip];
        options.site.compress_upstreams = true;
    });
    let mut client = server.connect();
    for _ in 0..3 {
        let packed = get(&mut client, "/", "gzip");
        assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
        assert!(decoded("gzip", &packed.body) == page());
        let head = client.request("HEAD", "/", "Accept-Encoding: gzip\r\n");
        assert_eq!(head.header("Content-Encoding"), Some("gzip"));
        let plain = client.get("/");
        assert_eq!(plain.header("Vary"), Some("Accept-Encoding"));
        assert!(plain.text() == page());
    }
    assert_eq!(backend.heads().len(), 1);
}

#[test]
fn a_broken_response_stays_broken() {
    let backend = Backend::start(|peer| {
        if peer.request().is_some() {
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{HTML}Content-Length: 5000\r\n\r\nthe start"
            ));
        }
    });
    let (server, _root) = compressing(&backend);
    let mut stream = TcpStream::connect(server.places()[0].inet().unwrap()).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip\r\n\r\n")
        .unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert!(received.starts_with(b"HTTP/1.1 200"));
    assert!(!received.ends_with(b"\r\n0\r\n\r\n"), "the end is missing");
}

#[test]
fn it_needs_codings() {
    let mut options = Options::default();
    options.site.compress_upstreams = true;
    let error = laio_serve::check(&options).unwrap_err().to_string();
    assert!(
        error.contains("--compress-upstreams needs --compress"),
        "{error}"
    );
}
