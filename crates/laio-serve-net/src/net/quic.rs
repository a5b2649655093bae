//! QUIC. The crate `quinn-proto` implements the protocol without I/O, `quinn-udp` the system calls
//! of the socket; the engine waits for readiness.
//!
//! Each worker has an [`endpoint::Endpoint`] for each address, with a socket of its own, and each
//! connection has a task, which sends its packets ([`connection::QuicConnection::poll`]).

pub mod config;
mod congestion;
pub mod connection;
mod connection_id;
mod early_sessions;
pub mod endpoint;
pub mod routes;
mod socket;

pub use quinn_proto::{Dir, StreamId};
