#![no_main]
//! Fuzzes the import of configurations of nginx: the server reads what was written.

use laio_cli::{ConfigurationReader, imported};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static READER: ConfigurationReader = ConfigurationReader::new();
}

fuzz_target!(|text: &str| {
    // It would read files.
    if text.contains("include") {
        return;
    }
    READER.with(|reader| {
        if let Ok(written) = imported(text, reader)
            && let Err(mistakes) = reader.check(&written)
        {
            panic!("{mistakes}\n{written}");
        }
    });
});
