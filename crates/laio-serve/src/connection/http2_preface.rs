//! The client's connection preface of HTTP/2.

/// The part of the client's connection preface that forms a request line (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Whether a connection begins with the HTTP/2 preface.
pub(super) fn begins(input: &[u8]) -> bool {
    input.starts_with(PREFACE)
}

/// Whether a connection begins with a request line of three words whose target and version are
/// malformed. That is an invalid HTTP/2 preface (RFC 9113, section 3.4); its sender does not
/// understand an HTTP/1.1 answer.
pub(super) fn is_invalid(input: &[u8]) -> bool {
    let end = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let mut words = input[..end.unwrap_or(input.len())].split(|&byte| byte == b' ');
    let (Some(_), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let is_word = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_alphabetic);
    is_word(target) && is_word(version) && !b"HTTP".starts_with(version)
}
