//! Limits of HTTP/2.

use super::Limits;
use std::time::Duration;

/// The named limits of a connection of HTTP/2. Those that are fields can be chosen; the others are constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2 {
    /// Requests that are answered at the same time; the client is told.
    pub streams: u32,
    /// Requests that the client may take back; then the connection ends. Taking back costs the client nothing and
    /// the server work (CVE-2023-44487).
    pub resets: u32,
    /// Bytes of a request body that may be under way to the server: of one request, and of the connection.
    pub window: u32,
}

impl Http2 {
    /// Bytes of frames collected before they are sent.
    pub const WRITE_BUFFER: usize = 64 * 1024;
    /// Bytes of one answer that wait for the client's leave, besides the piece that was just read.
    pub const SEND_BUFFER: usize = Limits::PIECE;
    /// Requests taken back that were not even looked at, before the connection ends.
    pub const PENDING_RESETS: usize = 20;
    /// Requests whose rest is still to be thrown away.
    pub const KEPT_RESETS: usize = 20;
    /// How long that rest is expected.
    pub const RESET_TIME: Duration = Duration::from_secs(5);
}

impl Default for Http2 {
    fn default() -> Self {
        Http2 {
            streams: 100,
            resets: 200,
            window: 64 * 1024,
        }
    }
}
