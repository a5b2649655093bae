//! HTTP/1.1 as in RFC 9110 and RFC 9112, tested over connections.

use crate::common::{Running, asynchronous_backends};
use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    // Old enough for a strong entity tag.
    let text = fs::File::create(dir.path().join("ten.txt")).unwrap();
    fs::write(dir.path().join("ten.txt"), "0123456789").unwrap();
    text.set_modified(SystemTime::now() - Duration::from_secs(3600))
        .unwrap();
    let large: Vec<u8> = (0..2_000_000u32).map(|i| (i / 7) as u8).collect();
    fs::write(dir.path().join("large.bin"), large).unwrap();
    dir
}

fn lazy(site: &TempDir) -> Running {
    Running::start(site.path())
}

#[test]
fn malformed_requests_are_refused_and_end_the_connection() {
    let site = site();
    let server = lazy(&site);
    for (status, bytes) in [
        (400, &b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"[..]), // bare CR
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n"),    // bare LF
        (400, b"GET / HTTP/1.1\nHost: a\n\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n"), // obs-fold
        (400, b"GET / HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"), // white space before the colon
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"), // NUL
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"),
        (400, b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
        (400, b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n\r\n"), // no Host, two, bad ones
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a:x\r\n\r\n"),
        (400, b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n"), // authority
        (400, b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET http://a/ HTTP/1.1\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"),
        (501, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (417, b"GET / HTTP/1.1\r\nHost: a\r\nExpect: a-miracle\r\n\r\n"),
        (413, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999\r\n\r\n"),
        (505, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        (501, b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ] {
        let mut client = server.connect();
        client.send(bytes);
        let answer = client.answer(false);
        let what = bytes.escape_ascii().to_string();
        assert_eq!(answer.status, status, "{what}");
        assert_eq!(answer.header("Connection"), Some("close"), "{what}");
        assert!(!answer.body.is_empty(), "{what}");
        assert!(client.is_closed(), "{what}");
    }
}

#[test]
fn heads_are_bounded_and_the_bounds_can_be_chosen() {
    let site = site();
    let fields = |count: usize| "X: a\r\n".repeat(count);
    let get =
        |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    // The defaults, and others.
    for (head_bytes, headers, target_bytes) in [(16_384, 100, 8192), (500, 10, 50)] {
        let server = Running::with(site.path(), |options| {
            options.limits.head_bytes = head_bytes;
            options.limits.headers = headers;
            options.limits.target_bytes = target_bytes;
        });
        let long = |bytes: usize| format!("/{}", "a".repeat(bytes - 1));
        let spare = head_bytes - get("/", "Y: \r\n").len();
        for (status, request) in [
            (200, get("/", &fields(headers - 1))),
            (431, get("/", &fields(headers))),
            (404, get(&long(target_bytes), "")),
            (414, get(&long(target_bytes + 1), "")),
            (200, get("/", &format!("Y: {}\r\n", "a".repeat(spare)))),
            (431, get("/", &format!("Y: {}\r\n", "a".repeat(spare + 1)))),
        ] {
            let mut client = server.connect();
            client.send(&request);
            let answer = client.answer(false);
            assert_eq!(answer.status, status, "{headers}: {} bytes", request.len());
        }
        // The server does not wait for the end of a head that is already too long.
        let mut client = server.connect();
        client.send(&get("/", &format!("Y: {}", "a".repeat(head_bytes)))[..head_bytes]);
        assert_eq!(client.answer(false).status, 431);
    }
}

#[test]
fn unusual_requests_are_served() {
    let site = site();
    let server = lazy(&site);
    server.answers(
        r#"
        "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" => 200 | Allow: - | closed
        "GET / HTTP/1.1\r\nhOsT:a\r\nX:\r\nConnection: close\r\n\r\n" => 200 | Allow: - | closed
        "GET / HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n" => 200 | Allow: - | closed
        "GET / HTTP/1.2\r\nHost: a\r\nConnection: close\r\n\r\n" => 200 | Allow: - | closed
        "GET / HTTP/1.0\r\n\r\n" => 200 | Allow: - | closed
        "GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n" => 200 | Allow: - | closed
        GET http://b/ten.txt | Connection: close => 200 | Allow: - | closed
        GET /%74en.txt | Connection: close => 200 | Allow: - | closed
        GET /a%2Fb | Connection: close => 404 | Allow: - | closed
        GET /%ff | Connection: close => 404 | Allow: - | closed
        GET /%00 | Connection: close => 400 | Allow: - | closed
        GET /%zz | Connection: close => 400 | Allow: - | closed
        GET /../x | Connection: close => 400 | Allow: - | closed
        GET /x/../ten.txt | Connection: close => 200 | Allow: - | closed
        OPTIONS * | Connection: close => 204 | Allow: * | closed
        OPTIONS / | Connection: close => 204 | Allow: * | closed
        TRACE / | Connection: close => 405 | Allow: * | closed
        BREW / | Connection: close => 501 | Allow: - | closed
        "#,
    );
}

#[test]
fn keep_alive_of_both_versions() {
    let site = site();
    let server = Running::with(site.path(), |options| options.limits.requests = 3);
    server.connect().answers(
        r#"
        "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n" => Connection: keep-alive
        "GET / HTTP/1.0\r\n\r\n" => Connection: - | closed
        "#,
    );
    server.connect().answers(
        "
        GET / => Connection: -
        GET / => Connection: -
        # It had its share.
        GET / => Connection: close | closed
        ",
    );
}

#[test]
fn the_split_of_pipelined_requests_makes_no_difference() {
    let site = site();
    let server = lazy(&site);
    let bytes = b"GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n\
        POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n\
        HEAD / HTTP/1.1\r\nHost: a\r\n\r\n\
        PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n01234\
        GET /ten.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=2-3\r\n\r\n";
    let mut client = server.connect();
    for split in 0..=bytes.len() {
        client.send(&bytes[..split]);
        // In separate receives where possible: an answer shows that everything before it was read.
        client.send(&bytes[split..]);
        assert_eq!(client.answer(false).body, b"0123456789", "{split}");
        assert_eq!(client.answer(false).status, 405, "{split}");
        assert_eq!(client.answer(true).status, 200, "{split}");
        assert_eq!(client.answer(false).status, 405, "{split}");
        assert_eq!(client.answer(false).body, b"23", "{split}");
    }
    // One request at a time, each split where its answer shows that the server waited for the
    // second part.
    for split in 1..bytes.len() {
        let mut client = server.connect();
        client.send(&bytes[..split]);
        client.0.get_mut().set_nodelay(true).unwrap();
        client.send(&bytes[split..=split]);
        client.send(&bytes[split + 1..]);
        for expected in [200, 405] {
            assert_eq!(client.answer(false).status, expected, "{split}");
        }
    }
}

#[test]
fn expectations() {
    let site = site();
    let server = lazy(&site);
    // The server reads and discards the body of a GET, so it sends 100 Continue.
    let mut client = server.connect();
    client.answers("GET /ten.txt | Content-Length: 3 | Expect: 100-continue => 100");
    client.answer(false).is("200");
    client.send("abc");
    client.answers(
        r#"
        GET /ten.txt => 200
        # The server does not need the body of a PUT: the final answer comes at once.
        PUT /ten.txt | Content-Length: 3 | Expect: 100-continue => 405 | Connection: close | closed
        "#,
    );
    // The body has arrived already, so the server need not send 100 Continue.
    server.connect().answers(
        r#"
        GET /ten.txt | Expect: 100-continue | "abc" => 200
        GET / => 200
        "#,
    );
}

#[test]
fn bodies_are_bounded() {
    let site = site();
    for backend in asynchronous_backends() {
        let server = Running::on(backend, site.path(), |options| {
            options.limits.body_bytes = 100
        });
        server.answers("POST / | Content-Length: 101 => 413 | Connection: close");
        let mut client = server.connect();
        // What fits is passed over.
        client.answers(&format!(
            "POST / | \"{}\" => 405\nGET / => 200",
            "x".repeat(100)
        ));
        // The answer can be read although much more was sent than the server has read. Whether the
        // error arrived with the head, in time for an answer, depends on chance.
        let body = "x".repeat(300_000);
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n{body}"
        ));
        let status = client.answer(false).status;
        assert!(matches!(status, 405 | 413), "{backend}");
        assert!(client.is_closed(), "{backend}");
        let mut client = server.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n");
        let status = client.answer(false).status;
        assert!(matches!(status, 405 | 400), "{backend}");
        assert!(client.is_closed(), "{backend}: the framing is broken");
    }
}

#[test]
fn several_ranges() {
    let site = site();
    for backend in asynchronous_backends() {
        let server = Running::on(backend, site.path(), |_| {});
        let mut client = server.connect();
        let answer = client.ask("GET /large.bin | Range: bytes=0-9,1000-1009,-5");
        assert_eq!(answer.status, 206, "{backend}");
        let kind = answer.header("Content-Type").unwrap();
        let boundary = kind
            .strip_prefix("multipart/byteranges; boundary=")
            .unwrap();
        let whole = fs::read(site.path().join("large.bin")).unwrap();
        let mut expected = Vec::new();
        for (start, end) in [(0, 10), (1000, 1010), (1_999_995, 2_000_000)] {
            let before = if start == 0 { "" } else { "\r\n" };
            let last = end - 1;
            let head = format!(
                "{before}--{boundary}\r\nContent-Type: application/octet-stream\r\n\
                 Content-Range: bytes {start}-{last}/2000000\r\n\r\n"
            );
            expected.extend_from_slice(head.as_bytes());
            expected.extend_from_slice(&whole[start..end]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert!(answer.body == expected, "{backend}");
        // Large parts are sent piece by piece.
        let answer = client.ask("GET /large.bin | Range: bytes=0-899999,1000000-1999999");
        let has_first = |part: &[u8]| part == &whole[..900_000];
        assert!(answer.body.windows(900_000).any(has_first), "{backend}");
        let length = answer.body.len();
        assert!((1_900_001..1_900_500).contains(&length), "{backend}");
        let many: String = (0..17).map(|i| format!("{0}-{0},", i * 1000)).collect();
        let many = many.trim_end_matches(',');
        client.answers(&format!(
            "
            HEAD /large.bin | Range: bytes=0-9,1000-1009 => 200 | Content-Length: 2000000
            # Ranges close to each other are sent as one.
            GET /large.bin | Range: bytes=0-9,60-69 => Content-Range: bytes 0-69/2000000
            GET /large.bin | Range: bytes={many} => 200
            "
        ));
    }
    let one = Running::with(site.path(), |options| options.limits.ranges = 1);
    one.answers(
        "
        GET /ten.txt | Range: bytes=0-1 => 206
        GET /large.bin | Range: bytes=0-1,900-901 => 200
        ",
    );
}

#[test]
fn conditions_in_their_order() {
    let site = site();
    let server = lazy(&site);
    let mut client = server.connect();
    let now = client.get("/ten.txt");
    let (etag, date) = (
        now.header("ETag").unwrap(),
        now.header("Last-Modified").unwrap(),
    );
    assert!(!etag.starts_with("W/"), "{etag}: the file is old");
    let (past, other) = ("Sun, 06 Nov 1994 08:49:37 GMT", "\"other\"");
    let same = format!("304 | ETag: {etag} | Date: * | Content-Length: - | Content-Type: -");
    client.answers(&format!(
        "
        GET /ten.txt | If-Match: {etag} => 200
        GET /ten.txt | If-Match: {other} => 412
        GET /ten.txt | If-Match: * => 200
        GET /ten.txt | If-Match: W/{etag} => 412
        GET /ten.txt | If-Unmodified-Since: {past} => 412
        GET /ten.txt | If-Unmodified-Since: {date} => 200
        # Step 1 hides step 2.
        GET /ten.txt | If-Match: {etag} | If-Unmodified-Since: {past} => 200
        GET /ten.txt | If-None-Match: {other}, W/{etag} => {same}
        GET /ten.txt | If-None-Match: * => {same}
        # Step 3 hides step 4.
        GET /ten.txt | If-None-Match: {other} | If-Modified-Since: {date} => 200
        GET /ten.txt | If-Modified-Since: {date} => {same}
        GET /ten.txt | If-Modified-Since: {past} => 200
        GET /ten.txt | If-Modified-Since: yesterday => 200
        GET /ten.txt | If-Match: {other} | If-None-Match: {etag} => 412
        GET /ten.txt | If-None-Match: {etag} | Range: bytes=0-1 => {same}
        GET /ten.txt | If-Range: {etag} | Range: bytes=0-1 => 206
        GET /ten.txt | If-Range: {other} | Range: bytes=0-1 => 200
        GET /ten.txt | If-Range: W/{etag} | Range: bytes=0-1 => 200
        GET /ten.txt | If-Range: {date} | Range: bytes=0-1 => 206
        GET /ten.txt | If-Range: {past} | Range: bytes=0-1 => 200
        GET /ten.txt | If-Range: {other} | Range: bytes=100- => 200
        GET /ten.txt | If-Range: {etag} | Range: bytes=100- => 416
        "
    ));
    // The entity tag of a file that may change within its second is weak, so `If-Range` does not
    // match it.
    let fresh = fs::File::create(site.path().join("fresh.txt")).unwrap();
    fs::write(site.path().join("fresh.txt"), "0123456789").unwrap();
    fresh
        .set_modified(SystemTime::now() + Duration::from_secs(3600))
        .unwrap();
    let etag = client.get("/fresh.txt").header("ETag").unwrap().to_owned();
    assert!(etag.starts_with("W/"), "{etag}");
    client.answers(&format!(
        "
        GET /fresh.txt | If-Range: {etag} | Range: bytes=0-1 => 200
        GET /fresh.txt | If-None-Match: {etag} => 304
        "
    ));
}

#[test]
fn connections_from_one_address_are_bounded() {
    let site = site();
    let server = Running::with(site.path(), |options| {
        options.limits.connections_per_address = Some(2);
    });
    let (mut one, mut two) = (server.connect(), server.connect());
    assert_eq!((one.get("/").status, two.get("/").status), (200, 200));
    assert!(server.connect().is_closed());
    drop(one);
    // The limit allows another connection as soon as the server has noticed.
    crate::common::until("there is room for another one", || {
        let mut next = server.connect();
        // The server may close it before the request is sent.
        let asked = next
            .0
            .get_mut()
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        asked.is_ok() && next.0.read(&mut [0; 1]).is_ok_and(|count| count == 1)
    });
}

#[test]
fn slow_clients_are_closed_and_others_served() {
    let site = site();
    // The time limit begins with the first byte of a head, and complete heads arrive in one
    // piece.
    let server = Running::with(site.path(), |options| {
        options.limits.head_time = Duration::from_millis(500);
    });
    let mut slow: Vec<_> = (0..200)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
            client
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.get("/ten.txt").body, b"0123456789");
    }
    for client in &mut slow {
        assert_eq!(client.answer(false).status, 408);
        assert!(client.is_closed());
    }
}
