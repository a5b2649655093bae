#![no_main]
//! Fuzzes the parser of configurations of nginx: with every word in quotes they mean the same.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // It would read files.
    if text.contains("include") {
        return;
    }
    if let Ok(quoted) = laio_cli::requoted(text) {
        assert_eq!(laio_cli::requoted(&quoted).as_ref(), Ok(&quoted), "{text}");
    }
});
