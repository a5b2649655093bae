#![no_main]
//! Fuzzes what clients send over HTTP/3: requests, streams in one direction, field sections.

use laio_serve::fuzzing::{http3_request, http3_unidirectional, qpack_section};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match bytes.split_first() {
        Some((0, bytes)) => http3_unidirectional(bytes),
        Some((1, bytes)) => qpack_section(bytes),
        _ => http3_request(bytes),
    }
});
