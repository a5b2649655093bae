//! Who sends a request: the peer of the connection, or the client that a trusted proxy names.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub(crate) mod networks;
mod trusted;

pub(crate) use trusted::TrustedProxies;

use std::net::IpAddr;
use std::rc::Rc;

/// The sender of a request, or the peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// None for Unix sockets.
    pub(crate) address: Option<IpAddr>,
    /// The address as text, or `-` for Unix sockets.
    pub(crate) name: Rc<str>,
}

impl Client {
    pub(crate) fn new(address: Option<IpAddr>) -> Client {
        let name = address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        Client {
            address,
            name: Rc::from(name),
        }
    }
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) client: Client,
    /// Whether the server believes what the peer says of its clients.
    pub(crate) is_trusted: bool,
    /// Whether the address is that of the socket. It is not if a proxy has named it in a header of the PROXY
    /// protocol.
    pub(crate) is_at_socket: bool,
}
