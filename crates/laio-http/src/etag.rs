//! Entity tags (RFC 9110, sections 8.8.3, 13.1.1 and 13.1.2).

use std::fmt;

/// The entity tag of a file, with its quotes, stored inline without allocation. Strong unless made
/// [weak](ETag::weak).
#[derive(Clone, Copy)]
pub struct ETag {
    /// Begins with `W/`, which is skipped for a strong tag.
    bytes: [u8; ETag::BYTES_MAX],
    len: u8,
    weak: bool,
}

impl ETag {
    /// The mark of a weak tag, two quotes, three numbers of 64 bits and one of 32 in hexadecimal, three
    /// separators.
    const BYTES_MAX: usize = ETag::WEAK.len() + 2 + 3 * 16 + 8 + 3;
    const WEAK: &[u8] = b"W/";
    /// Seconds after a change within which another change might not alter the modification time.
    const SETTLES: i64 = 2;

    /// Returns the tag of a file with these attributes.
    ///
    /// It changes when the file is replaced (inode), rewritten (modification time, to the resolution
    /// of the file system's clock) or resized. A file rewritten twice within one tick of that clock,
    /// in place and to the same size, would keep it.
    ///
    /// ```
    /// use laio_http::ETag;
    ///
    /// assert_eq!(ETag::of_file(0x2a, 0x1000, 0x64, 7).as_str(), "\"2a-1000-64.7\"");
    /// ```
    #[must_use]
    pub fn of_file(inode: u64, size: u64, mtime_sec: i64, mtime_nsec: u32) -> Self {
        let mut tag = ETag {
            bytes: [0; ETag::BYTES_MAX],
            len: 0,
            weak: false,
        };
        tag.push(Self::WEAK[0]);
        tag.push(Self::WEAK[1]);
        tag.push(b'"');
        tag.push_hex(inode);
        tag.push(b'-');
        tag.push_hex(size);
        tag.push(b'-');
        tag.push_hex(mtime_sec as u64); // before 1970 the two's complement, as good as any number
        tag.push(b'.');
        tag.push_hex(u64::from(mtime_nsec));
        tag.push(b'"');
        tag
    }

    /// Returns the tag as a weak one, for a form of the file whose bytes may vary (section 8.8.1).
    #[must_use]
    pub fn weak(mut self) -> Self {
        self.weak = true;
        self
    }

    /// Returns a weak tag if the file was modified so shortly before `now` that it may change again
    /// without a change of its tag. A tag from the future is weak too.
    ///
    /// ```
    /// use laio_http::ETag;
    ///
    /// let tag = ETag::of_file(1, 2, 100, 4);
    /// assert!(tag.settled(100, 101).is_weak());
    /// assert!(!tag.settled(100, 102).is_weak());
    /// ```
    #[must_use]
    pub fn settled(self, mtime_sec: i64, now: i64) -> Self {
        if now.saturating_sub(mtime_sec) < Self::SETTLES {
            self.weak()
        } else {
            self
        }
    }

    /// Whether the tag does not promise equal bytes.
    #[must_use]
    pub const fn is_weak(&self) -> bool {
        self.weak
    }

    /// Returns the tag with its quotes, as written in a field.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let start = if self.weak { 0 } else { Self::WEAK.len() };
        &self.bytes[start..usize::from(self.len)]
    }

    /// Returns the part that does not depend on weakness.
    fn quoted(&self) -> &[u8] {
        &self.bytes[Self::WEAK.len()..usize::from(self.len)]
    }

    /// Returns the tag as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default() // only ASCII is ever pushed
    }

    fn push(&mut self, byte: u8) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
    }

    fn push_hex(&mut self, number: u64) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            self.push(b"0123456789abcdef"[(number >> (4 * digit)) as usize & 15]);
        }
    }
}

impl PartialEq for ETag {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for ETag {}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ETag({self})")
    }
}

/// How two tags are compared (RFC 9110, section 8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Both strong and equal: for `If-Match` and `If-Range`.
    Strong,
    /// Equal, whether weak or not: for `If-None-Match`.
    Weak,
}

/// Whether a value of `If-Match` or `If-None-Match` matches the current tag of an existing
/// resource: it is `*`, or a list with the tag. A malformed list is read up to its first error.
///
/// ```
/// use laio_http::etag::{Comparison, ETag, list_matches};
///
/// let tag = ETag::of_file(1, 2, 3, 4);
/// assert!(list_matches(b"\"x\", W/\"1-2-3.4\"", Some(&tag), Comparison::Weak));
/// assert!(!list_matches(b"\"x\", W/\"1-2-3.4\"", Some(&tag), Comparison::Strong));
/// assert!(list_matches(b"*", None, Comparison::Strong));
/// ```
#[must_use]
pub fn list_matches(value: &[u8], current: Option<&ETag>, comparison: Comparison) -> bool {
    if value.trim_ascii() == b"*" {
        return true;
    }
    let Some(current) = current else { return false };
    Tags(value).any(|tag| tag.matches(current, comparison))
}

/// Whether `value` is one tag, and this tag by strong comparison.
pub(crate) fn is_strongly(value: &[u8], current: &ETag) -> bool {
    let mut tags = Tags(value);
    let matches = tags
        .next()
        .is_some_and(|tag| tag.matches(current, Comparison::Strong));
    matches && tags.0.is_empty()
}

