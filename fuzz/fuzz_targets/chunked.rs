#![no_main]
//! Fuzzes chunked bodies.

use laio_http::{BodySkip, Framing, Rejection};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, u8, &[u8])| {
    let (limit, step, bytes) = input;
    let limit = u64::from(limit);
    let whole = read(bytes, limit, bytes.len().max(1));
    assert_eq!(whole, read(bytes, limit, usize::from(step).max(1)), "the split");
    if let Ok((used, done)) = whole {
        assert!(used as u64 <= limit);
        assert!(done || used == bytes.len());
        if done {
            assert_eq!(end(bytes), Some(used), "two readers see different ends");
        }
    }
});

fn read(bytes: &[u8], limit: u64, step: usize) -> Result<(usize, bool), Rejection> {
    let mut skip = BodySkip::new(Framing::Chunked, limit)?;
    let mut used = 0;
    for part in bytes.chunks(step) {
        used += skip.advance(part)?;
        if skip.is_done() {
            break;
        }
    }
    Ok((used, skip.is_done()))
}

/// Returns the end of a chunked body, which it reads line by line.
fn end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let line = |at: &mut usize| {
        let length = bytes[*at..].windows(2).position(|pair| pair == b"\r\n")?;
        let line = &bytes[*at..*at + length];
        *at += length + 2;
        Some(line)
    };
    loop {
        let size = line(&mut at)?.split(|&byte| byte == b';').next()?;
        let size = std::str::from_utf8(size.trim_ascii_end()).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            break;
        }
        at = at.checked_add(size)?;
        (bytes.get(at..at + 2)? == b"\r\n").then_some(())?;
        at += 2;
    }
    while !line(&mut at)?.is_empty() {}
    Some(at)
}
