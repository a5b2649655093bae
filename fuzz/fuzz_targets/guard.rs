#![no_main]
//! Fuzzes paths that require a password: every interpretation of a path derived from a target must be
//! protected too.

use libfuzzer_sys::fuzz_target;

mod model {
    include!("../models/lenient.rs");
}

thread_local! {
    static JUDGES: [model::Judge; 4] = model::RULES.map(model::Judge::new);
}

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (rule, raw, bytes) = input;
    let target = if raw { String::from_utf8_lossy(bytes).into_owned() } else {
            let pieces = bytes.iter().take(64);
            let pieces = pieces.map(|&byte| model::PIECES[usize::from(byte) % model::PIECES.len()]);
            format!("/{}", pieces.collect::<String>())
        };
    JUDGES.with(|judges| model::judge(&target, &judges[usize::from(rule) % judges.len()]));
});
