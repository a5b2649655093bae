//! Byte ranges (RFC 9110, section 14).

use crate::text::{list_members, push_decimal};
use std::fmt;

/// The ranges that a `Range` field selects from a representation of known size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation per request"
)]
pub enum Ranges {
    /// No ranges: the field is invalid, has another unit, or lists too many ranges, and is ignored
    /// (section 14.2). The response is 200 with the whole representation.
    None,
    /// One range, after overlapping and adjacent ones were merged. The response is 206.
    Single(ByteRange),
    /// Several disjoint ranges, in the requested order. The response is 206 in multipart form, or, as
    /// section 14.2 allows, 200 with the whole representation.
    Multiple(RangeSet),
    /// No range overlaps the representation. The response is 416 with the size in `Content-Range`.
    Unsatisfiable,
}

impl Ranges {
    /// Maximum number of ranges in one field; a field with more is ignored (section 17.15).
    pub const COUNT_MAX: usize = 16;

    /// Parses the value of a `Range` field for a representation of `size` bytes.
    ///
    /// ```
    /// use laio_http::{ByteRange, Ranges};
    ///
    /// let range = |start, end| Ranges::Single(ByteRange { start, end });
    /// assert_eq!(Ranges::parse(b"bytes=0-99", 1000), range(0, 100));
    /// assert_eq!(Ranges::parse(b"bytes=900-", 1000), range(900, 1000));
    /// assert_eq!(Ranges::parse(b"bytes=-1", 1000), range(999, 1000));
    /// assert_eq!(Ranges::parse(b"bytes=1000-", 1000), Ranges::Unsatisfiable);
    /// assert_eq!(Ranges::parse(b"bytes=9-8", 1000), Ranges::None);
    /// ```
    ///
    /// An empty representation has no byte ranges. A satisfiable suffix range of it gets 200 with
    /// no bytes.
    #[must_use]
    pub fn parse(value: &[u8], size: u64) -> Ranges {
        Ranges::parse_within(value, size, &RangeLimits::STRICT)
    }

    /// Like [`Ranges::parse`], with other limits.
    ///
    /// ```
    /// use laio_http::{ByteRange, RangeLimits, Ranges};
    ///
    /// let near = RangeLimits { gap: 80, ..RangeLimits::STRICT };
    /// let joined = Ranges::Single(ByteRange { start: 0, end: 60 });
    /// assert_eq!(Ranges::parse_within(b"bytes=0-9,50-59", 1000, &near), joined);
    /// let one = RangeLimits { count: 1, ..RangeLimits::STRICT };
    /// assert_eq!(Ranges::parse_within(b"bytes=0-9,50-59", 1000, &one), Ranges::None);
    /// ```
    #[must_use]
    pub fn parse_within(value: &[u8], size: u64, limits: &RangeLimits) -> Ranges {
        let Some(specs) = after_unit(value) else {
            return Ranges::None;
        };
        let mut set = RangeSet::default();
        let mut empty_suffix = false;
        let mut count = 0;
        for spec in list_members(specs) {
            count += 1;
            let Some(spec) = Spec::parse(spec) else {
                return Ranges::None;
            };
            if count > limits.count.min(Ranges::COUNT_MAX) {
                return Ranges::None;
            }
            match spec.resolve(size) {
                Some(range) => set.insert(range, limits.gap),
                None => empty_suffix |= spec.is_satisfiable_suffix(),
            }
        }
        match *set.as_slice() {
            [] if count == 0 || empty_suffix => Ranges::None,
            [] => Ranges::Unsatisfiable,
            [range] => Ranges::Single(range),
            _ => Ranges::Multiple(set),
        }
    }
}

/// Limits on `Range` fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// Maximum number of ranges in a field; a field with more is ignored. At most
    /// [`Ranges::COUNT_MAX`].
    pub count: usize,
    /// Ranges are merged if at most this many bytes lie between them, because the head of another
    /// part would take more (section 15.3.7.2).
    pub gap: u64,
}

impl RangeLimits {
    /// Merge ranges only when they touch.
    pub const STRICT: RangeLimits = RangeLimits {
        count: Ranges::COUNT_MAX,
        gap: 0,
    };
}

