//! Request bodies of unknown length, for programs that need the length.

use crate::common::http2::{Client, send};
use crate::common::multiplexed::{Multiplexed, run};
use crate::common::program::{Call, Program};
use crate::common::{Response, Running};
use bytes::Bytes;
use laio::BackendKind;
use laio_serve::{Options, Sandbox, Upstream};
use std::io::{Read, Write};
use tempfile::TempDir;

/// More than is kept in memory, and more than a pipe or socket holds.
const LONG: usize = 3_000_000;

fn serve(backend: BackendKind, change: impl FnOnce(&mut Options)) -> (Running, Program, TempDir) {
    let (root, program) = (tempfile::tempdir().unwrap(), Program::start());
    let upstream = Upstream::fastcgi(&format!("/={}", program.address())).unwrap();
    let server = Running::on(backend, root.path(), |options| {
        options.workers = Some(1);
        options.site.upstreams = vec![upstream].into();
        change(options);
    });
    (server, program, root)
}

fn pattern(length: usize) -> Vec<u8> {
    let words =
        (0..length as u32 / 4 + 1).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(length).collect()
}

/// Chunks of changing sizes.
fn chunked(body: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut size) = (Vec::new(), body, 1);
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(size.min(rest.len()));
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        (rest, size) = (behind, size * 7 % 50_021 + 1);
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