/// A tag of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag<'b> {
    weak: bool,
    /// With the quotes.
    quoted: &'b [u8],
}

impl Tag<'_> {
    fn matches(&self, current: &ETag, comparison: Comparison) -> bool {
        let strong = !self.weak && !current.weak;
        (comparison == Comparison::Weak || strong) && self.quoted == current.quoted()
    }
}

/// Iterates over the tags of a list, up to its end or the first error. A tag may contain commas.
struct Tags<'b>(&'b [u8]);

impl<'b> Iterator for Tags<'b> {
    type Item = Tag<'b>;

    fn next(&mut self) -> Option<Tag<'b>> {
        let skipped = self
            .0
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b','))
            .count();
        let rest = &self.0[skipped..];
        let (weak, rest) = match rest.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let inside = rest.strip_prefix(b"\"")?;
        let end = inside.iter().position(|&byte| !is_tag_byte(byte))?;
        if inside[end] != b'"' {
            return None;
        }
        let (quoted, rest) = rest.split_at(end + 2);
        let rest = rest.trim_ascii_start();
        if !matches!(rest.first(), None | Some(b',')) {
            return None;
        }
        self.0 = rest;
        Some(Tag { weak, quoted })
    }
}

/// Whether the byte is an `etagc`: visible except the quote, or obs-text.
fn is_tag_byte(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'~' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_files() {
        assert_eq!(ETag::of_file(0, 0, 0, 0).to_string(), "\"0-0-0.0\"");
        let longest = ETag::of_file(u64::MAX, u64::MAX, -1, u32::MAX);
        assert_eq!(
            longest.as_str(),
            "\"ffffffffffffffff-ffffffffffffffff-ffffffffffffffff.ffffffff\""
        );
        assert_eq!(longest.weak().as_bytes().len(), ETag::BYTES_MAX);
    }

    #[test]
    fn a_weak_tag_does_not_promise_equal_bytes() {
        let strong = ETag::of_file(1, 2, 3, 4);
        let weak = strong.weak();
        assert_eq!(weak.as_str(), "W/\"1-2-3.4\"");
        assert!(weak.is_weak() && weak.weak() == weak && weak != strong);
        for value in [&b"\"1-2-3.4\""[..], b"W/\"1-2-3.4\""] {
            assert!(list_matches(value, Some(&weak), Comparison::Weak));
            assert!(!list_matches(value, Some(&weak), Comparison::Strong));
            assert!(!is_strongly(value, &weak));
        }
        let settled = |now| strong.settled(100, now).is_weak();
        assert!(settled(0) && settled(100) && settled(101) && !settled(102));
        assert!(!strong.settled(i64::MIN, i64::MAX).is_weak());
    }

    #[test]
    fn every_attribute_counts() {
        let tag = ETag::of_file(1, 2, 3, 4);
        assert_eq!(tag, ETag::of_file(1, 2, 3, 4));
        for other in [(9, 2, 3, 4), (1, 9, 3, 4), (1, 2, 9, 4), (1, 2, 3, 9)] {
            assert_ne!(tag, ETag::of_file(other.0, other.1, other.2, other.3));
        }
    }

    #[test]
    fn lists() {
        let tag = ETag::of_file(1, 2, 3, 4);
        let weak = |value: &str| list_matches(value.as_bytes(), Some(&tag), Comparison::Weak);
        let strong = |value: &str| list_matches(value.as_bytes(), Some(&tag), Comparison::Strong);
        for value in [
            "\"1-2-3.4\"",
            "\"a\",\"1-2-3.4\"",
            ",, \"a,b\" ,\t\"1-2-3.4\" ,",
            " * ",
            "\"\",\"1-2-3.4\"",
        ] {
            assert!(weak(value) && strong(value), "{value}");
        }
        for value in [
            "",
            "\"1-2-3\"",
            "1-2-3.4",
            "\"1-2-3.4",
            "\"x *\"",
            "'1-2-3.4'",
            "**",
            "\"*\"",
        ] {
            assert!(!weak(value) && !strong(value), "{value}");
        }
        for value in ["W/\"1-2-3.4\"", "\"a\", W/\"1-2-3.4\""] {
            assert!(weak(value) && !strong(value), "{value}");
        }
        // "W/" is case-sensitive, and a list is read up to its first error.
        for value in [
            "w/\"1-2-3.4\"",
            "W/ \"1-2-3.4\"",
            "a, \"1-2-3.4\"",
            "\"a\"b, \"1-2-3.4\"",
        ] {
            assert!(!weak(value), "{value}");
        }
        assert!(!list_matches(b"\"a\"", None, Comparison::Weak));
    }

    #[test]
    fn one_tag_alone() {
        let tag = ETag::of_file(1, 2, 3, 4);
        assert!(is_strongly(b"\"1-2-3.4\"", &tag));
        assert!(!is_strongly(b"\"1-2-3.4\", \"a\"", &tag));
        assert!(!is_strongly(b"W/\"1-2-3.4\"", &tag));
        assert!(!is_strongly(b"*", &tag));
    }
}
