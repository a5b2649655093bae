//! Content codings: choosing the form of a file that a client accepts (RFC 9110, section 12.5.3).

use crate::Headers;
use crate::text::list_members;
use std::str::FromStr;

/// A content coding in which a file may be available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// No coding.
    Identity,
    /// gzip
    Gzip,
    /// Brotli
    Brotli,
    /// Zstandard
    Zstd,
}

impl FromStr for Coding {
    type Err = &'static str;

    /// Parses a coding other than none, by its suffix or its name.
    fn from_str(name: &str) -> Result<Coding, Self::Err> {
        match name {
            "br" => Ok(Coding::Brotli),
            "zst" | "zstd" => Ok(Coding::Zstd),
            "gz" | "gzip" => Ok(Coding::Gzip),
            _ => Err("the codings are br, zst and gz"),
        }
    }
}

impl Coding {
    /// Returns the best form to send: of `available`, in the server's order of preference, the
    /// first that the client rates highest. Returns [`Coding::Identity`] when the client accepts
    /// none of them or does not say.
    ///
    /// `identity` is always available; a client gets it if it rates it above the codings, and also
    /// if it forbids everything, which section 12.5.3 allows instead of 406.
    ///
    /// With more than one form available, every response needs `Vary: Accept-Encoding`.
    #[must_use]
    pub fn negotiate(headers: &Headers<'_>, available: &[Coding]) -> Coding {
        let mut best = (
            Coding::Identity,
            weight(headers, Coding::Identity).unwrap_or(0),
        );
        for &coding in available {
            // Keep the first of equals; but any coding that the client accepts is better than none.
            let weight = weight(headers, coding).unwrap_or(0);
            let wins = weight > best.1 || (weight == best.1 && best.0 == Coding::Identity);
            if weight > 0 && wins {
                best = (coding, weight);
            }
        }
        best.0
    }

    /// Returns the name in `Content-Encoding`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// Returns the suffix of files in this coding.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Coding::Identity => "",
            Coding::Gzip => ".gz",
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes())
            || (self == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// Returns the weight, in thousandths, that the client gives to a coding: by its name, or else by
/// `*`. A coding that is not mentioned has none; `identity` has the lowest.
fn weight(headers: &Headers<'_>, coding: Coding) -> Option<u16> {
    let mut by_star = None;
    for member in headers.all("Accept-Encoding").flat_map(list_members) {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next()?;
        let weight = quality(parts);
        if coding.is_named(name) {
            return Some(weight);
        }
        if name == b"*" {
            by_star = Some(weight);
        }
    }
    let unmentioned = (coding == Coding::Identity).then_some(1);
    by_star.or(unmentioned)
}

/// Returns the weight among the parameters of a member, in thousandths: 1000 if there is none, 0 if
/// it is malformed.
pub(crate) fn quality<'b>(mut parameters: impl Iterator<Item = &'b [u8]>) -> u16 {
    let weight = parameters.find_map(|part| {
        let (key, value) = part.split_at_checked(2)?;
        key.eq_ignore_ascii_case(b"q=").then(|| thousandths(value))
    });
    weight.unwrap_or(Some(1000)).unwrap_or(0)
}

/// Parses a `qvalue` (section 12.4.2): `0` or `1` with up to three decimals.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut number = match whole {
        b'0' => 0,
        b'1' => 1,
        _ => return None,
    };
    for place in 0..3 {
        let digit = *decimals.get(place).unwrap_or(&b'0');
        number = number * 10 + u16::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (number <= 1000).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Parsed, parse};

    fn negotiate(fields: &[&str]) -> Coding {
        let fields: String = fields
            .iter()
            .map(|v| format!("Accept-Encoding: {v}\r\n"))
            .collect();
        let head = format!("GET / HTTP/1.0\r\n{fields}\r\n");
        let available = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
        match parse(head.as_bytes(), &Limits::DEFAULT) {
            Ok(Parsed::Complete { request, .. }) => Coding::negotiate(&request.headers, &available),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_server_decides_between_equals() {
        assert_eq!(negotiate(&["gzip, deflate, br, zstd"]), Coding::Brotli);
        assert_eq!(negotiate(&["gzip", "zstd"]), Coding::Zstd);
        assert_eq!(negotiate(&["X-GZIP"]), Coding::Gzip);
        assert_eq!(negotiate(&["*"]), Coding::Brotli);
        assert_eq!(negotiate(&["gzip;q=0.001"]), Coding::Gzip);
    }

    #[test]
    fn the_client_decides_by_weight() {
        assert_eq!(negotiate(&["br;q=0.5, gzip;q=0.8"]), Coding::Gzip);
        assert_eq!(negotiate(&["br;q=0, *;q=0.1"]), Coding::Zstd);
        assert_eq!(negotiate(&["gzip;q=0.5, identity"]), Coding::Identity);
        assert_eq!(negotiate(&["gzip; Q=1.000 , br ; q=0.999"]), Coding::Gzip);
    }

    #[test]
    fn otherwise_there_is_no_coding() {
        for value in [
            "",
            "deflate",
            "gzip;q=0",
            "identity",
            "gzip;q=0.0000",
            "gzip;q=2",
            "gzipped",
        ] {
            assert_eq!(negotiate(&[value]), Coding::Identity, "{value}");
        }
        assert_eq!(negotiate(&[]), Coding::Identity);
        assert_eq!(negotiate(&["*;q=0"]), Coding::Identity);
        assert_eq!(negotiate(&["identity;q=0"]), Coding::Identity);
    }

    #[test]
    fn weights() {
        for (text, expected) in [
            ("1", 1000),
            ("0", 0),
            ("0.", 0),
            ("0.5", 500),
            ("0.25", 250),
            ("0.125", 125),
        ] {
            assert_eq!(thousandths(text.as_bytes()), Some(expected), "{text}");
        }
        for text in ["", "2", "1.001", "0.1234", ".5", "0,5", "-1", "0.x"] {
            assert_eq!(thousandths(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn names_and_suffixes() {
        assert_eq!(
            (Coding::Brotli.name(), Coding::Brotli.suffix()),
            ("br", ".br")
        );
        assert_eq!(
            (Coding::Zstd.name(), Coding::Zstd.suffix()),
            ("zstd", ".zst")
        );
        assert_eq!(
            (Coding::Identity.name(), Coding::Identity.suffix()),
            ("identity", "")
        );
    }
}
