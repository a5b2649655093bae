#![no_main]
//! Fuzzes configuration files: the printed form of a configuration must be parsed as the same configuration.

use laio_cli::ConfigurationReader;
use libfuzzer_sys::fuzz_target;

thread_local! {
    static READER: ConfigurationReader = ConfigurationReader::new();
}

fuzz_target!(|text: &str| {
    READER.with(|reader| {
        if let Ok(written) = reader.text(text) {
            assert_eq!(reader.text(&written).unwrap(), written);
        }
    });
});
