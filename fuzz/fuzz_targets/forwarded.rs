#![no_main]
//! Fuzzes the fields in which trusted proxies name their clients.

use laio_serve::fuzzing::trusted_proxies;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| trusted_proxies(bytes));
