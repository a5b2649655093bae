//! The length of a message, and whether the connection stays open afterwards (RFC 9112, sections 6
//! and 9.3).

use crate::text::list_members;
use crate::{Rejection, Version};

/// How the body of a request is delimited (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// A number of bytes; never zero.
    Length(u64),
    /// Chunks, which must be parsed to find the end.
    Chunked,
}

impl Framing {
    /// Whether there is nothing to read after the head.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Framing::None)
    }
}

/// Collects the framing fields one at a time, and evaluates them at the end.
///
/// Refuses everything that two recipients could interpret differently, because request smuggling
/// relies on it: both `Content-Length` and `Transfer-Encoding`, a repeated `Content-Length` even
/// with equal values (section 6.3 leaves the choice), `Transfer-Encoding` in HTTP/1.0 (section
/// 6.1), and any coding except a single `chunked`. If `chunked` is not the last coding, the end of
/// the body is undefined, and the status is 400 whatever the other codings are (section 6.3, rule
/// 4). If it is the last one, the other codings are not supported, and the status is 501 (section
/// 6.1).
#[derive(Debug, Default)]
pub(crate) struct FramingFields {
    length: Option<u64>,
    has_encoding: bool,
    /// `chunked` was named at least once.
    chunked: bool,
    /// `chunked` was named more than once.
    chunked_again: bool,
    /// The last coding so far is `chunked`.
    ends_chunked: bool,
    /// Another coding was named.
    unknown: bool,
}

impl FramingFields {
    /// Adds the value of a `Content-Length` field.
    pub(crate) fn content_length(&mut self, value: &[u8]) -> Result<(), Rejection> {
        if self.length.is_some() {
            return Err(Rejection::ContentLengthRepeated);
        }
        self.length = Some(decimal(value).ok_or(Rejection::ContentLength)?);
        Ok(())
    }

    /// Adds the value of a `Transfer-Encoding` field.
    pub(crate) fn transfer_encoding(&mut self, value: &[u8]) {
        self.has_encoding = true;
        for coding in list_members(value) {
            self.ends_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.chunked_again |= self.ends_chunked && self.chunked;
            self.chunked |= self.ends_chunked;
            self.unknown |= !self.ends_chunked;
        }
    }

    /// Returns the framing of a response that may have a body, or none if the body ends with the
    /// connection (section 6.3, rule 8).
    pub(crate) fn judge_response(self, version: Version) -> Result<Option<Framing>, Rejection> {
        let delimited = self.has_encoding || self.length.is_some();
        let framing = self.judge(version)?;
        Ok(delimited.then_some(framing))
    }

    /// Returns the framing, once all fields were added.
    pub(crate) fn judge(self, version: Version) -> Result<Framing, Rejection> {
        match self {
            FramingFields {
                has_encoding: true,
                length: Some(_),
                ..
            } => Err(Rejection::LengthAndEncoding),
            FramingFields {
                has_encoding: true, ..
            } if version == Version::Http10 => Err(Rejection::EncodingInHttp10),
            FramingFields {
                has_encoding: true,
                ends_chunked: false,
                ..
            }
            | FramingFields {
                chunked_again: true,
                ..
            } => Err(Rejection::TransferEncoding),
            FramingFields { unknown: true, .. } => Err(Rejection::TransferEncodingUnknown),
            FramingFields {
                has_encoding: true, ..
            } => Ok(Framing::Chunked),
            FramingFields {
                length: None | Some(0),
                ..
            } => Ok(Framing::None),
            FramingFields {
                length: Some(length),
                ..
            } => Ok(Framing::Length(length)),
        }
    }
}

/// Collects the options of `Connection` fields and decides about persistence (section 9.3).
#[derive(Debug, Default)]
pub(crate) struct ConnectionFields {
    close: bool,
    keep_alive: bool,
}

