#![no_main]
//! Fuzzes the conditions of a request.

use laio_http::{ConditionalResult, ETag, Limits, Method, Parsed, Validators, conditional, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (i64, i64, bool, &[u8])| {
    let (modified, now, weak, fields) = input;
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    head.extend_from_slice(fields);
    head.extend_from_slice(b"\r\n\r\n");
    let Ok(Parsed::Complete { request, .. }) = parse(&head, &Limits::DEFAULT) else {
        return;
    };
    let etag = ETag::of_file(1, 2, 3, 4);
    let etag = if weak { etag.weak() } else { etag };
    let current = Validators {
        etag: Some(&etag),
        modified: Some(modified),
        now,
    };
    let has = |name: &str| request.headers.get(name).is_some();
    match conditional::evaluate(&request, &current) {
        ConditionalResult::NotModified => assert!(has("If-None-Match") || has("If-Modified-Since")),
        ConditionalResult::PreconditionFailed => assert!(has("If-Match") || has("If-Unmodified-Since")),
        ConditionalResult::Proceed { range_applies } => {
            assert!(!range_applies || (request.method == Method::Get && has("Range")));
            if range_applies && weak && request.headers.only("If-Range").is_some_and(is_tag) {
                panic!("a weak tag is no ground for a range");
            }
        }
    }
});

fn is_tag(value: &[u8]) -> bool {
    value.starts_with(b"\"") || value.starts_with(b"W/")
}
