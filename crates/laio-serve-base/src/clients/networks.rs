//! Sets of networks, each with a value.

use crate::options::Network;
use crate::options::network::{as_ipv6, mask};
use std::collections::HashMap;
use std::net::IpAddr;

/// The values of networks. That of the network with the longest prefix holds for an address.
#[derive(Debug)]
pub struct Networks<T> {
    /// Networks by the length of their prefixes, the longest first.
    lengths: Vec<(u8, HashMap<u128, T>)>,
    unix: Option<T>,
}

impl<T: Copy> Networks<T> {
    /// Of two values for the same network the last one holds.
    pub fn new(networks: impl IntoIterator<Item = (Network, T)>) -> Networks<T> {
        let (mut lengths, mut unix) = (HashMap::<u8, HashMap<u128, T>>::new(), None);
        for (network, value) in networks {
            if matches!(network, Network::All | Network::Unix) {
                unix = Some(value);
            }
            let everywhere = (network == Network::All).then_some((0, 0));
            if let Some((bits, length)) = network.bits().or(everywhere) {
                lengths.entry(length).or_default().insert(bits, value);
            }
        }
        let mut lengths: Vec<_> = lengths.into_iter().collect();
        lengths.sort_by_key(|&(length, _)| std::cmp::Reverse(length));
        Networks { lengths, unix }
    }

    /// Returns the value for an address, or for Unix sockets if there is none.
    pub fn of(&self, address: Option<IpAddr>) -> Option<T> {
        let Some(address) = address else {
            return self.unix;
        };
        let bits = as_ipv6(address).to_bits();
        let mut found = self.lengths.iter();
        found.find_map(|(length, networks)| networks.get(&(bits & mask(*length))).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_holds() {
        let networks = [
            ("0.0.0.0/0", 0),
            ("10.0.0.0/8", 8),
            ("10.1.0.0/16", 16),
            ("10.1.2.3", 32),
            ("2001:db8::/32", 132),
            ("unix", 1),
        ];
        let networks = networks.map(|(text, value)| (text.parse().unwrap(), value));
        let networks = Networks::new(networks);
        for (address, value) in [
            ("10.1.2.3", Some(32)),
            ("::ffff:10.1.2.3", Some(32)),
            ("10.1.2.4", Some(16)),
            ("10.2.0.0", Some(8)),
            ("9.9.9.9", Some(0)),
            ("2001:db8:1::", Some(132)),
            ("2001:db9::", None),
        ] {
            assert_eq!(
                networks.of(Some(address.parse().unwrap())),
                value,
                "{address}"
            );
        }
        assert_eq!(networks.of(None), Some(1));
        let all = Networks::new([("::/0".parse().unwrap(), ())]);
        assert_eq!(all.of(Some("1.2.3.4".parse().unwrap())), Some(()));
        assert_eq!(all.of(None), None);
        let all = Networks::new([(Network::All, 0), ("10.0.0.0/8".parse().unwrap(), 1)]);
        for (address, value) in [("10.1.2.3", 1), ("1.2.3.4", 0), ("2001:db8::1", 0)] {
            assert_eq!(
                all.of(Some(address.parse().unwrap())),
                Some(value),
                "{address}"
            );
        }
        assert_eq!(all.of(None), Some(0));
    }
}
