//! The header with which a proxy begins a connection, to name its client (the PROXY protocol,
//! `doc/proxy-protocol.txt` of HAProxy, sections 2.1 and 2.2). Both versions are read.
//!
//! ```
//! use laio_http::proxy_protocol::{Parsed, parse};
//!
//! let bytes = b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\nGET / HTTP/1.1\r\n";
//! let Parsed::Complete { source, length } = parse(bytes)? else { panic!("it is complete") };
//! assert_eq!(source, Some("192.0.2.7:56324".parse().unwrap()));
//! assert!(bytes[length..].starts_with(b"GET "));
//! assert_eq!(parse(b"PROXY TC"), Ok(Parsed::Partial));
//! # Ok::<(), laio_http::proxy_protocol::BadHeader>(())
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum bytes of a header of version 1, with its line end.
pub const V1_MAX: usize = 107;
/// Maximum bytes of a header of version 2, with what follows the addresses.
pub const V2_MAX: usize = 536;

/// The first bytes of a header of version 1.
const NAME: &[u8] = b"PROXY ";
/// The first bytes of a header of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses of version 2: the signature, the version and the command, the family, the length.
const V2_HEAD: usize = 16;

/// The beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The header may be valid, and more bytes are needed.
    Partial,
    /// The whole header was received.
    Complete {
        /// The client; none if the connection is the proxy's own, or the client has no internet address.
        source: Option<SocketAddr>,
        /// Bytes of the header. What follows is the client's.
        length: usize,
    },
}

/// Why a connection does not begin with a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// It begins with something else.
    Missing,
    /// The header is longer than [`V1_MAX`] or [`V2_MAX`].
    TooLong,
    /// The line of version 1 is malformed.
    Line,
    /// The version or the command of version 2 is not known.
    Command,
    /// The addresses of version 2 are not of a known family, or incomplete.
    Addresses,
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadHeader::Missing => "it does not begin with a header of the PROXY protocol",
            BadHeader::TooLong => "the header of the PROXY protocol is too long",
            BadHeader::Line => "the line of the PROXY protocol, version 1, is malformed",
            BadHeader::Command => "the PROXY protocol has a version or command that is not known",
            BadHeader::Addresses => "the addresses of the PROXY protocol, version 2, are malformed",
        })
    }
}

impl std::error::Error for BadHeader {}

/// Parses the header at the beginning of a connection.
///
/// # Errors
/// [`BadHeader`], as soon as no further bytes can make the header valid.
pub fn parse(bytes: &[u8]) -> Result<Parsed, BadHeader> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, other)| byte == other);
    match bytes.first() {
        None => Ok(Parsed::Partial),
        Some(b'P') if begins(NAME) => first(bytes),
        Some(b'\r') if begins(SIGNATURE) => second(bytes),
        Some(_) => Err(BadHeader::Missing),
    }
}

/// Parses a header of version 1, a line.
fn first(bytes: &[u8]) -> Result<Parsed, BadHeader> {
    let start = &bytes[..bytes.len().min(V1_MAX)];
    let Some(end) = start.iter().position(|&byte| byte == b'\n') else {
        return if bytes.len() < V1_MAX {
            Ok(Parsed::Partial)
        } else {
            Err(BadHeader::TooLong)
        };
    };
    let line = start[..end].strip_suffix(b"\r").ok_or(BadHeader::Line)?;
    let line = line.strip_prefix(NAME).ok_or(BadHeader::Line)?;
    Ok(Parsed::Complete {
        source: source_of_line(line).ok_or(BadHeader::Line)?,
        length: end + 1,
    })
}

/// Returns the source that a line names, without `PROXY`.
fn source_of_line(line: &[u8]) -> Option<Option<SocketAddr>> {
    // Anything may follow the word.
    if line == b"UNKNOWN" || line.starts_with(b"UNKNOWN ") {
        return Some(None);
    }
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let parse: fn(&str) -> Option<IpAddr> = match words.next()? {
        "TCP4" => |text| Some(text.parse::<Ipv4Addr>().ok()?.into()),
        "TCP6" => |text| Some(text.parse::<Ipv6Addr>().ok()?.into()),
        _ => return None,
    };
    let (source, _) = (parse(words.next()?)?, parse(words.next()?)?);
    let (from, _) = (port(words.next()?)?, port(words.next()?)?);
    let is_end = words.next().is_none();
    is_end.then_some(Some(SocketAddr::new(source, from)))
}

/// Parses a port, which has no sign and no leading zeros.
fn port(text: &str) -> Option<u16> {
    let canonical = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| canonical)
}

