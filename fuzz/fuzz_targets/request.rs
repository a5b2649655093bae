#![no_main]
//! Fuzzes a request head, and the path in it.

use laio_http::{Limits, Parsed, Rejection, Version, log, parse, path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (split, bytes) = input;
    let whole = outcome(bytes);
    // Splitting the bytes must not change the outcome.
    let part = &bytes[..bytes.len() * usize::from(split) / 256];
    if let Some(early) = outcome(part) {
        assert_eq!(Some(early), whole);
    }
    let Ok(Parsed::Complete { request, head_len }) = parse(bytes, &Limits::DEFAULT) else {
        return;
    };
    assert!(bytes[..head_len].ends_with(b"\r\n\r\n"));
    assert!(head_len <= Limits::HEAD_BYTES_MAX);
    assert!(request.version == Version::Http10 || request.host.is_some());
    let Ok(path) = &request.path else { return };
    assert!(path.is_whole_server() || path.as_str().starts_with('/') && !path.as_str().starts_with("//"));
    let same = laio_http::RequestPath::new(path.as_str());
    assert_eq!(same.as_ref(), Ok(path));
    for (name, value) in request.headers.iter() {
        assert!(!name.is_empty() && name.iter().all(u8::is_ascii_graphic));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
    let mut relative = Vec::new();
    if let Ok(normal) = path.file_name(&mut relative) {
        assert!(!relative.contains(&0) && !relative.starts_with(b"/"));
        assert!(relative.is_empty() || relative.split(|&byte| byte == b'/').all(is_name));
        let mut again = Vec::new();
        path::encode(&relative, normal.trailing_slash, request.query, &mut again);
        let again = String::from_utf8(again).expect("ASCII");
        let back = again.split('?').next().expect("a path");
        let mut relative_again = Vec::new();
        path::normalize(back, &mut relative_again).expect("what was encoded can be decoded");
        assert_eq!(relative, relative_again);
    }
    let record = log::LogRecord::from_request(&request, &laio_http::HttpDate::EPOCH);
    for format in [log::LogFormat::Common, log::LogFormat::Combined, log::LogFormat::Json] {
        let mut line = Vec::new();
        log::write_line(format, &record, &mut line);
        let end = line.iter().position(|byte| byte.is_ascii_control());
        assert_eq!(end, Some(line.len() - 1));
    }
});

fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
}

/// Returns `None` while more bytes are needed.
fn outcome(bytes: &[u8]) -> Option<Result<(String, usize), Rejection>> {
    match parse(bytes, &Limits::DEFAULT) {
        Ok(Parsed::Partial) => None,
        Ok(Parsed::Complete { request, head_len }) => Some(Ok((format!("{request:?}"), head_len))),
        Err(rejection) => Some(Err(rejection)),
    }
}
