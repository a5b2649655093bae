//! Stored responses of upstreams.

use super::*;
use crate::common::{LONG, every_backend, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Starts a server with a cache.
fn cached(backend: &Backend) -> (Running, tempfile::TempDir) {
    serve(vec![http("/", backend)], |options| {
        options.limits.upstream.cache_bytes = 1 << 20;
    })
}

/// Returns an upstream that answers each request with these fields and a number.
fn numbered(fields: &'static str) -> Backend {
    let count = AtomicUsize::new(0);
    Backend::start(move |peer| {
        while peer.request().is_some() {
            let number = count.fetch_add(1, Ordering::SeqCst).to_string();
            let length = number.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n{number}"
            ));
        }
    })
}

#[test]
fn a_fresh_response_is_used_again() {
    let backend =
        numbered("Cache-Control: max-age=1000\r\nETag: \"e\"\r\nContent-Type: text/x\r\n");
    let (server, _root) = cached(&backend);
    let mut client = server.connect();
    let first = client.get("/a?b");
    assert_eq!((first.text(), first.header("Age")), ("0", None));
    first.is("Cache-Status: laio; fwd=uri-miss; stored");
    let second = client.get("/a?b");
    assert_eq!(second.text(), "0");
    assert!(second.header("Age").is_some() && second.header("Date").is_some());
    second.is("Cache-Status: laio; hit; ttl=* | Content-Type: text/x");
    client.answers(
        r#"
        HEAD /a?b => 200 | Content-Length: 1
        GET /a?b | If-None-Match: "x", W/"e" => 304 | ETag: "e" | Content-Type: -
        GET /a?b | If-None-Match: * => 304 | ETag: "e" | Content-Type: -
        GET /a?b | If-None-Match: "x" => "0"
        "#,
    );
    // Another path, query or host is something else.
    for (target, host) in [("/a", "test"), ("/a?c", "test"), ("/a?b", "other")] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_ne!(client.answer(false).text(), "0");
    }
    assert_eq!(backend.heads().len(), 4);
}

#[test]
fn what_is_not_stored() {
    for fields in [
        "",
        "Cache-Control: max-age=1000, no-store\r\n",
        "Cache-Control: max-age=1000, private\r\n",
        "Cache-Control: max-age=1000\r\nSet-Cookie: a=b\r\n",
        "Cache-Control: max-age=1000\r\nVary: *\r\n",
        "Cache-Control: max-age=0\r\n",
    ] {
        let backend = numbered(fields);
        let (server, _root) = cached(&backend);
        let mut client = server.connect();
        for number in 0..3 {
            let answer = client.get("/");
            assert_eq!(answer.text(), number.to_string(), "{fields}");
            assert_eq!(answer.header("Cache-Status"), Some("laio; fwd=uri-miss"));
        }
    }
    // Neither are answers to other requests.
    let backend = numbered("Cache-Control: max-age=1000\r\n");
    let (server, _root) = cached(&backend);
    let mut client = server.connect();
    for (method, fields) in [
        ("POST", "Content-Length: 0\r\n"),
        ("GET", "Range: bytes=0-1\r\n"),
        ("GET", "Cache-Control: no-store\r\n"),
    ] {
        let answers = [0, 1].map(|_| client.request(method, "/", fields).text().to_owned());
        assert_ne!(answers[0], answers[1], "{method} {fields}");
    }
    let answer = client.request("GET", "/x", "Cache-Control: only-if-cached\r\n");
    assert_eq!(answer.status, 504);
}

#[test]
fn a_broken_response_is_not_stored() {
    let backend = Backend::start(|peer| {
        peer.request();
        peer.send(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nContent-Length: 9\r\n\r\nhello",
        );
    });
    let (server, _root) = cached(&backend);
    for _ in 0..2 {
        assert_eq!(body(&exchange(&server, get("/"))), "hello");
    }
    assert_eq!(backend.heads().len(), 2);
}

#[test]
fn each_variant_is_stored() {
    let backend = numbered("Cache-Control: max-age=1000\r\nVary: Accept-Language, X-A\r\n");
    let (server, _root) = cached(&backend);
    let mut client = server.connect();
    for _ in 0..2 {
        client.answers(
            r#"
            GET / => "0"
            GET / | Accept-Language: de => "1"
            GET / | Accept-Language: en => "2"
            GET / | Accept-Language: en | X-A: b => "3"
            "#,
        );
    }
}

#[test]
fn passwords_need_a_public_response() {
    for (fields, table) in [
        (
            "Cache-Control: max-age=1000\r\n",
            r#"
            GET / | Authorization: Basic YTpi => "0"
            GET / | Authorization: Basic YTpi => "1"
            GET / => "2"
            GET / => "2"
            GET / | Authorization: Basic YTpi => "3"
            "#,
        ),
        (
            "Cache-Control: public, max-age=1000\r\n",
            r#"
            GET / | Authorization: Basic YTpi => "0"
            GET / | Authorization: Basic YTpi => "0"
            GET / => "0"
            "#,
        ),
    ] {
        let backend = numbered(fields);
        let (server, _root) = cached(&backend);
        server.connect().answers(table);
    }
}

