//! Limits on request heads.

/// Limits on a request head. The associated constants are the defaults; each field documents the
/// maximum that the parser supports.
///
/// ```
/// use laio_http::Limits;
///
/// let strict = Limits { head_bytes: 4096, ..Limits::DEFAULT };
/// assert_eq!(strict.target_bytes, Limits::TARGET_BYTES_MAX);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole head: empty lines before it, request line, fields, the empty line.
    /// More is 431. Values above 65 535 count as 65 535.
    pub head_bytes: usize,
    /// Bytes of the request target. More is 414 (RFC 9112, section 3, asks for at least 8000).
    pub target_bytes: usize,
    /// Number of header fields. More is 431. Values above [`Limits::HEADERS_MAX`] count as that.
    pub headers: usize,
}

impl Limits {
    /// Default limit of the whole head: 16 KiB.
    pub const HEAD_BYTES_MAX: usize = 16 * 1024;
    /// Default limit of the request target: 8 KiB.
    pub const TARGET_BYTES_MAX: usize = 8 * 1024;
    /// Default limit of the number of header fields; also the size of the parser's fixed array.
    pub const HEADERS_MAX: usize = 100;
    /// Bytes of a method name. More is 501, because no known method is longer (RFC 9112, section
    /// 3).
    pub const METHOD_BYTES_MAX: usize = 32;

    /// The defaults.
    pub const DEFAULT: Limits = Limits {
        head_bytes: Limits::HEAD_BYTES_MAX,
        target_bytes: Limits::TARGET_BYTES_MAX,
        headers: Limits::HEADERS_MAX,
    };

    /// Returns the head limit in force: positions in a head have 16 bits.
    pub(crate) fn head_bytes_in_force(&self) -> usize {
        self.head_bytes.min(u16::MAX as usize)
    }

    /// Returns the field limit in force.
    pub(crate) fn headers_in_force(&self) -> usize {
        self.headers.min(Limits::HEADERS_MAX)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_capped_by_the_parser() {
        let limits = Limits {
            head_bytes: usize::MAX,
            headers: usize::MAX,
            ..Limits::DEFAULT
        };
        assert_eq!(limits.head_bytes_in_force(), 65_535);
        assert_eq!(limits.headers_in_force(), 100);
        assert_eq!(Limits::default(), Limits::DEFAULT);
    }
}
