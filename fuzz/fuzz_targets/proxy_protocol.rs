#![no_main]
//! Fuzzes the header of the PROXY protocol with which a proxy begins a connection.

use laio_http::proxy_protocol::{Parsed, V1_MAX, V2_MAX, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = parse(bytes);
    // Beginnings are incomplete up to one length, from which on the result is that of all bytes.
    let results: Vec<_> = (0..=bytes.len()).map(|end| parse(&bytes[..end])).collect();
    let decided = results.iter().position(|result| *result != Ok(Parsed::Partial));
    if let Some(decided) = decided {
        assert!(results[decided..].iter().all(|result| *result == whole), "the split");
    }
    match whole {
        Ok(Parsed::Complete { length, .. }) => {
            let most = if bytes[0] == b'P' { V1_MAX } else { V2_MAX };
            assert!(decided == Some(length) && length <= most);
        }
        Ok(Parsed::Partial) => assert!(bytes.len() < V2_MAX),
        Err(_) => {}
    }
});
