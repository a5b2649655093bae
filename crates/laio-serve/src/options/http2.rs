//! The limits of HTTP/2.

use super::Limits;
use std::time::Duration;

/// The named limits of an HTTP/2 connection. Fields are configurable; constants are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2 {
    /// Requests answered at the same time (`SETTINGS_MAX_CONCURRENT_STREAMS`).
    pub streams: u32,
    /// Requests that the client may reset before the connection ends. A reset costs the client
    /// nothing and the server work (CVE-2023-44487).
    pub resets: u32,
    /// The flow-control window in bytes: for each request body, and for the connection.
    pub window: u32,
}

impl Http2 {
    /// Bytes of frames buffered before they are sent.
    pub const WRITE_BUFFER: usize = 64 * 1024;
    /// Bytes of an answer that wait for flow control, besides the piece read last.
    pub const SEND_BUFFER: usize = Limits::CHUNK;
    /// Requests reset before the server has accepted them, before the connection ends.
    pub const PENDING_RESETS: usize = 20;
    /// Reset requests for which late frames are still accepted.
    pub const KEPT_RESETS: usize = 20;
    /// How long late frames are accepted.
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