impl ConnectionFields {
    /// Adds the value of a `Connection` field.
    pub(crate) fn connection(&mut self, value: &[u8]) {
        for option in list_members(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Whether the connection stays open: `close` always wins; HTTP/1.1 stays open by default,
    /// HTTP/1.0 only when asked to.
    pub(crate) fn keep_alive(&self, version: Version) -> bool {
        !self.close && (version == Version::Http11 || self.keep_alive)
    }
}

/// Parses a decimal number that fits and has no other characters.
pub(crate) fn decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(
        version: Version,
        lengths: &[&str],
        encodings: &[&str],
    ) -> Result<Framing, Rejection> {
        let mut fields = FramingFields::default();
        for value in lengths {
            fields.content_length(value.as_bytes())?;
        }
        for value in encodings {
            fields.transfer_encoding(value.as_bytes());
        }
        fields.judge(version)
    }

    #[test]
    fn lengths() {
        let length = |values: &[&str]| framing(Version::Http11, values, &[]);
        assert_eq!(length(&[]), Ok(Framing::None));
        assert_eq!(length(&["0"]), Ok(Framing::None));
        assert_eq!(length(&["007"]), Ok(Framing::Length(7)));
        assert_eq!(
            length(&["18446744073709551615"]),
            Ok(Framing::Length(u64::MAX))
        );
        for bad in [
            "",
            "+5",
            "-5",
            "5 5",
            "5, 5",
            "0x5",
            "5a",
            "18446744073709551616",
        ] {
            assert_eq!(length(&[bad]), Err(Rejection::ContentLength), "{bad}");
        }
        assert_eq!(length(&["5", "5"]), Err(Rejection::ContentLengthRepeated));
        assert_eq!(length(&["5", "6"]), Err(Rejection::ContentLengthRepeated));
    }

    #[test]
    fn encodings() {
        let encoding = |values: &[&str]| framing(Version::Http11, &[], values);
        assert_eq!(encoding(&["chunked"]), Ok(Framing::Chunked));
        assert_eq!(encoding(&[", Chunked ,"]), Ok(Framing::Chunked));
        assert_eq!(encoding(&[""]), Err(Rejection::TransferEncoding));
        assert_eq!(
            encoding(&["chunked, chunked"]),
            Err(Rejection::TransferEncoding)
        );
        assert_eq!(
            encoding(&["chunked", "chunked"]),
            Err(Rejection::TransferEncoding)
        );
        for endless in [
            "gzip",
            "identity",
            "chunked, gzip",
            "xchunked",
            "chunked;a",
            "chunked, gzip, chunked",
        ] {
            assert_eq!(
                encoding(&[endless]),
                Err(Rejection::TransferEncoding),
                "{endless}"
            );
        }
        for codings in [&["gzip, chunked"][..], &["gzip", "chunked"]] {
            assert_eq!(encoding(codings), Err(Rejection::TransferEncodingUnknown));
        }
        assert_eq!(
            encoding(&["chunked", "gzip"]),
            Err(Rejection::TransferEncoding)
        );
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        let both = framing(Version::Http11, &["5"], &["chunked"]);
        assert_eq!(both, Err(Rejection::LengthAndEncoding));
        let old = framing(Version::Http10, &[], &["chunked"]);
        assert_eq!(old, Err(Rejection::EncodingInHttp10));
    }

    #[test]
    fn persistence() {
        let keep_alive = |version, values: &[&str]| {
            let mut fields = ConnectionFields::default();
            values
                .iter()
                .for_each(|value| fields.connection(value.as_bytes()));
            fields.keep_alive(version)
        };
        assert!(keep_alive(Version::Http11, &[]));
        assert!(keep_alive(Version::Http11, &["upgrade"]));
        assert!(!keep_alive(Version::Http11, &["Close"]));
        assert!(!keep_alive(Version::Http11, &["keep-alive, close"]));
        assert!(!keep_alive(Version::Http11, &["TE", "x , close"]));
        assert!(!keep_alive(Version::Http10, &[]));
        assert!(keep_alive(Version::Http10, &["Keep-Alive"]));
        assert!(!keep_alive(Version::Http10, &["keep-alive", "close"]));
        assert!(!keep_alive(Version::Http10, &["keep-alives"]));
    }
}
