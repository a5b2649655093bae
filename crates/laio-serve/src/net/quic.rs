//! QUIC. The crate `quinn-proto` implements the protocol without I/O, `quinn-udp` the system calls
//! of the socket; the engine waits for readiness.
//!
//! Each worker has an [`endpoint::Endpoint`] for each address, with a socket of its own, and each
//! connection has a task, which sends its packets ([`connection::QuicConnection::poll`]).

pub(crate) mod config;
mod congestion;
pub(crate) mod connection;
mod connection_id;
pub(crate) mod endpoint;
pub(crate) mod routes;
mod socket;

pub(crate) use quinn_proto::{Dir, StreamId};