#[test]
fn a_stale_response_is_confirmed_or_replaced() {
    let changed = Arc::new(AtomicBool::new(false));
    let flag = changed.clone();
    let backend = Backend::start(move |peer| {
        while let Some(head) = peer.request() {
            let new = flag.load(Ordering::SeqCst);
            let tag = if new { "\"new\"" } else { "\"old\"" };
            let fields = format!("Cache-Control: max-age=0\r\nETag: {tag}\r\n");
            if head.contains(&format!("If-None-Match: {tag}\r\n")) {
                peer.send(format!(
                    "HTTP/1.1 304 Not Modified\r\n{fields}X-Again: 1\r\n\r\n"
                ))
            } else {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{fields}\r\n{tag}"
                ))
            }
        }
    });
    let (server, _root) = cached(&backend);
    let mut client = server.connect();
    let status = "laio; fwd=stale; fwd-status=304; stored";
    client.answers(&format!(
        r#"
        GET / => ""old""
        # The client's own condition does not reach the upstream.
        GET / | If-None-Match: "x" => 200 | ""old"" | X-Again: 1 | Cache-Status: {status}
        GET / | If-None-Match: "x" => 200 | ""old"" | X-Again: 1 | Cache-Status: {status}
        GET / | If-None-Match: "old" => 304
        "#
    ));
    changed.store(true, Ordering::SeqCst);
    client.answers(
        r#"
        GET / => ""new""
        GET / | If-None-Match: "new" => 304
        "#,
    );
    assert_eq!(backend.connections(), 1);
}

#[test]
fn a_client_can_ask_again() {
    let backend = numbered("Cache-Control: max-age=1000\r\n");
    let (server, _root) = cached(&backend);
    let status = "laio; fwd=request; fwd-status=200; stored";
    server.connect().answers(&format!(
        r#"
        GET / => "0"
        GET / => "0"
        GET / | Cache-Control: no-cache => "1"
        GET / => "1"
        GET / | Pragma: no-cache => "2"
        GET / => "2"
        GET / | Cache-Control: max-age=1000, no-cache => "3" | Cache-Status: {status}
        GET / | Cache-Control: max-age=1000 => "3"
        "#
    ));
}

#[test]
fn a_stale_response_is_used_while_it_is_fetched() {
    let backend =
        numbered("Cache-Control: max-age=0, stale-while-revalidate=1000\r\nETag: \"e\"\r\n");
    let (server, _root) = cached(&backend);
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "0");
    for expected in ["0", "1", "2"] {
        client.answers(&format!(
            r#"GET / => "{expected}" | Cache-Status: laio; hit; ttl=-*"#
        ));
    }
    // A client that closes after its response does not end the fetch. Its host has a response of its own, whose number
    // depends on which request reaches the upstream first.
    let first = body(&exchange(&server, get("/"))).to_owned();
    assert_eq!(body(&exchange(&server, get("/"))), first);
    until("it is fetched", || backend.heads().len() == 6);
}

#[test]
fn a_stale_response_is_used_if_the_upstream_fails() {
    let state = Arc::new(AtomicUsize::new(0));
    let flag = state.clone();
    let backend = Backend::start(move |peer| {
        while peer.request().is_some() {
            let fields = "Cache-Control: max-age=0, stale-if-error=1000\r\nETag: \"e\"\r\n";
            match flag.load(Ordering::SeqCst) {
                0 => peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok"
                )),
                1 => peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"),
                _ => return,
            }
        }
    });
    let (server, _root) = cached(&backend);
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "ok");
    for failure in [1, 2] {
        state.store(failure, Ordering::SeqCst);
        for _ in 0..2 {
            client
                .answers(r#"GET / => 200 | "ok" | Cache-Status: laio; fwd=stale; fwd-status=50*"#);
        }
        assert_ne!(client.get("/other").status, 200);
    }
}

#[test]
fn a_successful_change_drops_what_is_stored() {
    let backend = numbered("Cache-Control: max-age=1000\r\n");
    let (server, _root) = cached(&backend);
    server.connect().answers(
        r#"
        GET / => "0"
        POST / | "" => "1"
        GET / => "2"
        GET / => "2"
        "#,
    );
}

#[test]
fn requests_for_the_same_wait_for_one_of_them() {
    let open = Arc::new(AtomicBool::new(false));
    let flag = open.clone();
    let backend = Backend::start(move |peer| {
        while let Some(head) = peer.request() {
            let fields = if head.contains("/stored") {
                "Cache-Control: max-age=1000\r\n"
            } else {
                ""
            };
            while head.contains("slow") && !flag.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok"
            ));
        }
    });
    let (server, _root) = cached(&backend);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    let mut all = |target: &str, wanted: usize| {
        let before = backend.heads().len();
        for client in &mut clients {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        }
        until("they have arrived", || {
            backend.heads().len() - before == wanted
        });
        open.store(true, Ordering::SeqCst);
        for client in &mut clients {
            assert_eq!(client.answer(false).text(), "ok");
        }
        open.store(false, Ordering::SeqCst);
        assert_eq!(backend.heads().len() - before, wanted, "{target}");
    };
    all("/stored/slow", 1);
    // After a response that is not stored, requests do not wait for each other.
    open.store(true, Ordering::SeqCst);
    let mut client = server.connect();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer(false).status, 200);
    open.store(false, Ordering::SeqCst);
    all("/slow", 8);
}

