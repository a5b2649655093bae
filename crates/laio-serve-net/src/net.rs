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
#[cfg(not(feature = "http3"))]
mod without_http3;
mod write_buffers;

#[cfg(not(feature = "http3"))]
pub use without_http3::quic;
