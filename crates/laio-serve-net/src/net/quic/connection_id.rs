//! Connection IDs that name the endpoint of their connection.
//!
//! The kernel distributes packets over the sockets of the workers by the addresses of the packet. When
//! a client has another address (another network, or a NAT has forgotten it), the packets of its
//! connection may arrive at another worker, which learns from the connection ID whose they are.
//!
//! The number of the endpoint is encrypted, so that two connection IDs do not show that they belong
//! to one connection (RFC 9000, section 9.5).

use crate::net::http3::frames::integer;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The number of an endpoint, unique in a process.
pub(super) type EndpointNumber = u32;

/// The length of a connection ID: a nonce, the encrypted number of the endpoint, and a checksum.
pub(super) const LENGTH: usize = 12;

/// The key of the connection IDs of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionIdKey(RandomState);

impl ConnectionIdKey {
    fn seal(&self, number: EndpointNumber, nonce: u32) -> [u8; LENGTH] {
        let mut id = [0; LENGTH];
        let parts = [
            nonce,
            number ^ self.mask(nonce),
            self.checksum(nonce, number),
        ];
        for (four, part) in id.chunks_mut(4).zip(parts) {
            four.copy_from_slice(&part.to_le_bytes());
        }
        id
    }

    /// Returns the endpoint of a connection ID, or none if this server has not made it.
    pub(super) fn open(&self, id: &[u8]) -> Option<EndpointNumber> {
        let id: &[u8; LENGTH] = id.try_into().ok()?;
        let part = |at: usize| u32::from_le_bytes([id[at], id[at + 1], id[at + 2], id[at + 3]]);
        let nonce = part(0);
        let number = part(4) ^ self.mask(nonce);
        (part(8) == self.checksum(nonce, number)).then_some(number)
    }

    fn mask(&self, nonce: u32) -> u32 {
        self.0.hash_one(nonce) as u32
    }

    fn checksum(&self, nonce: u32, number: EndpointNumber) -> u32 {
        self.0.hash_one((nonce, number)) as u32
    }
}

/// Makes the connection IDs of an endpoint.
pub(super) struct Generator {
    key: ConnectionIdKey,
    number: EndpointNumber,
    /// A secret of this endpoint, from which the nonces follow.
    nonces: RandomState,
    made: u64,
}

impl Generator {
    pub(super) fn new(key: ConnectionIdKey, number: EndpointNumber) -> Generator {
        Generator {
            key,
            number,
            nonces: RandomState::new(),
            made: 0,
        }
    }
}

impl ConnectionIdGenerator for Generator {
    fn generate_cid(&mut self) -> ConnectionId {
        self.made += 1;
        let nonce = self.nonces.hash_one(self.made) as u32;
        ConnectionId::new(&self.key.seal(self.number, nonce))
    }

