//! Addresses of sockets, as the kernel reads and writes them.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

/// The address of a socket.
#[derive(Clone)]
pub enum Address {
    /// Internet: address and port.
    Inet(SocketAddr),
    /// Unix: a path, an abstract name, or no name.
    Unix(UnixAddr),
}

impl Address {
    /// The internet address, if it is one.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Address::Inet(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// The address of a Unix socket with a path.
    ///
    /// # Errors
    /// `InvalidInput` if the path has a zero byte or is longer than 107 bytes.
    pub fn unix(path: impl AsRef<std::path::Path>) -> io::Result<Address> {
        Ok(Address::Unix(UnixAddr::from_pathname(path)?))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Inet(address)
    }
}

impl From<UnixAddr> for Address {
    fn from(address: UnixAddr) -> Address {
        Address::Unix(address)
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Address) -> bool {
        let (one, other) = (Storage::from_address(self), Storage::from_address(other));
        one.bytes() == other.bytes()
    }
}

impl Eq for Address {}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Inet(address) => address.fmt(f),
            Address::Unix(address) => match (address.as_pathname(), address.as_abstract_name()) {
                (Some(path), _) => write!(f, "unix:{}", path.display()),
                (_, Some(name)) => write!(f, "unix:@{}", String::from_utf8_lossy(name)),
                _ => f.write_str("unix:"),
            },
        }
    }
}

/// A buffer for an address of any family, and the length that the kernel reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Storage {
    pub(super) address: libc::sockaddr_storage,
    pub(super) length: libc::socklen_t,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

impl Storage {
    const ROOM: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

    /// Returns an empty buffer for the kernel to write an address to.
    pub(super) fn empty() -> Storage {
        Storage {
            // SAFETY: plain data, for which all zeros is a valid value.
            address: unsafe { std::mem::zeroed() },
            length: Storage::ROOM,
        }
    }

    /// Returns a buffer with an address for the kernel to read.
    pub(super) fn from_address(address: &Address) -> Storage {
        let mut storage = Storage::empty();
        let place = &raw mut storage.address;
        // SAFETY (for the writes below): sockaddr_storage has the size and alignment for each family.
        match address {
            Address::Inet(SocketAddr::V4(address)) => {
                let place = place.cast::<libc::sockaddr_in>();
                unsafe {
                    // SAFETY: see above.
                    (*place).sin_family = libc::AF_INET as libc::sa_family_t;
                    (*place).sin_port = address.port().to_be();
                    (*place).sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                }
                storage.length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            Address::Inet(SocketAddr::V6(address)) => {
                let place = place.cast::<libc::sockaddr_in6>();
                unsafe {
                    // SAFETY: see above.
                    (*place).sin6_family = libc::AF_INET6 as libc::sa_family_t;
                    (*place).sin6_port = address.port().to_be();
                    (*place).sin6_addr.s6_addr = address.ip().octets();
                    (*place).sin6_flowinfo = address.flowinfo();
                    (*place).sin6_scope_id = address.scope_id();
                }
                storage.length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
            Address::Unix(address) => {
                storage.address.ss_family = libc::AF_UNIX as libc::sa_family_t;
                let (before, name, after) = unix_name(address);
                let bytes = storage.bytes_mut();
                let start = UNIX_NAME + before;
                // Names of the standard library always fit.
                bytes[start..start + name.len()].copy_from_slice(name);
                storage.length = (start + name.len() + after) as libc::socklen_t;
            }
        }
        storage
    }

    /// Returns the address that the kernel wrote, if it has a known family.
    pub(super) fn read(&self) -> Option<Address> {
        let length = self.length.min(Storage::ROOM) as usize;
        let has = |size: usize| length >= size;
        let place = &raw const self.address;
        match i32::from(self.address.ss_family) {
            libc::AF_INET if has(size_of::<libc::sockaddr_in>()) => {
                // SAFETY: sockaddr_storage has the size and alignment, and all bits are valid.
                let inet = unsafe { *place.cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(inet.sin_addr.s_addr.to_ne_bytes());
                let address = SocketAddrV4::new(ip, u16::from_be(inet.sin_port));
                Some(Address::Inet(address.into()))
            }
            libc::AF_INET6 if has(size_of::<libc::sockaddr_in6>()) => {
                // SAFETY: as above.
                let inet = unsafe { *place.cast::<libc::sockaddr_in6>() };
                let address = SocketAddrV6::new(
                    Ipv6Addr::from(inet.sin6_addr.s6_addr),
                    u16::from_be(inet.sin6_port),
                    inet.sin6_flowinfo,
                    inet.sin6_scope_id,
                );
                Some(Address::Inet(address.into()))
            }
            libc::AF_UNIX if has(UNIX_NAME) => {
                let name = &self.bytes()[UNIX_NAME..];
                let address = match name.split_first() {
                    Some((0, name)) => UnixAddr::from_abstract_name(name),
                    _ => {
                        // With or without the zero at its end.
                        let path = name.split(|&byte| byte == 0).next().unwrap_or_default();
                        UnixAddr::from_pathname(OsStr::from_bytes(path))
                    }
                };
                address.ok().map(Address::Unix)
            }
            _ => None,
        }
    }

    fn bytes(&self) -> &[u8] {
        let length = self.length.min(Storage::ROOM) as usize;
        // SAFETY: plain data, all of which was zeroed, of at least that length.
        unsafe { std::slice::from_raw_parts((&raw const self.address).cast(), length) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, of exactly that length; any bits are valid.
        unsafe {
            std::slice::from_raw_parts_mut((&raw mut self.address).cast(), Storage::ROOM as usize)
        }
    }
}

const UNIX_NAME: usize = std::mem::offset_of!(libc::sockaddr_un, sun_path);

/// Zeros before the name, the name, zeros that count after it.
fn unix_name(address: &UnixAddr) -> (usize, &[u8], usize) {
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => (0, path.as_os_str().as_bytes(), 1),
        (_, Some(name)) => (1, name, 0),
        _ => (0, b"", 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        let unnamed = UnixAddr::from_pathname("").unwrap();
        let addresses = [
            Address::Inet("127.1.2.3:4567".parse().unwrap()),
            Address::Inet("[2001:db8::7%9]:80".parse().unwrap()),
            Address::unix("/run/some.socket").unwrap(),
            Address::unix("x".repeat(107)).unwrap(),
            UnixAddr::from_abstract_name(b"a\0b").unwrap().into(),
            unnamed.into(),
        ];
        for address in addresses {
            let read = Storage::from_address(&address).read().unwrap();
            assert_eq!(format!("{address:?}"), format!("{read:?}"));
            assert_eq!(address, read);
        }
    }

    #[test]
    fn no_address() {
        let mut storage = Storage::empty();
        assert_eq!(storage.read(), None);
        storage.length = 0;
        assert_eq!(storage.read(), None);
        assert!(Address::unix("x".repeat(108)).is_err());
    }

    #[test]
    fn addresses_print() {
        let text = |address: Address| address.to_string();
        assert_eq!(text(Address::unix("/a").unwrap()), "unix:/a");
        let name = UnixAddr::from_abstract_name(b"b").unwrap();
        assert_eq!(text(name.into()), "unix:@b");
        assert_eq!(
            text("[::1]:8".parse::<SocketAddr>().unwrap().into()),
            "[::1]:8"
        );
    }
}
