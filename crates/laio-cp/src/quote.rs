//! Quotes names in messages as GNU's tools do, so that a shell can read them.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Quotes a name. Unprintable bytes become `$'\ooo'`.
pub(crate) fn quote(name: impl AsRef<Path>) -> String {
    let bytes = name.as_ref().as_os_str().as_bytes();
    if bytes.iter().all(|byte| shown_plainly(*byte)) {
        return format!("'{}'", String::from_utf8_lossy(bytes));
    }
    let text = std::str::from_utf8(bytes).ok();
    let printable = text.is_some_and(|text| text.chars().all(|character| !character.is_control()));
    if printable && bytes.contains(&b'\'') && !bytes.iter().any(|byte| b"\"$`\\".contains(byte)) {
        return format!("\"{}\"", String::from_utf8_lossy(bytes));
    }
    piecewise(bytes)
}

fn shown_plainly(byte: u8) -> bool {
    (byte == b' ' || byte.is_ascii_graphic()) && byte != b'\''
}

/// `'plain'$'
/// ''plain'`, with `\'` for quotes.
fn piecewise(bytes: &[u8]) -> String {
    let mut quoted = String::from("'");
    let mut escaping = false;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\'' {
                plain(&mut quoted, &mut escaping);
                quoted.push_str("'\\''");
            } else if character.is_control() {
                escape(&mut quoted, &mut escaping);
                match character {
                    '\n' => quoted.push_str("\\n"),
                    '\t' => quoted.push_str("\\t"),
                    '\r' => quoted.push_str("\\r"),
                    '\u{7}' => quoted.push_str("\\a"),
                    '\u{8}' => quoted.push_str("\\b"),
                    '\u{b}' => quoted.push_str("\\v"),
                    '\u{c}' => quoted.push_str("\\f"),
                    _ => octal(&mut quoted, character.to_string().as_bytes()),
                }
            } else {
                plain(&mut quoted, &mut escaping);
                quoted.push(character);
            }
        }
        if !chunk.invalid().is_empty() {
            escape(&mut quoted, &mut escaping);
            octal(&mut quoted, chunk.invalid());
        }
    }
    quoted.push('\'');
    quoted
}

fn octal(quoted: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(quoted, "\\{byte:03o}");
    }
}

fn escape(quoted: &mut String, escaping: &mut bool) {
    if !std::mem::replace(escaping, true) {
        quoted.push_str("'$'");
    }
}

fn plain(quoted: &mut String, escaping: &mut bool) {
    if std::mem::replace(escaping, false) {
        quoted.push_str("''");
    }
}

/// Returns the name without quotes if a shell does not need them (`quotef`).
pub(crate) fn bare(name: &OsStr) -> String {
    let safe = |character: char| {
        if character.is_ascii() {
            character.is_ascii_alphanumeric() || "/._-+,@%:^".contains(character)
        } else {
            !character.is_control()
        }
    };
    match name.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(safe) => text.to_owned(),
        _ => quote(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_gnu_does() {
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), "\"it's\"");
        assert_eq!(quote("it's $1"), "'it'\\''s $1'");
        assert_eq!(quote("a\nb"), "'a'$'\\n''b'");
        assert_eq!(quote(OsStr::from_bytes(b"a\xff")), "'a'$'\\377'");
        assert_eq!(quote("ä"), "'ä'");
        assert_eq!(quote(""), "''");
        assert_eq!(bare(OsStr::new("a/b.c")), "a/b.c");
        assert_eq!(bare(OsStr::new("a b")), "'a b'");
        assert_eq!(bare(OsStr::new("ä")), "ä");
    }
}
