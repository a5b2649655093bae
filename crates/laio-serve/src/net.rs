//! Connections and listening sockets as bytes: what they carry is of no concern here.

pub(crate) mod arrivals;
pub(crate) mod client_watch;
pub(crate) mod http2_exchange;
pub(crate) mod http2_io;
pub(crate) mod http3;
pub(crate) mod http3_exchange;
pub(crate) mod listen;
pub(crate) mod quic;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod write_buffers;
