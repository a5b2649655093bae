//! Conversions between the addresses of laio and those of rustix.

use crate::Descriptor;
use laio::ops::Address;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, socket_with,
};
use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddr;

/// Creates a socket of this address's family.
pub(super) fn socket(address: &Address, kind: SocketType) -> io::Result<Descriptor> {
    let family = match address {
        Address::Inet(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Inet(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None)?.into())
}

/// Binds a socket to an address.
pub(super) fn bind(socket: &Descriptor, address: &Address) -> io::Result<()> {
    match address {
        Address::Inet(address) => rustix::net::bind(socket, address)?,
        Address::Unix(address) => {
            let address = match (address.as_pathname(), address.as_abstract_name()) {
                (Some(path), _) => SocketAddrUnix::new(path)?,
                (_, Some(name)) => SocketAddrUnix::new_abstract_name(name)?,
                _ => SocketAddrUnix::new_unnamed(),
            };
            rustix::net::bind(socket, &address)?;
        }
    }
    Ok(())
}

/// Returns the socket's own address.
pub(super) fn local(socket: impl AsFd) -> io::Result<Address> {
    convert(rustix::net::getsockname(socket)?)
}

/// Returns the address of the socket's peer.
pub(super) fn peer(socket: impl AsFd) -> io::Result<Address> {
    match rustix::net::getpeername(socket)? {
        Some(address) => convert(address),
        None => Ok(Address::Unix(UnixAddr::from_pathname("")?)),
    }
}

fn convert(address: SocketAddrAny) -> io::Result<Address> {
    if let Ok(inet) = SocketAddr::try_from(address.clone()) {
        return Ok(Address::Inet(inet));
    }
    let unix = SocketAddrUnix::try_from(address)?;
    Ok(Address::Unix(
        match (unix.path_bytes(), unix.abstract_name()) {
            (Some(path), _) => UnixAddr::from_pathname(OsStr::from_bytes(path))?,
            (_, Some(name)) => UnixAddr::from_abstract_name(name)?,
            _ => UnixAddr::from_pathname("")?,
        },
    ))
}

/// Converts the address of a socket that is known to be an internet socket.
pub(super) fn inet(address: Address) -> io::Result<SocketAddr> {
    let message = "not an internet address";
    address
        .inet()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, message))
}
