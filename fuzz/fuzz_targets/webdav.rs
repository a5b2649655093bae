#![no_main]
//! Fuzzes what WebDAV clients send: XML, and the `If` field.

use laio_serve::fuzzing::{if_field, webdav_xml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // A field begins with a list or an address, a body with an element.
    if_field(bytes);
    webdav_xml(bytes);
});
