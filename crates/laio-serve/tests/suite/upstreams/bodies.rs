//! Bodies of requests and answers, which are passed on piece by piece.

use super::*;
use std::sync::mpsc::channel;

/// An upstream that answers with the body it received.
fn echo() -> Backend {
    Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "));
            let mut body = Vec::new();
            match length {
                Some(length) => body = peer.read(length.parse().unwrap()),
                None if head.contains("Transfer-Encoding: chunked") => loop {
                    let size = usize::from_str_radix(&peer.line(), 16).unwrap();
                    body.extend(peer.read(size));
                    assert_eq!(peer.line(), "");
                    if size == 0 {
                        break;
                    }
                },
                None => {}
            }
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                body.len()
            ));
            peer.send(body);
        }
    })
}

#[test]
fn of_requests_in_both_framings() {
    for kind in crate::common::every_backend() {
        let backend = echo();
        let (server, _root) = serve_with(kind, vec![http("/", &backend)], |_| {});
        let large = "0123456789abcdef".repeat(40_000);
        let mut client = connect(&server);
        // The other half, while the answer arrives; otherwise both sides would block on full
        // buffers.
        let mut reading = client.try_clone().unwrap();
        let expected = large.clone();
        let reader = std::thread::spawn(move || {
            let mut answer = Vec::new();
            reading.read_to_end(&mut answer).unwrap();
            let answer = String::from_utf8(answer).unwrap();
            let (first, second) = answer.split_at(answer.rfind("HTTP/1.1").unwrap());
            assert!(body(first) == expected && body(second) == "chunked body");
        });
        client
            .write_all(
                format!(
                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{large}",
                    large.len()
                )
                .as_bytes(),
            )
            .unwrap();
        client
            .write_all(
                b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                  7;e=f\r\nchunked\r\n5\r\n body\r\n0\r\nT: t\r\n\r\n",
            )
            .unwrap();
        reader.join().unwrap();
        assert_kept(kind, backend.connections(), 2);
    }
}

#[test]
fn the_client_gets_100_continue_and_a_post_without_a_body_has_a_length() {
    let backend = echo();
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let mut client = connect(&server);
    client
        .write_all(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
        )
        .unwrap();
    let mut go_on = [0; 25];
    client.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"body").unwrap();
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let answers = read_to_end(client);
    assert!(answers.contains("\r\n\r\nbodyHTTP/1.1 200 OK"), "{answers}");
    assert!(!backend.heads()[0].contains("Expect"));
    assert!(backend.heads()[1].contains("\r\nContent-Length: 0\r\n"));
}

#[test]
fn bodies_that_are_malformed_or_too_large_or_refused() {
    let backend = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            if head.starts_with("POST /no") {
                peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno!\n");
                // The server does not read the bytes that the client sends from now on.
                assert!(peer.is_closed());
                return;
            }
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.limits.upstream.body_bytes = 1000;
    });
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(
        status(&exchange(&server, format!("{chunked}3\r\nabcX"))),
        "400"
    );
    let large = format!("{chunked}FFF\r\n{}", "x".repeat(4095));
    assert_eq!(status(&exchange(&server, large)), "413");
    let claimed = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n";
    assert_eq!(status(&exchange(&server, claimed)), "413");
    // The answer arrives before the body: it is passed on without waiting for the rest.
    let mut client = connect(&server);
    client
        .write_all(b"POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\npart")
        .unwrap();
    let answer = read_to_end(client);
    assert_eq!((status(&answer), body(&answer)), ("403", "no!\n"));
    assert!(answer.contains("\r\nConnection: close\r\n"));
}

#[test]
fn the_upstream_waits_for_a_client_that_does_not_read() {
    const LENGTH: usize = 32 << 20;
    let (full, is_full) = channel();
    let (go, going) = channel();
    let going = std::sync::Mutex::new(going);
    let backend = Backend::start(move |peer| {
        peer.request().unwrap();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n"
        ));
        let mut left = LENGTH;
        while left > 0 {
            left -= peer.send_some(&vec![b'z'; left.min(0x10000)]);
            // Each time the server has not accepted bytes, the test decides how to continue.
            full.send(left).unwrap();
            if going.lock().unwrap().recv().unwrap() {
                break;
            }
        }
        peer.send("z".repeat(left));
    });
    let (server, root) = serve(vec![http("/large", &backend)], |_| {});
    std::fs::write(root.path().join("other"), "other").unwrap();
    let mut client = connect(&server);
    client.write_all(get("/large").as_bytes()).unwrap();
    // The client reads nothing. The backend's socket buffer is full, and the server's worker, which
    // has run many times since, has not read: back-pressure works.
    let mut other = server.connect();
    let (mut before, mut turns) = (LENGTH, 0);
    while turns < 20 {
        let left = is_full.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(left > 0, "32 MB were taken for a client that reads nothing");
        turns = if left == before { turns + 1 } else { 0 };
        before = left;
        assert_eq!(other.get("/other").text(), "other");
        go.send(turns == 20).unwrap();
    }
    let answer = read_to_end(client);
    assert_eq!(body(&answer).len(), LENGTH);
}

#[test]
fn a_first_event_comes_before_the_second_is_there() {
    let (go, going) = channel();
    let going = std::sync::Mutex::new(going);
    let backend = Backend::start(move |peer| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        for event in ["one\n", "two\n"] {
            going
                .lock()
                .unwrap()
                .recv_timeout(Duration::from_secs(60))
                .unwrap();
            peer.send(event);
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let mut client = connect(&server);
    client.write_all(get("/").as_bytes()).unwrap();
    let mut until = |text: &str| {
        let mut got = Vec::new();
        while !got.ends_with(text.as_bytes()) {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            got.push(byte[0]);
        }
    };
    until("\r\n\r\n");
    go.send(()).unwrap();
    until("one\n\r\n");
    go.send(()).unwrap();
    until("two\n\r\n0\r\n\r\n");
}
