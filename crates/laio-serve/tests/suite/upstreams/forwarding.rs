//! Requests to upstreams, and their answers to clients.

use super::*;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Of: upstream\r\n\r\nhello";

#[test]
fn below_a_prefix_the_upstream_answers_over_one_connection() {
    for kind in crate::common::every_backend() {
        let backend = Backend::answering(HELLO);
        let (server, root) = serve_with(kind, vec![http("/api", &backend)], |options| {
            options.workers = Some(1);
        });
        std::fs::write(root.path().join("file"), "a file").unwrap();
        let mut client = server.connect();
        for _ in 0..3 {
            let answer = client.get("/api/%61?q=1");
            assert_eq!((answer.status, answer.text()), (200, "hello"), "{kind}");
            answer.is("X-Of: upstream | Via: 1.1 laio");
            assert!(answer.header("Date").is_some() && answer.header("Server").is_some());
            assert_eq!(client.get("/file").text(), "a file", "{kind}");
            assert_eq!(client.get("/apix").status, 404);
        }
        assert_kept(kind, backend.connections(), 3);
        let heads = backend.heads();
        assert!(
            heads
                .iter()
                .all(|head| head.starts_with("GET /api/a?q=1 HTTP/1.1\r\n")),
            "{heads:?}"
        );
    }
}

#[test]
fn hop_by_hop_fields_are_removed_and_forwarding_fields_added() {
    let backend = Backend::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: X-Private, keep-alive\r\nX-Private: 1\r\n\
         Keep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nUpgrade: h2c\r\nServer: theirs\r\n\r\n",
    );
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let answer = exchange(
        &server,
        "GET / HTTP/1.1\r\nHost: site.example:8\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nTE: trailers\r\n\
         Upgrade: h2c\r\nProxy: http://evil\r\nX-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
         X-Other: stays\r\n\r\n",
    );
    assert_eq!(status(&answer), "200");
    assert!(
        answer.contains("\r\nServer: theirs\r\n") && answer.contains("\r\nConnection: close\r\n")
    );
    for gone in ["X-Private", "Keep-Alive", "Proxy-Auth", "Upgrade"] {
        assert!(!answer.contains(gone), "{gone} in {answer}");
    }
    let head = &backend.heads()[0];
    for gone in ["Connection", "X-Mine", "TE:", "Upgrade", "evil", "6.6.6.6"] {
        assert!(!head.contains(gone), "{gone} in {head}");
    }
    for there in [
        "Host: site.example:8",
        "X-Other: stays",
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: site.example:8",
        "Via: 1.1 laio",
        "Forwarded: for=127.0.0.1;proto=http;host=\"site.example:8\"",
    ] {
        assert!(
            head.contains(&format!("\r\n{there}\r\n")),
            "{there} not in {head}"
        );
    }
}

#[test]
fn forwarding_fields_of_a_trusted_proxy_are_kept() {
    let backend = Backend::answering(HELLO);
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.clients.proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let fields = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n";
    server.connect().request("GET", "/", fields);
    let head = &backend.heads()[0];
    let (first, second) = (
        head.find("192.0.2.7").unwrap(),
        head.find("X-Forwarded-For: 127.0.0.1").unwrap(),
    );
    assert!(first < second, "{head}");
    assert!(
        head.contains("X-Forwarded-Proto: https") && !head.contains("X-Forwarded-Proto: http\r")
    );
}

#[test]
fn answers_to_head_interim_ones_and_those_without_a_body() {
    let backend = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            peer.send(match head.split(' ').nth(1).unwrap() {
                "/head" => "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
                "/none" => "HTTP/1.1 204 No Content\r\n\r\n",
                "/same" => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n",
                "/early" => {
                    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
                     HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal"
                }
                _ => "HTTP/1.1 299 Whatever\r\nContent-Length: 3\r\n\r\nodd",
            });
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    let mut client = server.connect();
    client.answers(
        r#"
        HEAD /head => 200 | Content-Length: 5000
        GET /none => 204
        GET /same => 304 | ETag: "x"
        GET /early => 200 | "final" | Link: -
        GET /odd => 299 | "odd"
        "#,
    );
    assert_eq!(backend.connections(), 1);
}

#[test]
fn unknown_lengths_end_by_chunks_or_with_the_connection() {
    let backend = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            if head.starts_with("GET /chunks") {
                peer.send(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n",
                );
                peer.send("6\r\n world\r\n0\r\nTrailer: t\r\n\r\n");
            } else {
                peer.send("HTTP/1.0 200 OK\r\n\r\nuntil the end");
                return;
            }
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |_| {});
    for (target, expected) in [("/chunks", "hello world"), ("/end", "until the end")] {
        let answer = exchange(&server, get(target));
        assert!(
            answer.contains("\r\nTransfer-Encoding: chunked\r\n"),
            "{answer}"
        );
        assert_eq!(unchunked(body(&answer)), expected);
        let old = exchange(&server, format!("GET {target} HTTP/1.0\r\n\r\n"));
        assert!(!old.contains("Transfer-Encoding"), "{old}");
        assert_eq!(body(&old), expected);
    }
}

#[test]
fn authentication_comes_first_and_trace_is_refused() {
    let backend = Backend::answering(HELLO);
    let users = tempfile::NamedTempFile::new().unwrap();
    // The hash of "x" at minimum cost.
    let hash = "$2b$04$abcdefghijklmnopqrstuuWNNPaWbIXoMzcLCJfXMDSQUBRXzrKCy";
    std::fs::write(users.path(), format!("ann:{hash}\n")).unwrap();
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.site.auth = laio_serve::Auth {
            users: Some(users.path().to_owned()),
            realm: "r".to_owned(),
            paths: vec!["/admin/**".to_owned()],
        };
    });
    server.answers(
        "
        GET /open => 200
        GET /admin/x => 401
        GET /%61dmin/x => 401
        GET //admin/x => 401
        # What is ambiguous is refused.
        GET /a/..%2Fadmin/x => 400
        GET /a%2f%2e%2e/admin/x => 400
        TRACE / | Connection: close => 405 | closed
        ",
    );
    assert_eq!(backend.heads().len(), 1);
}

/// Returns the content of chunks.
pub(crate) fn unchunked(mut body: &str) -> String {
    let mut content = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").expect("a size");
        let size = usize::from_str_radix(size, 16).unwrap();
        content.push_str(&rest[..size]);
        assert!(rest[size..].starts_with("\r\n"), "{rest:?}");
        body = &rest[size + 2..];
        if size == 0 {
            assert_eq!(body, "");
            return content;
        }
    }
}

/// RFC 3986 allows only ASCII in a target; clients send other bytes nevertheless.
#[test]
fn upstreams_get_targets_in_ascii() {
    let backend = Backend::answering(HELLO);
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        let rule = "set X-Asked: {path} {query} {uri}".parse().unwrap();
        options.site.message_fields.request = vec![rule];
    });
    let answer = server.get("/é/日%41?q=é&r=%C3%A9");
    assert_eq!(answer.status, 200);
    let head = &backend.heads()[0];
    let uri = "/%C3%A9/%E6%97%A5A?q=%C3%A9&r=%C3%A9";
    assert!(
        head.starts_with(&format!("GET {uri} HTTP/1.1\r\n")),
        "{head}"
    );
    let field = format!("\r\nX-Asked: /%C3%A9/%E6%97%A5A q=%C3%A9&r=%C3%A9 {uri}\r\n");
    assert!(head.contains(&field), "{head}");
    assert!(head.is_ascii(), "{head}");
}
