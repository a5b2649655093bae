#![no_main]
//! Fuzzes codings and media types.

use laio_http::{Coding, Limits, Parsed, parse, prefers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (twice, value) = input;
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for name in ["Accept-Encoding: ", "Accept: "] {
        for _ in 0..=usize::from(twice) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"\r\n");
    let Ok(Parsed::Complete { request, .. }) = parse(&head, &Limits::DEFAULT) else {
        return;
    };
    let offered = [Coding::Brotli, Coding::Gzip];
    let chosen = Coding::negotiate(&request.headers, &offered);
    assert!(chosen == Coding::Identity || offered.contains(&chosen));
    assert_eq!(Coding::negotiate(&request.headers, &[]), Coding::Identity);
    if chosen != Coding::Identity {
        // A coding that was chosen among several must be acceptable alone.
        assert_eq!(Coding::negotiate(&request.headers, &[chosen]), chosen);
        let text = String::from_utf8_lossy(value).to_ascii_lowercase();
        assert!(text.contains(chosen.name()) || text.contains('*'));
    }
    let (html, json) = ("text/html", "application/json");
    let both = prefers(&request.headers, html, json) && prefers(&request.headers, json, html);
    assert!(!both);
});
