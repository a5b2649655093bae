//! Sockets: TCP, Unix streams, UDP.
//!
//! All sockets are in blocking mode, because an operation waits by itself. Addresses are numeric: host names are
//! not resolved, because no operation covers a resolver.

mod address;
mod listener;
mod split;
mod stream;
mod udp;

pub use laio::ops::{Address, Received};
pub use listener::{ListenOptions, Listener, TcpListener, UnixListener};
pub use split::{ReadHalf, WriteHalf};
pub use std::net::Shutdown;
pub use stream::{Stream, Tcp, TcpStream, Unix, UnixStream};
pub use udp::UdpSocket;
