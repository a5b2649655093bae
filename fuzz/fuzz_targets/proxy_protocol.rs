#![no_main]
//! Fuzzes the headers in which proxies in front of the server name their clients.

use laio_http::proxy_protocol::{Parsed, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    if let Ok(Parsed::Complete { length, .. }) = whole {
        assert!(0 < length && length <= bytes.len());
    }
    // Splitting the bytes must not change the outcome.
    for end in 0..bytes.len() {
        match (parse(&bytes[..end]), &whole) {
            (Ok(Parsed::Partial), _) => {}
            (
                Ok(Parsed::Complete { source, length }),
                Ok(Parsed::Complete {
                    source: whole_source,
                    length: whole_length,
                }),
            ) => assert_eq!((source, length), (*whole_source, *whole_length)),
            (Err(_), Err(_)) => {}
            (part, whole) => panic!("{part:?} of a part, {whole:?} of the whole"),
        }
    }
});
