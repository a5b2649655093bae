//! How other software may read a path. Servers and programs differ: some decode twice, take a
//! backslash for a slash, remove the text after a semicolon, fold capitals, or drop dots and spaces
//! at the end of a name.

use crate::Rejection;
use crate::path::byte_of;
use std::borrow::Cow;

/// How many times a path may be encoded.
const DEPTH: usize = 3;

/// Maximum number of readings that are compared.
const READINGS: usize = 64;

/// Refuses a canonical path in which some reader sees a dot segment.
pub(crate) fn refuse_hidden_dots(text: &str) -> Result<(), Rejection> {
    let mut level = Cow::Borrowed(text.as_bytes());
    for depth in 0..=DEPTH {
        let slashes = backslashes(&fold(&level)).into_owned();
        if slashes.split(|&byte| byte == b'/').any(is_dots) {
            return Err(Rejection::PathAmbiguous);
        }
        let Cow::Owned(decoded) = decode(&level, |_| true) else {
            return Ok(());
        };
        if decoded.contains(&0) {
            return Err(Rejection::PathNul);
        }
        let twice = |byte: u8| matches!(byte, b'.' | b'/' | b'\\');
        let separates = matches!(decode(&decoded, twice), Cow::Owned(_));
        if separates || depth == DEPTH || has_overlong(&decoded) {
            return Err(Rejection::PathAmbiguous);
        }
        level = decoded.into();
    }
    Ok(())
}

/// Whether every reader takes a canonical segment for one segment with a name.
pub(crate) fn is_ordinary(segment: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
    if !segment.is_empty() && segment.bytes().all(plain) {
        return true;
    }
    let mut level = Cow::Borrowed(segment.as_bytes());
    for _ in 0..DEPTH {
        level = decode(&level, |_| true).into_owned().into();
    }
    let folded = fold(&level);
    let name = sessions(&streams(&folded)).into_owned();
    !name.is_empty() && !folded.iter().any(|byte| b"/\\?#%".contains(byte))
}

/// Whether any reading of a path satisfies `fits`. `text` is encoded or not, and has no leading
/// slash. If there are more readings than are compared, the result is yes.
pub(crate) fn any(text: &[u8], mut fits: impl FnMut(&[u8]) -> bool) -> bool {
    if fits(text) {
        return true;
    }
    if has_one_reading(text) {
        return false;
    }
    let mut readings = vec![text.to_vec()];
    let mut place = 0;
    while let Some(reading) = readings.get(place).cloned() {
        for read in READERS {
            let Cow::Owned(other) = read(&reading) else {
                continue;
            };
            if readings.contains(&other) {
                continue;
            }
            if readings.len() == READINGS || fits(&other) {
                return true;
            }
            readings.push(other);
        }
        place += 1;
    }
    false
}

/// Small letters, digits and single slashes mean the same to all readers.
fn has_one_reading(text: &[u8]) -> bool {
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_~!$&'*,=@".contains(&byte)
    };
    text.split(|&byte| byte == b'/').all(|segment| {
        let last_dot = segment.last() == Some(&b'.');
        !segment.is_empty() && !last_dot && segment.iter().all(|&byte| plain(byte) || byte == b'.')
    })
}

type Reader = for<'t> fn(&'t [u8]) -> Cow<'t, [u8]>;

/// Each reader performs one transformation that some software performs; its result is passed to all
/// readers again.
const READERS: [Reader; 9] = [
    |text| decode(text, |_| true),
    |text| decode(text, |byte| !matches!(byte, b'/' | b'\\')),
    |text| backslashes(text),
    |text| sessions(text),
    |text| before_query(text),
    |text| streams(text),
    |text| fold(text),
    |text| merged(text),
    |text| pluses(text),
];

/// Decodes the escapes of the chosen bytes once. Returns an owned value if there were any.
fn decode(text: &[u8], chosen: impl Fn(u8) -> bool) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let (mut done, mut place) = (0, 0);
    while let Some(at) = text[place..].iter().position(|&byte| byte == b'%') {
        let at = place + at;
        place = at + 1;
        let digits = text.get(at + 1..at + 3);
        if let Some(byte) = digits.and_then(byte_of).filter(|&byte| chosen(byte)) {
            out.extend_from_slice(&text[done..at]);
            out.push(byte);
            place = at + 3;
            done = place;
        }
    }
    if done == 0 {
        return text.into();
    }
    out.extend_from_slice(&text[done..]);
    out.into()
}

