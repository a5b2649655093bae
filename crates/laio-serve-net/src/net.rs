//! Connections and listening sockets as bytes: what they carry is of no concern here.

pub mod arrivals;
pub mod client_watch;
pub mod http2_exchange;
pub mod http2_io;
#[cfg(feature = "http3")]
pub mod http3;
#[cfg(feature = "http3")]
pub mod http3_exchange;
pub mod listen;
pub mod multiplexed;
#[cfg(feature = "http3")]
pub mod quic;
pub mod socket;
pub mod stream;
pub mod tls;
mod write_buffers;