/// A range of bytes: from `start` up to, not including, `end`. Never empty after parsing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// One after the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the range contains no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the value of `Content-Range`: `bytes 0-99/1000` (section 14.4).
    pub fn push_content_range(&self, size: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"bytes ");
        push_decimal(out, self.start);
        out.push(b'-');
        push_decimal(out, self.end.saturating_sub(1));
        out.push(b'/');
        push_decimal(out, size);
    }

    /// Appends the value of `Content-Range` of a 416: `bytes */1000`.
    pub fn push_unsatisfied(size: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"bytes */");
        push_decimal(out, size);
    }
}

impl fmt::Debug for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// Disjoint ranges that do not touch, in the order first requested.
#[derive(Clone, Copy, Default)]
pub struct RangeSet {
    ranges: [ByteRange; Ranges::COUNT_MAX],
    count: usize,
}

impl RangeSet {
    /// Returns the ranges.
    #[must_use]
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.ranges[..self.count]
    }

    /// Adds a range, merged with those that it overlaps or that are within `gap` bytes of it, in
    /// the position of the earliest of them. The caller adds at most [`Ranges::COUNT_MAX`].
    fn insert(&mut self, mut range: ByteRange, gap: u64) {
        let mut place = self.count;
        let mut kept = 0;
        for index in 0..self.count {
            let other = self.ranges[index];
            let near = |end: u64, start: u64| start <= end.saturating_add(gap);
            if near(range.end, other.start) && near(other.end, range.start) {
                range = ByteRange {
                    start: range.start.min(other.start),
                    end: range.end.max(other.end),
                };
                // The first merged range keeps its position; later ones are removed.
                if place == self.count {
                    place = kept;
                    kept += 1;
                }
            } else {
                self.ranges[kept] = other;
                kept += 1;
            }
        }
        if place == self.count {
            place = kept;
            kept += 1;
        }
        self.ranges[place] = range;
        self.count = kept;
    }
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for RangeSet {}

impl fmt::Debug for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// One requested range (section 14.1.2).
#[derive(Clone, Copy)]
enum Spec {
    /// `first-last` or `first-`.
    From { first: u64, last: u64 },
    /// `-length`.
    Suffix { length: u64 },
}

impl Spec {
    fn parse(spec: &[u8]) -> Option<Spec> {
        let dash = spec.iter().position(|&byte| byte == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            (b"", length) => Some(Spec::Suffix {
                length: saturating_decimal(length)?,
            }),
            (first, b"") => Some(Spec::From {
                first: saturating_decimal(first)?,
                last: u64::MAX,
            }),
            (first, last) => {
                let (first, last) = (saturating_decimal(first)?, saturating_decimal(last)?);
                (first <= last).then_some(Spec::From { first, last })
            }
        }
    }

    /// Returns the selected bytes of a representation of `size` bytes, or none if it has none of
    /// them.
    fn resolve(self, size: u64) -> Option<ByteRange> {
        let range = match self {
            Spec::From { first, last } => ByteRange {
                start: first,
                end: last.saturating_add(1).min(size),
            },
            Spec::Suffix { length } => ByteRange {
                start: size.saturating_sub(length),
                end: size,
            },
        };
        (!range.is_empty()).then_some(range)
    }

    fn is_satisfiable_suffix(self) -> bool {
        matches!(self, Spec::Suffix { length } if length > 0)
    }
}

/// Returns the text after `bytes=`; unit names are case-insensitive (section 14.1).
fn after_unit(value: &[u8]) -> Option<&[u8]> {
    let equals = value.iter().position(|&byte| byte == b'=')?;
    value[..equals]
        .eq_ignore_ascii_case(b"bytes")
        .then(|| &value[equals + 1..])
}

