#![no_main]
//! A file of configuration: what is written of it is read as the same, whatever it was.

use laio_cli::configuration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(written) = configuration(text) {
        assert_eq!(configuration(&written).unwrap(), written);
    }
});