    /// Also accepts the connection IDs of other endpoints: one that has ended cannot answer for
    /// itself, so another one sends its stateless reset.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        self.key.open(id).map(drop).ok_or(InvalidCid)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

const LONG_HEADER: u8 = 0x80;
/// The bits of a long header that have the type of the packet.
const TYPE: u8 = 0x30;
const INITIAL: u8 = 0x00;
const ZERO_RTT: u8 = 0x10;
const RETRY: u8 = 0x30;
/// QUIC version 1, the only one here.
const VERSION: [u8; 4] = [0, 0, 0, 1];

/// Returns the destination of a packet, if it has the length of those that the server makes. The client chooses
/// the destination of its first packets, [`ConnectionIdKey::open`] tells them apart. A packet of the second half
/// of the handshake may follow an Initial packet in the same datagram, with the same destination.
pub(super) fn destination(datagram: &[u8]) -> Option<&[u8]> {
    let first = *datagram.first()?;
    if first & LONG_HEADER == 0 {
        return datagram.get(1..1 + LENGTH);
    }
    // After the first byte: the version, and the length of the destination.
    let length = usize::from(*datagram.get(5)?);
    let destination = datagram.get(6..6 + length)?;
    (length == LENGTH).then_some(destination)
}

/// Whether a datagram starts with a packet that can begin a connection.
pub(super) fn begins_connection(datagram: &[u8]) -> bool {
    let first = datagram.first();
    first.is_some_and(|first| first & (LONG_HEADER | TYPE) == LONG_HEADER | INITIAL)
}

/// Whether a datagram has a packet of early data (0-RTT), perhaps after an Initial packet.
pub(super) fn has_early_data(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Some((kind, after)) = long_packet(rest) {
        if kind == ZERO_RTT {
            return true;
        }
        rest = after;
    }
    false
}

/// Returns the type of the packet with a long header at the start, and what follows the packet.
fn long_packet(datagram: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = datagram.split_first()?;
    let kind = first & TYPE;
    let rest = rest.strip_prefix(&VERSION)?;
    if first & LONG_HEADER == 0 || kind == RETRY {
        return None;
    }
    let mut rest = skip_id(skip_id(rest)?)?;
    if kind == INITIAL {
        rest = skip_counted(rest)?;
    }
    Some((kind, skip_counted(rest)?))
}

fn skip_id(bytes: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = bytes.split_first()?;
    rest.get(usize::from(length)..)
}

/// Skips a part whose length precedes it.
fn skip_counted(bytes: &[u8]) -> Option<&[u8]> {
    let (length, used) = integer(bytes)?;
    bytes[used..].get(usize::try_from(length).ok()?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_connection_id_names_its_endpoint() {
        let key = ConnectionIdKey::default();
        let mut generator = Generator::new(key.clone(), 7);
        let ids: HashSet<_> = (0..1000).map(|_| generator.generate_cid()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| key.open(id) == Some(7)));
        let other = Generator::new(ConnectionIdKey::default(), 7);
        assert!(ids.iter().all(|id| other.validate(id).is_err()));
    }

    #[test]
    fn a_changed_connection_id_is_refused() {
        let key = ConnectionIdKey::default();
        let id = Generator::new(key.clone(), 3).generate_cid();
        for bit in 0..LENGTH * 8 {
            let mut changed = id.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&changed), None);
        }
        assert_eq!(key.open(&id[..LENGTH - 1]), None);
    }

    #[test]
    fn destinations_of_packets() {
        let id: Vec<u8> = (1..=LENGTH as u8).collect();
        let short = [&[0x40], &id[..], b"rest"].concat();
        assert_eq!(destination(&short), Some(&id[..]));
        let long = |kind: u8, id: &[u8]| [&[kind, 0, 0, 0, 1, id.len() as u8], id, b"r"].concat();
        assert_eq!(destination(&long(0xe0, &id)), Some(&id[..]));
        assert_eq!(destination(&long(0xc0, &id)), Some(&id[..]));
        assert_eq!(destination(&long(0xe0, &id[1..])), None);
        assert!(begins_connection(&long(0xc0, &id)));
        assert!(!begins_connection(&long(0xd0, &id)) && !begins_connection(&short));
        for length in 0..short.len() {
            let _ = destination(&short[..length]);
            let _ = destination(&long(0xe0, &id)[..length]);
        }
    }
    #[test]
    fn packets_of_early_data() {
        let packet = |kind: u8, token: &[u8]| {
            let ids = [&[kind, 0, 0, 0, 1, 3], &b"abc"[..], &[2], b"de"].concat();
            [&ids, token, &[0x40, 5], b"12345"].concat()
        };
        let (initial, early, handshake) = (
            packet(0xc3, &[2, b't', b'o']),
            packet(0xd1, &[]),
            packet(0xe0, &[]),
        );
        let both = [&initial[..], &early].concat();
        assert!(has_early_data(&early) && has_early_data(&both));
        assert!(has_early_data(&[&initial[..], &handshake, &early].concat()));
        assert!(!has_early_data(&initial) && !has_early_data(&handshake));
        let padded = [&initial[..], &[0; 100]].concat();
        assert!(!has_early_data(&padded) && !has_early_data(b"\x40 short"));
        for length in 0..both.len() {
            assert!(!has_early_data(&both[..length]));
        }
    }
}
