//! Sockets: TCP, Unix streams, UDP.
//!
//! All of them are in blocking mode, as operations want it: an operation waits by itself. Names are not
//! looked up, since that can take long in a way that no operation covers: addresses are numbers.

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
