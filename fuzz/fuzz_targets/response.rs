#![no_main]
//! Fuzzes the heads of responses of HTTP upstreams, and of CGI output.

use laio_http::upstream::{BadResponse, Response, parse_cgi, parse_response};
use laio_http::{Framing, Limits};
use libfuzzer_sys::fuzz_target;

type Parse = for<'b> fn(&'b [u8], &Limits, bool) -> Result<Option<(Response<'b>, usize)>, BadResponse>;

fuzz_target!(|input: (bool, bool, &[u8])| {
    let (to_head, cgi, bytes) = input;
    let limits = Limits { head_bytes: 512, headers: 8, ..Limits::DEFAULT };
    let parse: Parse = if cgi { parse_cgi } else { parse_response };
    let whole = parse(bytes, &limits, to_head);
    match &whole {
        Ok(Some((response, length))) => check(response, &bytes[..*length], to_head, cgi),
        Ok(None) => assert!(bytes.len() < 512),
        Err(_) => {}
    }
    // Splitting the bytes must not change the outcome.
    for end in 0..bytes.len().min(513) {
        match (parse(&bytes[..end], &limits, to_head), &whole) {
            (Ok(None), _) => {}
            (Ok(Some((_, length))), Ok(Some((_, whole)))) => assert_eq!(length, *whole),
            (Err(_), Err(_)) => {}
            (part, whole) => panic!("{part:?} of a part, {whole:?} of the whole"),
        }
    }
});

fn check(response: &Response<'_>, head: &[u8], to_head: bool, cgi: bool) {
    assert!((100..600).contains(&response.status.code()));
    assert!(response.headers.len() <= 8);
    if to_head || response.status.is_bodiless() {
        assert_eq!(response.framing, Some(Framing::None));
    }
    for (name, value) in response.headers.iter() {
        assert!(!name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b':'));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
    assert!(response.headers.all("Content-Length").count() <= 1);
    if !cgi {
        assert!(head.starts_with(b"HTTP/1.") && head.ends_with(b"\r\n\r\n"));
        assert!(!head.windows(2).any(|pair| pair[0] != b'\r' && pair[1] == b'\n'));
    }
}
