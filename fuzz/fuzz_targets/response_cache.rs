#![no_main]
//! Fuzzes the fields of upstreams and clients that the cache of responses reads.

use laio_serve::fuzzing::response_cache;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| response_cache(bytes));
