//! Splits the lines of a scenario into words: as a shell does, with escapes for arbitrary bytes.

/// Splits at blanks. `'...'` keeps its contents; elsewhere `
/// `, `\t` and `\xNN` are bytes, and a backslash before any other character stands for that
/// character.
///
/// # Panics
///
/// If a quote is not closed or an escape is invalid: the scenario is wrong.
pub(crate) fn split(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' => words.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next() {
                        Some(b'\'') => break,
                        Some(byte) => word.push(byte),
                        None => panic!("a quote is not closed: {line}"),
                    }
                }
            }
            b'\\' => {
                let escaped = escape(&mut bytes).unwrap_or_else(|| panic!("an escape: {line}"));
                word.get_or_insert_default().push(escaped);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

fn escape(bytes: &mut impl Iterator<Item = u8>) -> Option<u8> {
    match bytes.next()? {
        b'n' => Some(b'\n'),
        b't' => Some(b'\t'),
        b'x' => {
            let digits = [bytes.next()?, bytes.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
        }
        other => Some(other),
    }
}
