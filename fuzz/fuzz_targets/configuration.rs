#![no_main]
//! Fuzzes configuration files: the printed form of a configuration must be parsed as the same configuration.

use laio_cli::configuration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(written) = configuration(text) {
        assert_eq!(configuration(&written).unwrap(), written);
    }
});
