//! Networks of client addresses: `192.0.2.0/24`, `2001:db8::/32`, `192.0.2.1`, `unix`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A set of client addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// All clients, those of Unix sockets too.
    All,
    /// Clients of Unix sockets.
    Unix,
    /// All addresses with the same leading bits.
    Inet {
        /// The first address of the network.
        address: IpAddr,
        /// The number of leading bits.
        length: u8,
    },
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        if text == "unix" {
            return Ok(Network::Unix);
        }
        let explain = || {
            format!(
                "{text} is not a network: write 192.0.2.0/24, 2001:db8::/32, an address or unix"
            )
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| explain())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().ok().filter(|length| *length <= bits),
            None => Some(bits),
        };
        let length = length.ok_or_else(explain)?;
        let network = Network::Inet { address, length };
        match network.bits() {
            Some((number, length)) if number & mask(length) != number => Err(format!(
                "{text} is not the first address of a network of {length} bits",
                length = length - (128 - bits),
            )),
            _ => Ok(network),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::All => f.write_str("all"),
            Network::Unix => f.write_str("unix"),
            Network::Inet { address, length } => write!(f, "{address}/{length}"),
        }
    }
}

impl Network {
    /// Returns the first address of an internet network and the length of its prefix, as those of IPv6.
    #[doc(hidden)]
    pub fn bits(self) -> Option<(u128, u8)> {
        match self {
            Network::All | Network::Unix => None,
            Network::Inet {
                address: IpAddr::V4(address),
                length,
            } => Some((address.to_ipv6_mapped().to_bits(), length + 96)),
            Network::Inet {
                address: IpAddr::V6(address),
                length,
            } => Some((address.to_bits(), length)),
        }
    }
}

/// Returns an address as one of IPv6; those of IPv4 are mapped.
pub(crate) fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Returns the number whose first `length` bits are set.
pub fn mask(length: u8) -> u128 {
    u128::MAX
        .checked_shl(u32::from(128 - length))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_survive_formatting_and_parsing() {
        for text in ["unix", "192.0.2.0/24", "0.0.0.0/0", "::/0", "2001:db8::/32"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        let single: Network = "::1".parse().unwrap();
        assert_eq!(single.to_string(), "::1/128");
    }

    #[test]
    fn nonsense_is_explained() {
        for (text, word) in [
            ("", "is not a network"),
            ("localhost", "is not a network"),
            // Only --allow and --deny know it: all proxies cannot be trusted.
            ("all", "is not a network"),
            ("192.0.2.0/33", "is not a network"),
            ("192.0.2.0/", "is not a network"),
            ("192.0.2.1/24", "of 24 bits"),
            ("2001:db8::1/64", "of 64 bits"),
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