/// Parses a header of version 2.
fn second(bytes: &[u8]) -> Result<Parsed, BadHeader> {
    let command = bytes.get(12).copied();
    if command.is_some_and(|command| !matches!(command, 0x20 | 0x21)) {
        return Err(BadHeader::Command);
    }
    let Some((head, rest)) = bytes.split_at_checked(V2_HEAD) else {
        return Ok(Parsed::Partial);
    };
    let is_local = command == Some(0x20);
    let rest_length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if V2_HEAD + rest_length > V2_MAX {
        return Err(BadHeader::TooLong);
    }
    // Both addresses, then both ports. The families with datagrams have the same form.
    let addresses = match head[13] {
        _ if is_local => 0,
        0x00 => 0,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        _ => return Err(BadHeader::Addresses),
    };
    if rest_length < addresses {
        return Err(BadHeader::Addresses);
    }
    // What follows the addresses (TLVs) is not used.
    let Some(rest) = rest.get(..rest_length) else {
        return Ok(Parsed::Partial);
    };
    let source = match (addresses, rest) {
        (12, &[a, b, c, d, _, _, _, _, high, low, ..]) => {
            let port = u16::from_be_bytes([high, low]);
            Some(SocketAddr::from(([a, b, c, d], port)))
        }
        (36, rest) => {
            let ip: Option<[u8; 16]> = rest.first_chunk().copied();
            let port = rest
                .get(32..34)
                .map(|port| u16::from_be_bytes([port[0], port[1]]));
            ip.zip(port).map(SocketAddr::from)
        }
        _ => None,
    };
    let length = V2_HEAD + rest_length;
    Ok(Parsed::Complete { source, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a header that others follow, in which every shorter beginning is incomplete.
    fn source(header: &[u8]) -> Option<String> {
        for end in 0..header.len() {
            assert_eq!(parse(&header[..end]), Ok(Parsed::Partial), "{end}");
        }
        for after in [&b""[..], b"GET", b"\r\n", b"PROXY "] {
            let Parsed::Complete { source, length } = parse(&[header, after].concat()).unwrap()
            else {
                panic!("{header:?} is incomplete");
            };
            assert_eq!(length, header.len());
            if after.is_empty() {
                continue;
            }
            return source.map(|source| source.to_string());
        }
        unreachable!()
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut out = SIGNATURE.to_vec();
        out.extend([command, family]);
        out.extend((rest.len() as u16).to_be_bytes());
        out.extend_from_slice(rest);
        out
    }

    #[test]
    fn lines() {
        let of = |line: &str| source(format!("PROXY {line}\r\n").as_bytes());
        for (line, expected) in [
            ("TCP4 192.0.2.7 10.0.0.1 56324 443", Some("192.0.2.7:56324")),
            (
                "TCP4 255.255.255.255 255.255.255.255 65535 65535",
                Some("255.255.255.255:65535"),
            ),
            ("TCP6 2001:db8::1 ::1 0 80", Some("[2001:db8::1]:0")),
            ("UNKNOWN", None),
            ("UNKNOWN ffff::1 ::1 65535 65535", None),
        ] {
            assert_eq!(of(line).as_deref(), expected, "{line}");
        }
        let longest = format!("UNKNOWN {}", "x".repeat(V1_MAX - NAME.len() - 10));
        assert_eq!(of(&longest), None);
    }

    #[test]
    fn malformed_lines() {
        for line in [
            "TCP4 192.0.2.7 10.0.0.1 56324",
            "TCP4 192.0.2.7 10.0.0.1 56324 443 ",
            "TCP4 192.0.2.7  10.0.0.1 56324 443",
            "TCP4 192.0.2.07 10.0.0.1 56324 443",
            "TCP4 192.0.2.7 ::1 56324 443",
            "TCP6 192.0.2.7 10.0.0.1 56324 443",
            "TCP4 192.0.2.7 10.0.0.1 +1 443",
            "TCP4 192.0.2.7 10.0.0.1 01 443",
            "TCP4 192.0.2.7 10.0.0.1 65536 443",
            "TCP5 192.0.2.7 10.0.0.1 1 443",
            "tcp4 192.0.2.7 10.0.0.1 1 443",
            "UNKNOWNS",
            "",
        ] {
            let bytes = format!("PROXY {line}\r\n");
            assert_eq!(parse(bytes.as_bytes()), Err(BadHeader::Line), "{line}");
        }
        assert_eq!(parse(b"PROXY UNKNOWN\n"), Err(BadHeader::Line));
        let long = [NAME, &[b'x'; V1_MAX]].concat();
        assert_eq!(parse(&long[..V1_MAX - 1]), Ok(Parsed::Partial));
        assert_eq!(parse(&long[..V1_MAX]), Err(BadHeader::TooLong));
        for other in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PRI * HTTP/2.0",
            b"\x16\x03\x01",
            b"\r\nGET",
            b"PROXYX",
        ] {
            assert_eq!(parse(other), Err(BadHeader::Missing));
        }
    }

    #[test]
    fn binary_headers() {
        let four = [192, 0, 2, 7, 10, 0, 0, 1, 1, 2, 1, 187];
        let six: Vec<u8> = [[1; 16], [2; 16]]
            .concat()
            .into_iter()
            .chain([0, 9, 0, 80])
            .collect();
        let with_tlv = [&four[..], &[4, 0, 3, 1, 2, 3]].concat();
        for (header, expected) in [
            (v2(0x21, 0x11, &four), Some("192.0.2.7:258")),
            (v2(0x21, 0x12, &with_tlv), Some("192.0.2.7:258")),
            (
                v2(0x21, 0x21, &six),
                Some("[101:101:101:101:101:101:101:101]:9"),
            ),
            (v2(0x21, 0x31, &[0; 216]), None),
            (v2(0x21, 0x00, b"abc"), None),
            (v2(0x20, 0x00, b""), None),
            (v2(0x20, 0x11, &four), None),
            (v2(0x20, 0xff, &[0; V2_MAX - V2_HEAD]), None),
        ] {
            assert_eq!(source(&header).as_deref(), expected, "{header:?}");
        }
        for (header, error) in [
            (v2(0x11, 0x11, &four), BadHeader::Command),
            (v2(0x22, 0x11, &four), BadHeader::Command),
            (v2(0x21, 0x11, &four[..11]), BadHeader::Addresses),
            (v2(0x21, 0x21, &four), BadHeader::Addresses),
            (v2(0x21, 0x41, &six), BadHeader::Addresses),
            (
                v2(0x21, 0x11, &[0; V2_MAX - V2_HEAD + 1]),
                BadHeader::TooLong,
            ),
        ] {
            assert_eq!(parse(&header), Err(error), "{header:?}");
        }
        assert_eq!(parse(b"\r\n\r\n\0\r\nQUIX"), Err(BadHeader::Missing));
    }
}