/// Windows and browsers read a backslash as a slash.
fn backslashes(text: &[u8]) -> Cow<'_, [u8]> {
    replaced(text, b'\\', b'/')
}

/// Software that decodes paths like forms reads a plus as a space.
fn pluses(text: &[u8]) -> Cow<'_, [u8]> {
    replaced(text, b'+', b' ')
}

fn replaced(text: &[u8], from: u8, to: u8) -> Cow<'_, [u8]> {
    if !text.contains(&from) {
        return text.into();
    }
    let replace = |&byte: &u8| if byte == from { to } else { byte };
    text.iter().map(replace).collect::<Vec<_>>().into()
}

/// Servlets remove the text after a semicolon; ASP.NET removes a segment like `(S(…))`.
fn sessions(text: &[u8]) -> Cow<'_, [u8]> {
    by_segment(text, |segment| {
        if segment.starts_with(b"(") && segment.ends_with(b"))") {
            return &[];
        }
        cut(segment, b";")
    })
}

/// Windows removes the stream name after a colon, and dots and spaces at the end; others remove
/// leading spaces.
fn streams(text: &[u8]) -> Cow<'_, [u8]> {
    by_segment(text, |segment| {
        let name = cut(segment, b":").trim_ascii_start();
        let kept = name
            .iter()
            .rposition(|&byte| byte > b' ' && byte != b'.' && byte != 0x7f);
        &name[..kept.map_or(0, |last| last + 1)]
    })
}

/// Software that decodes a path and then parses it as an address finds a query or a fragment in it.
fn before_query(text: &[u8]) -> Cow<'_, [u8]> {
    let before = cut(text, b"?#");
    if before.len() == text.len() {
        text.into()
    } else {
        before.to_vec().into()
    }
}

/// Merges slashes, and removes them at the beginning and the end.
fn merged(text: &[u8]) -> Cow<'_, [u8]> {
    let empty = |segment: &&[u8]| !segment.is_empty();
    let segments: Vec<_> = text.split(|&byte| byte == b'/').filter(empty).collect();
    let joined = segments.join(&b'/');
    if joined.len() == text.len() {
        text.into()
    } else {
        joined.into()
    }
}

fn by_segment(text: &[u8], read: impl Fn(&[u8]) -> &[u8]) -> Cow<'_, [u8]> {
    let segments: Vec<_> = text.split(|&byte| byte == b'/').map(read).collect();
    let joined = segments.join(&b'/');
    if joined.len() == text.len() {
        text.into()
    } else {
        // readers only remove bytes
        joined.into()
    }
}

/// Returns the text before the first of these bytes.
fn cut<'t>(text: &'t [u8], ends: &[u8]) -> &'t [u8] {
    let end = text.iter().position(|byte| ends.contains(byte));
    &text[..end.unwrap_or(text.len())]
}

/// Folds what file systems and libraries fold: letters by case, wide forms of ASCII to plain ones;
/// removes control characters and characters without width. Bytes that are not UTF-8 stay.
pub(crate) fn fold(text: &[u8]) -> Cow<'_, [u8]> {
    let same = |byte: &u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() || *byte == b' ';
    if text.iter().all(same) {
        return text.into();
    }
    let mut out = String::new();
    let mut folded = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.clear();
        chunk.valid().chars().for_each(|c| push_folded(c, &mut out));
        folded.extend_from_slice(out.as_bytes());
        folded.extend_from_slice(chunk.invalid());
    }
    if folded == text {
        text.into()
    } else {
        folded.into()
    }
}

