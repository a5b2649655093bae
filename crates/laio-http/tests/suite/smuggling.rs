//! Requests that two recipients could interpret differently, or that a server must refuse, with the
//! status of each. Accepting one of them is a security bug.

use laio_http::{Limits, Parsed, parse};

/// Without the end of the head, which the test adds.
#[rustfmt::skip]
const REFUSED: &[(u16, &str)] = &[
    // The request line.
    (400, "GET /"),
    (400, "GET"),
    (400, " GET / HTTP/1.1\r\nHost: h"),
    (400, "\tGET / HTTP/1.1\r\nHost: h"),
    (400, "GET  / HTTP/1.1\r\nHost: h"),
    (400, "GET /  HTTP/1.1\r\nHost: h"),
    (400, "GET\t/ HTTP/1.1\r\nHost: h"),
    (400, "GET /a b HTTP/1.1\r\nHost: h"),
    (400, "GET / HTTP/1.1 \r\nHost: h"),
    (400, "GET / HTTP/1.1\rHost: h"),
    (400, "GET / HTTP/1.1\nHost: h"),
    (400, "GET /\0 HTTP/1.1\r\nHost: h"),
    (400, "GET /\x7f HTTP/1.1\r\nHost: h"),
    (400, "GET /a\rb HTTP/1.1\r\nHost: h"),
    (400, "G(T / HTTP/1.1\r\nHost: h"),
    (400, "GET / HTTP/1.1, HTTP/1.1\r\nHost: h"),
    (400, "GET / HTTP /1.1\r\nHost: h"),
    (400, "GET / HTTP/11\r\nHost: h"),
    (400, "GET / HTTP/1.\u{0661}\r\nHost: h"),
    (505, "GET / HTTP/2.0\r\nHost: h"),
    (505, "GET / HTTP/0.9\r\nHost: h"),
    // The target.
    (400, "GET a HTTP/1.1\r\nHost: h"),
    (400, "GET * HTTP/1.1\r\nHost: h"),
    (400, "GET /#a HTTP/1.1\r\nHost: h"),
    (400, "GET h:80 HTTP/1.1\r\nHost: h"),
    (400, "GET file:///etc HTTP/1.1\r\nHost: h"),
    (400, "GET http://u@h/ HTTP/1.1\r\nHost: h"),
    (501, "CONNECT h:80 HTTP/1.1\r\nHost: h"),
    // Host.
    (400, "GET / HTTP/1.1"),
    (400, "GET / HTTP/1.1\r\nX: y"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a"),
    (400, "GET / HTTP/1.1\r\nHost: a\r\nhOST: b"),
    (400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b"),
    (400, "GET / HTTP/1.1\r\nHost: a b"),
    (400, "GET / HTTP/1.1\r\nHost: a/b"),
    (400, "GET / HTTP/1.1\r\nHost: u@a"),
    (400, "GET / HTTP/1.1\r\nHost: a:b"),
    (400, "GET / HTTP/1.1\r\nHost: http://a"),
    (400, "GET http://h/ HTTP/1.1"),
    // Field lines.
    (400, "GET / HTTP/1.1\r\nHost : h"),
    (400, "GET / HTTP/1.1\r\nHost\t: h"),
    (400, "GET / HTTP/1.1\r\n Host: h"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n\tb"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\n: x"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX Y: z"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX(): z"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\n\u{e9}: z"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\0b"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\x0bb"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\r\nY: b"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\nX: a\nY: b"),
    (400, "GET / HTTP/1.1\r\nHost: h\n"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\n\n"),
    (400, "GET / HTTP/1.1\r\nHost: h\r\rX: y"),
    // Framing.
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 0"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5 0"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 5"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    (400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip"),
    (501, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\""),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked;q=1"),
    (400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x"),
];

/// Unusual but valid.
const ACCEPTED: &[&str] = &[
    "GET / HTTP/1.1\r\nHost:",
    "GET / HTTP/1.1\r\nHost:h",
    "GET / HTTP/1.1\r\nhost: \t h \t ",
    "\r\n\r\nGET / HTTP/1.1\r\nHost: h",
    "GET / HTTP/1.0",
    "GET / HTTP/1.9\r\nHost: h",
    "GET http://h/ HTTP/1.1\r\nHost: other",
    "OPTIONS * HTTP/1.1\r\nHost: h",
    "GET /?a=b?c/../d HTTP/1.1\r\nHost: h",
    "G'T / HTTP/1.1\r\nHost: h",
    "GET / HTTP/1.1\r\nHost: h\r\nX: \u{e9}",
    "GET / HTTP/1.1\r\nHost: h\r\nX: a:b: c",
    "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0000000000000000000000000000005",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: CHUNKED",
];

#[test]
fn refused_requests_get_their_status() {
    for &(status, head) in REFUSED {
        let head = format!("{head}\r\n\r\n");
        match parse(head.as_bytes(), &Limits::DEFAULT) {
            Err(rejection) => {
                assert_eq!(rejection.status().code(), status, "{rejection}: {head:?}");
                assert!(rejection.closes());
            }
            Ok(parsed) => panic!("{head:?} is not refused: {parsed:?}"),
        }
    }
}

#[test]
fn accepted_requests_are_complete() {
    for head in ACCEPTED {
        let head = format!("{head}\r\n\r\n");
        match parse(head.as_bytes(), &Limits::DEFAULT) {
            Ok(Parsed::Complete { head_len, .. }) => assert_eq!(head_len, head.len(), "{head:?}"),
            other => panic!("{head:?}: {other:?}"),
        }
    }
}

#[test]
fn the_outcome_does_not_depend_on_the_split() {
    let heads = REFUSED
        .iter()
        .map(|&(_, head)| head)
        .chain(ACCEPTED.iter().copied());
    for head in heads {
        let message = format!("{head}\r\n\r\nbody");
        let whole = summary(message.as_bytes());
        let stepwise = (0..=message.len())
            .map(|len| summary(&message.as_bytes()[..len]))
            .find(|summary| summary != "partial")
            .unwrap();
        assert_eq!(stepwise, whole, "{message:?}");
    }
}

fn summary(bytes: &[u8]) -> String {
    match parse(bytes, &Limits::DEFAULT) {
        Ok(Parsed::Partial) => "partial".to_owned(),
        Ok(complete) => format!("{complete:?}"),
        Err(rejection) => rejection.to_string(),
    }
}
