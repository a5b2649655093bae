#![no_main]
//! Fuzzes access logs, which contain arbitrary targets of clients.

use laio_bench::trace::{file_of, import_bytes, target_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|log: &[u8]| {
    let found = import_bytes(log);
    let trace = found.trace;
    let left_out: u64 = found.left_out.values().sum();
    assert_eq!(found.lines, trace.requests.len() as u64 + left_out);
    let mut latest = None;
    for request in &trace.requests {
        assert!((request.file as usize) < trace.files.len());
        assert!(latest <= request.at, "times go forward");
        latest = request.at;
    }
    for file in &trace.files {
        // It becomes a file name.
        assert!(!file.name.starts_with('/') && !file.name.contains(['\0', '\n', '\t']));
        assert!(file.name.split('/').all(|part| !part.is_empty() && !part.starts_with('.')));
        assert_eq!(file_of(&target_of(&file.name)).as_ref(), Ok(&file.name));
    }
});
