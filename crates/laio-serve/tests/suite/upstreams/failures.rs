//! Upstreams that are slow, fail, send malformed answers, or do not exist.

use super::*;
use std::sync::mpsc::channel;

/// Returns the client's answer for an upstream that sends these bytes and closes.
fn of(bytes: &'static str) -> String {
    let backend = Backend::start(move |peer| {
        if peer.request().is_some() {
            peer.send(bytes);
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let answer = exchange(&server, get("/"));
    assert_eq!(
        backend.connections(),
        1,
        "nothing is asked twice on a fresh connection"
    );
    answer
}

#[test]
fn answers_that_cannot_be_passed_on() {
    for bad in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "<html>not HTTP</html>",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\0: b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let answer = of(bad);
        assert_eq!(status(&answer), "502", "{bad:?}: {answer}");
        assert!(!body(&answer).contains("abc"), "{answer}");
    }
    let endless = "HTTP/1.1 100 Continue\r\n\r\n".repeat(20);
    assert_eq!(status(&of(endless.leak())), "502");
    let huge = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "x".repeat(40_000));
    assert_eq!(status(&of(huge.leak())), "502");
}

#[test]
fn a_truncated_body_is_not_taken_for_complete() {
    let length = of("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    assert!(length.contains("Content-Length: 10\r\n") && body(&length) == "hello");
    for chunks in [
        "5\r\nhello\r\n",
        "5\r\nhello",
        "5\r\nhello\r\nX\r\n",
        "5\r\nhelloXX0\r\n\r\n",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        let answer = of(answer.leak());
        assert!(!answer.ends_with("0\r\n\r\n"), "{chunks:?}: {answer}");
    }
}

#[test]
fn bytes_after_an_answer_are_discarded() {
    let backend = Backend::start(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "ok");
    }
    // A connection with more bytes than the answer is not reused.
    assert_eq!(backend.connections(), 3);
}

#[test]
fn only_idempotent_requests_are_repeated() {
    // Each connection answers once, and closes at the second request.
    let backend = Backend::start(|peer| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        if peer.request().is_some_and(|head| head.contains("/dies")) {
            peer.send("HTTP");
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "ok");
    // On the idle connection, and then on a new one.
    assert_eq!(client.get("/").text(), "ok");
    assert_eq!((backend.connections(), backend.heads().len()), (2, 3));
    // A POST may have had its effect.
    client.answers(r#"POST / | "" => 502"#);
    assert_eq!((backend.connections(), backend.heads().len()), (2, 4));
    // A part of the answer has arrived.
    assert_eq!(client.get("/").text(), "ok");
    assert_eq!(client.get("/dies").status, 502);
    assert_eq!((backend.connections(), backend.heads().len()), (3, 6));
}

#[test]
fn a_connection_that_was_closed_while_idle_is_not_used() {
    let (closed, when) = channel();
    let backend = Backend::start(move |peer| {
        peer.request().unwrap();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        peer.finish();
        closed.send(()).unwrap();
        peer.is_closed();
    });
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let mut client = server.connect();
    for number in 1..=5 {
        // Even a request that must not be repeated succeeds.
        let answer = client.request("POST", "/", "Content-Length: 0\r\n");
        assert_eq!(answer.status, 200);
        when.recv_timeout(crate::common::LONG).unwrap();
        assert_eq!(backend.connections(), number);
    }
}

#[test]
fn upstreams_that_are_not_there() {
    // The port is bound, so that no other process gets it, but no socket listens.
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let taken = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&taken, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let closed: std::net::SocketAddr = getsockname(&taken).unwrap().try_into().unwrap();
    let upstreams = vec![
        Upstream::http(&format!("/tcp=http://{closed}")).unwrap(),
        Upstream::http("/unix=http+unix:/nonexistent/socket:/").unwrap(),
        Upstream::fastcgi(&format!("/fcgi={closed}")).unwrap(),
    ];
    let (server, _root) = serve(upstreams, |_| {});
    let mut client = server.connect();
    for target in ["/tcp", "/unix", "/fcgi"] {
        assert_eq!(client.get(target).status, 502, "{target}");
    }
}

#[test]
fn upstreams_that_are_slow() {
    // Each limit in turn, with the others too large to be reached on a slow machine.
    let soon = Duration::from_millis(50);
    let silent = Backend::start(|peer| {
        peer.request();
        peer.is_closed();
    });
    let (server, _root) = serve(vec![http("/", &silent)], |options| {
        options.limits.upstream.first_byte_time = soon;
    });
    assert_eq!(status(&exchange(&server, get("/"))), "504");

    let half = Backend::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        peer.is_closed();
    });
    let (server, _root) = serve(vec![http("/", &half)], |options| {
        options.limits.upstream.between_time = soon;
    });
    let answer = exchange(&server, get("/"));
    assert_eq!((status(&answer), body(&answer)), ("200", "hello"));
}

#[test]
fn an_upstream_that_never_ends() {
    let endless = Backend::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        while peer.try_send("more") {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    // On a slow machine the time may be over before the head has arrived: then try with more.
    let answers = [1, 8, 64].into_iter().map(|seconds| {
        let (server, _root) = serve(vec![http("/", &endless)], |options| {
            options.limits.upstream.whole_time = Some(Duration::from_secs(seconds));
        });
        exchange(&server, get("/"))
    });
    let mut cut = answers.skip_while(|answer| status(answer) == "504");
    let answer = cut.next().expect("the head has come in time");
    assert_eq!(status(&answer), "200");
    assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[test]
fn an_exchange_ends_when_its_client_has_closed() {
    let (left, gone) = channel();
    let backend = Backend::start(move |peer| {
        let head = peer.request().unwrap();
        if head.contains("/body") {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
            for _ in 0..20_000 {
                peer.send([b'x'; 4096]);
            }
        }
        assert!(peer.is_closed());
        left.send(()).unwrap();
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.limits.upstream.connections = 1;
    });
    for target in ["/wait", "/body"] {
        let mut client = connect(&server);
        client.write_all(get(target).as_bytes()).unwrap();
        if target == "/body" {
            client.read_exact(&mut [0; 10_000]).unwrap();
        }
        drop(client);
        gone.recv_timeout(Duration::from_secs(60)).expect(target);
    }
}
