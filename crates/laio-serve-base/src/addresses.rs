//! Limits on connections per client address, over all workers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// The number of connections of each address that has any.
#[derive(Debug, Default)]
pub struct Addresses(Mutex<HashMap<IpAddr, u32>>);

/// One counted connection of an address, released on drop.
#[derive(Debug)]
pub struct AddressPermit {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    /// Counts another connection. Returns `None` if the address has reached its limit.
    pub fn acquire(self: &Arc<Self>, address: IpAddr, most: u32) -> Option<AddressPermit> {
        let address = network(address);
        let mut counts = self.0.lock().unwrap();
        let count = counts.entry(address).or_default();
        if *count >= most {
            if *count == 0 {
                counts.remove(&address);
            }
            return None;
        }
        *count += 1;
        Some(AddressPermit {
            addresses: self.clone(),
            address,
        })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut counts = self.addresses.0.lock().unwrap();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Returns the unit that is counted: an IPv4 address, or an IPv6 /64, because a client usually has
/// a whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_share() {
        let addresses = Arc::<Addresses>::default();
        let acquire = |text: &str| addresses.acquire(text.parse().unwrap(), 2);
        let first = acquire("192.0.2.1");
        assert!(first.is_some());
        let second = acquire("::ffff:192.0.2.1");
        assert!(second.is_some() && acquire("192.0.2.1").is_none());
        assert!(acquire("192.0.2.2").is_some());
        drop(first);
        assert!(acquire("192.0.2.1").is_some());
        drop(second);
        assert!(addresses.0.lock().unwrap().is_empty());
        let _one = acquire("2001:db8::1");
        let _two = acquire("2001:db8::2");
        assert!(acquire("2001:db8::3").is_none() && acquire("2001:db8:0:1::1").is_some());
    }
}