/// Parses a number of any length. One that does not fit becomes the largest, which is beyond every
/// file too.
fn saturating_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str, size: u64) -> Ranges {
        Ranges::parse(value.as_bytes(), size)
    }

    fn single(start: u64, end: u64) -> Ranges {
        Ranges::Single(ByteRange { start, end })
    }

    #[test]
    fn single_ranges() {
        for (value, start, end) in [
            ("bytes=0-0", 0, 1),
            ("bytes=0-99", 0, 100),
            ("bytes=0-1000", 0, 100),
            ("BYTES=5-9", 5, 10),
            ("bytes=99-", 99, 100),
            ("bytes=-1", 99, 100),
            ("bytes=-1000", 0, 100),
            ("bytes= 1-2 ", 1, 3),
            ("bytes=,1-2,,", 1, 3),
            ("bytes=007-0008", 7, 9),
            ("bytes=0-99999999999999999999999999", 0, 100),
            ("bytes=-99999999999999999999999999", 0, 100),
            ("bytes=0-18446744073709551615", 0, 100),
        ] {
            assert_eq!(parse(value, 100), single(start, end), "{value}");
        }
        assert_eq!(parse("bytes=0-", u64::MAX), single(0, u64::MAX));
    }

    #[test]
    fn invalid_fields_are_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes= , ",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=2-1",
            "bytes=0x1-2",
            "bytes=1-2-3",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes:0-1",
            "lines=0-1",
            "bytes =0-1",
            "bytes=0-1,x",
            "bytes=0-1;2-3",
        ] {
            assert_eq!(parse(value, 100), Ranges::None, "{value}");
        }
        let many = |count| format!("bytes={}", vec!["0-0"; count].join(","));
        assert_eq!(parse(&many(Ranges::COUNT_MAX), 100), single(0, 1));
        assert_eq!(parse(&many(Ranges::COUNT_MAX + 1), 100), Ranges::None);
    }

    #[test]
    fn unsatisfiable_ranges() {
        for value in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=-0,500-"] {
            assert_eq!(parse(value, 100), Ranges::Unsatisfiable, "{value}");
        }
        assert_eq!(
            parse("bytes=99999999999999999999-", 100),
            Ranges::Unsatisfiable
        );
        assert_eq!(parse("bytes=500-,1-1", 100), single(1, 2));
    }

    #[test]
    fn empty_representations() {
        assert_eq!(parse("bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(parse("bytes=-5", 0), Ranges::None);
        assert_eq!(parse("bytes=-0", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn ranges_are_joined_and_keep_their_order() {
        assert_eq!(parse("bytes=0-4,5-9", 100), single(0, 10));
        assert_eq!(parse("bytes=5-9,0-4", 100), single(0, 10));
        assert_eq!(parse("bytes=0-9,20-29,8-22", 100), single(0, 30));
        let Ranges::Multiple(set) = parse("bytes=50-59,0-9,-10,55-69,5-14", 100) else {
            panic!()
        };
        let range = |start, end| ByteRange { start, end };
        assert_eq!(
            set.as_slice(),
            [range(50, 70), range(0, 15), range(90, 100)]
        );
        assert_eq!(format!("{set:?}"), "[50..70, 0..15, 90..100]");
        let Ranges::Multiple(set) = parse("bytes=80-89,0-1,4-5,2-3", 100) else {
            panic!()
        };
        assert_eq!(set.as_slice(), [range(80, 90), range(0, 6)]);
    }

    #[test]
    fn near_ranges_are_merged_if_configured() {
        let near = |value: &str| {
            let limits = RangeLimits { count: 4, gap: 10 };
            Ranges::parse_within(value.as_bytes(), 1000, &limits)
        };
        assert_eq!(near("bytes=0-9,20-29"), single(0, 30));
        assert_eq!(near("bytes=20-29,0-9"), single(0, 30));
        assert!(matches!(near("bytes=0-9,21-29"), Ranges::Multiple(_)));
        // A range between two others merges all three.
        assert_eq!(near("bytes=0-9,25-29,15-17"), single(0, 30));
        assert_eq!(
            near("bytes=0-0,100-100,200-200,300-300,400-400"),
            Ranges::None
        );
    }

    #[test]
    fn content_ranges() {
        let mut out = Vec::new();
        ByteRange { start: 0, end: 100 }.push_content_range(1000, &mut out);
        out.push(b'\n');
        ByteRange::push_unsatisfied(1000, &mut out);
        assert_eq!(out, b"bytes 0-99/1000\nbytes */1000");
    }
}