/// The client whose request fills the cache leaves in the middle of the response. The part that has arrived is not stored,
/// and a client that waits for the same gets a whole response.
#[test]
fn a_client_that_leaves_in_the_middle_spoils_nothing() {
    for fields in ["Content-Length: 10\r\n", "Transfer-Encoding: chunked\r\n"] {
        let chunked = fields.contains("chunked");
        let asked = AtomicUsize::new(0);
        let (left, gone) = channel();
        let backend = Backend::start(move |peer| {
            while peer.request().is_some() {
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\n{fields}\r\n"
                ));
                peer.send(if chunked { "5\r\nbegin\r\n" } else { "begin" });
                if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                    assert_eq!(peer.try_read(1), None);
                    return left.send(()).unwrap();
                }
                peer.send(if chunked {
                    "5\r\n-end.\r\n0\r\n\r\n"
                } else {
                    "-end."
                });
            }
        });
        let (server, _root) = cached(&backend);
        let request = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";
        let mut leaves = server.connect();
        leaves.send(request);
        let mut begun = Vec::new();
        while !begun.ends_with(b"begin") {
            let mut byte = [0];
            leaves.0.read_exact(&mut byte).unwrap();
            begun.extend(byte);
        }
        let mut waits = server.connect();
        waits.send(request);
        drop(leaves);
        gone.recv_timeout(LONG).expect("the exchange ends");
        let others = [waits, server.connect()];
        for (index, mut client) in others.into_iter().enumerate() {
            if index > 0 {
                client.send(request);
            }
            let answer = client.answer(false);
            let body = match answer.header("Content-Length") {
                Some(_) => answer.body,
                None => client.chunks(),
            };
            assert_eq!(body, b"begin-end.", "{fields}");
        }
        assert_eq!(backend.heads().len(), 2, "{fields}");
    }
}

#[test]
fn memory_is_bounded() {
    let backend = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let size = if head.contains("/large") {
                40_000
            } else {
                10_000
            };
            let fields = "Cache-Control: max-age=1000\r\nTransfer-Encoding: chunked\r\n";
            let body = "x".repeat(size);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{fields}\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"
            ));
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.limits.upstream.cache_bytes = 100_000;
    });
    let asked = |target: &str| {
        let before = backend.heads().len();
        assert_eq!(status(&exchange(&server, get(target))), "200");
        backend.heads().len() - before
    };
    // More than a quarter of the cache is too much.
    assert_eq!([asked("/large"), asked("/large")], [1, 1]);
    assert_eq!([asked("/0"), asked("/0")], [1, 0]);
    for number in 1..20 {
        assert_eq!(asked(&format!("/{number}")), 1);
    }
    assert_eq!([asked("/0"), asked("/19")], [1, 0]);
    // A stored response has a length, whatever the upstream's had.
    let answer = exchange(&server, get("/19"));
    assert!(answer.contains("\r\nContent-Length: 10000\r\n") && body(&answer).len() == 10_000);
}

#[test]
fn large_responses_are_sent_from_memory() {
    let backend = Backend::start(|peer| {
        while peer.request().is_some() {
            let body = "0123456789".repeat(20_000);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\nCache-Control: max-age=1000\r\n\r\n{body}"
            ));
        }
    });
    for kind in every_backend() {
        let before = backend.heads().len();
        let (server, _root) = serve_with(kind, vec![http("/", &backend)], |options| {
            options.workers = Some(1);
            options.limits.upstream.cache_bytes = 1 << 20;
        });
        for _ in 0..3 {
            let answer = exchange(&server, get("/"));
            assert!(body(&answer) == "0123456789".repeat(20_000), "{kind}");
        }
        assert_eq!(backend.heads().len() - before, 1, "{kind}");
    }
}

#[test]
fn what_a_trusted_proxy_says_is_part_of_the_key() {
    let backend = numbered("Cache-Control: max-age=1000\r\n");
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.limits.upstream.cache_bytes = 1 << 20;
        options.clients.proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let mut client = server.connect();
    for _ in 0..2 {
        client.answers(
            r#"
            GET / | X-Forwarded-For: 192.0.2.1 => "0"
            GET / | X-Forwarded-For: 192.0.2.2 | Forwarded: for=192.0.2.2 => "0"
            GET / | X-Forwarded-Proto: https => "1"
            GET / | X-Forwarded-Host: evil.example => "2"
            GET / | Forwarded: for=192.0.2.1; Host=evil.example => "3"
            "#,
        );
    }
}
