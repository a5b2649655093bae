//! Several ranges in one response (RFC 9110, section 14.6).

use crate::{ByteRange, ContentType, RangeSet};

/// A `multipart/byteranges` body: a head before each range, and an end after the last.
///
/// ```
/// use laio_http::{ContentType, Multipart, Ranges};
///
/// let Ranges::Multiple(ranges) = Ranges::parse(b"bytes=0-1,5-6", 10) else { panic!() };
/// let parts = Multipart::new(ranges, 10, ContentType::TEXT, 0xfeed);
/// let mut body = Vec::new();
/// for (number, range) in parts.ranges().iter().enumerate() {
///     parts.push_head(number, &mut body);
///     body.extend_from_slice(&b"0123456789"[range.start as usize..range.end as usize]);
/// }
/// parts.push_end(&mut body);
/// assert_eq!(parts.content_length(), body.len() as u64);
/// assert!(body.starts_with(b"--000000000000feed\r\nContent-Type: text/plain; charset=utf-8\r\n\
///     Content-Range: bytes 0-1/10\r\n\r\n01\r\n--000000000000feed\r\n"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multipart {
    ranges: RangeSet,
    size: u64,
    content_type: ContentType,
    boundary: [u8; Multipart::BOUNDARY_LEN],
}

impl Multipart {
    const BOUNDARY_LEN: usize = 16;

    /// Returns the body for ranges of a representation of `size` bytes. `random` must be
    /// unpredictable, because the file must not contain the boundary.
    #[must_use]
    pub fn new(ranges: RangeSet, size: u64, content_type: ContentType, random: u64) -> Self {
        let mut boundary = [0; Self::BOUNDARY_LEN];
        for (place, digit) in boundary.iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(random >> (4 * place)) as usize & 15];
        }
        Multipart {
            ranges,
            size,
            content_type,
            boundary,
        }
    }

    /// Returns the ranges, in the order they are sent.
    #[must_use]
    pub fn ranges(&self) -> &[ByteRange] {
        self.ranges.as_slice()
    }

    /// Appends the value of `Content-Type` of the response.
    pub fn push_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
    }

    /// Returns the length of the whole body.
    #[must_use]
    pub fn content_length(&self) -> u64 {
        let mut framing = Vec::new();
        (0..self.ranges().len()).for_each(|number| self.push_head(number, &mut framing));
        self.push_end(&mut framing);
        let content: u64 = self.ranges().iter().map(ByteRange::len).sum();
        content + framing.len() as u64
    }

    /// Appends the head of a range.
    ///
    /// # Panics
    /// If there are fewer ranges.
    pub fn push_head(&self, number: usize, out: &mut Vec<u8>) {
        if number > 0 {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(self.content_type.essence.as_bytes());
        out.extend_from_slice(self.content_type.parameter().as_bytes());
        out.extend_from_slice(b"\r\nContent-Range: ");
        self.ranges()[number].push_content_range(self.size, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends the end of the body.
    pub fn push_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        out.extend_from_slice(&self.boundary);
        out.extend_from_slice(b"--\r\n");
    }
}