fn post(server: &Running, fields: &str, body: &[u8]) -> Response {
    let mut client = server.connect();
    client.send(format!("POST /p HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.send(body);
    client.answer(false)
}

fn assert_whole(call: &Call, body: &[u8], what: &str) {
    assert_eq!(call.get("CONTENT_LENGTH"), body.len().to_string(), "{what}");
    assert!(call.body == body, "{what}: another body than was sent");
    assert!(!call.has("HTTP_TRANSFER_ENCODING"), "{what}");
}

#[test]
fn a_body_in_chunks_gets_a_length() {
    let backends = crate::common::every_backend();
    for kind in backends {
        let (server, program, _root) = serve(kind, |_| {});
        // Short, at the limit of what is kept in memory, and longer.
        for length in [0, 5, 65_535, 65_536, 65_537, 200_000] {
            let (body, what) = (pattern(length), format!("{kind}, {length}"));
            let answer = post(&server, "Transfer-Encoding: chunked\r\n", &chunked(&body));
            assert_eq!((answer.status, answer.text()), (200, "program"), "{what}");
            assert_whole(program.calls().last().unwrap(), &body, &what);
        }
    }
}

#[test]
fn a_long_body_waits_in_memory_or_in_a_file_without_a_name() {
    let body = pattern(LONG);
    let directory = tempfile::tempdir().unwrap();
    for place in [None, Some(directory.path().to_owned())] {
        let (server, program, _root) = serve(BackendKind::Lazy, |options| {
            options.limits.upstream.spool.clone_from(&place);
            options.safety.landlock = Sandbox::Auto;
            options.safety.seccomp = Sandbox::Auto;
        });
        for _ in 0..2 {
            let answer = post(&server, "Transfer-Encoding: chunked\r\n", &chunked(&body));
            assert_eq!(answer.status, 200, "{place:?}: {}", answer.head);
            assert_whole(program.calls().last().unwrap(), &body, "3,000,000 bytes");
        }
    }
    let left: Vec<_> = directory.path().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_body_with_a_length_does_not_wait() {
    let (server, program, _root) = serve(BackendKind::Lazy, |_| {});
    let body = pattern(LONG);
    let answer = post(&server, &format!("Content-Length: {LONG}\r\n"), &body);
    assert_eq!(answer.status, 200);
    assert_whole(&program.calls()[0], &body, "with a length");
    assert_eq!(post(&server, "", b"").status, 200);
    assert_eq!(program.calls()[1].get("CONTENT_LENGTH"), "");
}

#[test]
fn a_body_beyond_the_limit_is_413_and_reaches_no_program() {
    let (server, program, _root) = serve(BackendKind::Lazy, |options| {
        options.limits.upstream.body_bytes = 100_000;
    });
    for length in [90_000, 100_001, 400_000] {
        let mut client = server.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        // The server may close before it has received everything.
        let _ = client.0.get_mut().write_all(&chunked(&pattern(length)));
        let expected = if length > 100_000 { 413 } else { 200 };
        assert_eq!(client.answer(false).status, expected, "{length}");
        if expected == 413 {
            let mut rest = Vec::new();
            let _ = client.0.read_to_end(&mut rest);
            assert!(
                rest.is_empty(),
                "the connection goes on behind a refused body"
            );
        }
    }
    assert_eq!(program.calls().len(), 1);
}

#[test]
fn a_client_that_waits_for_leave_to_send_gets_it() {
    let (server, program, _root) = serve(BackendKind::Lazy, |_| {});
    let mut client = server.connect();
    client.answers("POST / | Expect: 100-continue | Transfer-Encoding: chunked => 100");
    client.send(chunked(b"hello"));
    assert_eq!(client.answer(false).status, 200);
    assert_whole(&program.calls()[0], b"hello", "after 100 Continue");
    // The connection stays usable after the body.
    assert_eq!(client.get("/next").status, 200);
}

/// No program gets an incomplete body as if it were complete.
#[test]
fn a_body_that_breaks_off_or_is_malformed_reaches_no_program() {
    let (server, program, _root) = serve(BackendKind::Lazy, |_| {});
    let start = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let mut client = server.connect();
    client.send(format!("{start}xyz\r\n"));
    assert_eq!(client.answer(false).status, 400);
    let mut client = server.connect();
    client.send(start);
    let stream = client.0.get_mut();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.0.read_to_end(&mut answer).unwrap();
    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{answer:?}");
    assert!(program.calls().is_empty());
}

#[test]
fn a_directory_without_unnamed_files_is_an_error_at_the_start() {
    let root = tempfile::tempdir().unwrap();
    for bad in ["/proc", "/nowhere/at/all"] {
        let change = |options: &mut Options| options.limits.upstream.spool = Some(bad.into());
        let started = Running::try_with(root.path(), change).map(drop);
        let error = started.expect_err(bad).to_string();
        let is_named = error.contains(bad) && error.contains("--upstream-spool");
        assert!(is_named, "{error}");
    }
}

#[test]
fn bodies_of_http_2_with_a_length_and_without() {
    let (server, program, _root) = serve(BackendKind::Lazy, |_| {});
    let body = Bytes::from(pattern(LONG));
    run(async {
        let client = Client::connect(&server).await;
        for request in [&*format!("POST /p | content-length: {LONG}"), "POST /p"] {
            let (answer, mut sender) = client.open(request, false).await.unwrap();
            send(&mut sender, body.clone(), true).await.unwrap();
            assert_eq!(answer.await.unwrap().status(), 200, "{request}");
        }
    });
    let calls = program.calls();
    assert_eq!(calls.len(), 2);
    for call in &calls {
        assert_whole(call, &body, "HTTP/2");
    }
}

#[test]
fn variables_about_the_connection() {
    let (server, program, _root) = serve(BackendKind::Lazy, |_| {});
    let mut client = server.connect();
    let port = client.0.get_ref().local_addr().unwrap().port();
    assert_eq!(client.get("/x/%41?q=1").status, 200);
    run(async {
        let client = Client::connect(&server).await;
        client.answers("GET /x/A?q=1 => 200").await;
    });
    let calls = program.calls();
    for call in &calls {
        for (name, value) in [
            ("REDIRECT_STATUS", "200"),
            ("SERVER_ADDR", "127.0.0.1"),
            ("REMOTE_ADDR", "127.0.0.1"),
            ("DOCUMENT_URI", "/x/A"),
            ("REQUEST_URI", "/x/A?q=1"),
        ] {
            assert_eq!(call.get(name), value, "{name}");
        }
    }
    assert_eq!(calls[0].get("REMOTE_PORT"), port.to_string());
    let port = calls[1].get("REMOTE_PORT").parse::<u16>();
    assert!(port.is_ok_and(|port| port > 0));
}
