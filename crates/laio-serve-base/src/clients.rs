//! Who sends a request: the peer of the connection, or the client that a trusted proxy names.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod networks;
mod trusted;

pub use trusted::TrustedProxies;

use std::net::IpAddr;
use std::rc::Rc;

/// The sender of a request, or the peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// None for Unix sockets.
    pub address: Option<IpAddr>,
    /// The address as text, or `-` for Unix sockets.
    pub name: Rc<str>,
}

impl Client {
    /// Returns the client at an address; none for a Unix socket.
    pub fn new(address: Option<IpAddr>) -> Client {
        let name = address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        Client {
            address,
            name: Rc::from(name),
        }
    }
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The client, which is the peer itself unless a trusted proxy has named another.
    pub client: Client,
    /// Whether the server believes what the peer says of its clients.
    pub is_trusted: bool,
    /// Whether the address is that of the socket. It is not if a proxy has named it in a header of the PROXY
    /// protocol.
    pub is_at_socket: bool,
}