fn push_folded(c: char, out: &mut String) {
    let plain = match c {
        '\u{2024}' | '\u{fe52}' => '.',
        '\u{2025}' => return out.push_str(".."),
        '\u{2044}' | '\u{2215}' => '/',
        '\u{2216}' | '\u{fe68}' => '\\',
        '\u{a0}' | '\u{3000}' => ' ',
        '\u{ff01}'..='\u{ff5e}' => {
            let ascii = u32::from(c) - 0xff01 + u32::from('!');
            char::from_u32(ascii).unwrap_or(c)
        }
        c if c.is_control() || has_no_width(c) => return,
        c => c,
    };
    // To upper and back to lower case, so that letters with two lower case forms become one.
    let capitals = plain.to_uppercase();
    out.extend(capitals.flat_map(char::to_lowercase));
}

/// Whether case-folding file systems ignore the character (Default_Ignorable_Code_Point).
fn has_no_width(c: char) -> bool {
    matches!(
        u32::from(c),
        0xad | 0x34f
            | 0x61c
            | 0x115f..=0x1160
            | 0x17b4..=0x17b5
            | 0x180b..=0x180f
            | 0x200b..=0x200f
            | 0x202a..=0x202e
            | 0x2060..=0x206f
            | 0x3164
            | 0xfe00..=0xfe0f
            | 0xfeff
            | 0xffa0
            | 0xfff0..=0xfff8
            | 0x1_bca0..=0x1_bca3
            | 0x1_d173..=0x1_d17a
            | 0xe_0000..=0xe_0fff
    )
}

/// Whether some reader takes a folded segment for a dot segment: with a parameter, a query or a
/// stream after it, with spaces, or with more dots, which Windows drops at the end.
fn is_dots(segment: &[u8]) -> bool {
    let name = cut(segment, b";?#:");
    name.contains(&b'.') && name.iter().all(|byte| b". +".contains(byte))
}

/// Whether an ASCII character is encoded in more bytes than UTF-8 allows.
fn has_overlong(text: &[u8]) -> bool {
    let continues = |byte: u8| byte & 0xc0 == 0x80;
    text.windows(2).any(|pair| match pair[0] {
        0xc0 | 0xc1 => continues(pair[1]) || b"./\\".contains(&pair[1]),
        0xe0 => (0x80..0xa0).contains(&pair[1]),
        0xf0 => (0x80..0x90).contains(&pair[1]),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_a_path() {
        let reads = |text: &str, reading: &str| any(text.as_bytes(), |r| r == reading.as_bytes());
        for (text, reading) in [
            ("admin", "admin"),
            ("ADMIN", "admin"),
            ("%2561dmin", "admin"),
            ("a%252561", "aa"),
            ("admin;x=1/b", "admin/b"),
            ("admin%3Bx/b", "admin/b"),
            ("a;x%2Fb/c", "a/c"),
            ("a;x%2Fb/c", "a/b/c"),
            ("x/admin%2Fb", "x/admin/b"),
            ("100%25/a%2Fb", "100%/a%2Fb"),
            ("x%5Cadmin", "x/admin"),
            ("x//admin//", "x/admin"),
            ("admin%20/b.", "admin/b"),
            ("admin+/b", "admin/b"),
            ("%20admin/b", "admin/b"),
            ("a.php::$DATA", "a.php"),
            ("admin%3Fx/b", "admin"),
            ("admin%2523x/b", "admin"),
            ("(S(abc))/admin", "admin"),
            ("ad%C2%ADmin", "admin"),
            ("ad%0Amin", "admin"),
            ("\u{ff41}dmin", "admin"),
            ("\u{17f}ecret", "secret"),
            ("É/é", "é/é"),
            ("Admin%2F;x//B.%20", "admin/b"),
        ] {
            assert!(reads(text, reading), "{text} as {reading}");
        }
        for (text, reading) in [
            ("adminx", "admin"),
            ("admin-x", "admin"),
            ("x/admin", "admin"),
        ] {
            assert!(!reads(text, reading), "{text} as {reading}");
        }
    }

    #[test]
    fn too_many_readings_count_as_a_match() {
        let text = "A;b:c%2Fd+e%3Ff%25g\\h//i.";
        let mut count = 0;
        let fits = any(text.as_bytes(), |_| {
            count += 1;
            false
        });
        assert!(fits && count == READINGS, "{count}");
    }
}
