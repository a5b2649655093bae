//! Text helpers used by several modules. None of them allocates by itself.

/// Appends `number` in decimal.
pub(crate) fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    const DIGITS_MAX: usize = 20; // of u64::MAX
    let mut digits = [0; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Returns the members of a comma-separated list: trimmed, without empty ones (RFC 9110, section
/// 5.6.1).
///
/// Only for lists whose members cannot contain a comma in quotes.
pub(crate) fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// Appends `text` escaped for HTML elements and quoted attributes.
///
/// Invalid UTF-8 and control characters become U+FFFD.
pub fn push_html_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '<' => out.extend_from_slice(b"&lt;"),
                '>' => out.extend_from_slice(b"&gt;"),
                '&' => out.extend_from_slice(b"&amp;"),
                '"' => out.extend_from_slice(b"&quot;"),
                '\'' => out.extend_from_slice(b"&#39;"),
                c if c.is_control() => push_char(out, char::REPLACEMENT_CHARACTER),
                c => push_char(out, c),
            }
        }
        if !chunk.invalid().is_empty() {
            push_char(out, char::REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends one character as UTF-8.
pub(crate) fn push_char(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        for number in [0, 7, 10, 99, 100, 65_535, u64::MAX - 1, u64::MAX] {
            let mut out = b"n=".to_vec();
            push_decimal(&mut out, number);
            assert_eq!(out, format!("n={number}").into_bytes());
        }
    }

    #[test]
    fn lists_skip_empty_members() {
        let members: Vec<_> = list_members(b" a,, b\t,\t,c ,").collect();
        assert_eq!(members, [b"a", b"b", b"c"]);
        assert_eq!(list_members(b"").count(), 0);
        assert_eq!(list_members(b" , ,").count(), 0);
    }

    #[test]
    fn html_is_escaped() {
        let mut out = Vec::new();
        push_html_escaped(&mut out, "<a href=\"x\">'&é'\n".as_bytes());
        push_html_escaped(&mut out, b"\xff\0");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;é&#39;\u{fffd}\u{fffd}\u{fffd}"
        );
    }
}
