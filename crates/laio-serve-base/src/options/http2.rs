//! The limits of HTTP/2.

use super::Limits;
use super::declare::options;
use std::time::Duration;

options! {
    /// The named limits of an HTTP/2 connection. Fields are configurable; constants are not.
    #[command(next_help_heading = "Limits")]
    pub struct Http2 {
        /// Requests answered at the same time on an HTTP/2 connection.
        ///
        /// The limit is announced to the client (`SETTINGS_MAX_CONCURRENT_STREAMS`); further requests
        /// are refused.
        #[arg(long = "max-http2-streams", value_name = "N")]
        pub streams: u32 = 100,
        /// Requests that the client of an HTTP/2 connection may reset before the connection ends.
        ///
        /// A reset costs the client nothing and the server work (CVE-2023-44487).
        #[arg(long = "max-http2-resets", value_name = "N")]
        pub resets: u32 = 200,
    }
}

impl Http2 {
    /// The flow-control window in bytes: for each request body, and for the connection.
    pub const WINDOW: u32 = 64 * 1024;
    /// Bytes of frames buffered before they are sent.
    pub const WRITE_BUFFER: usize = 64 * 1024;
    /// Bytes of a response that wait for flow control, besides the piece read last.
    pub const SEND_BUFFER: usize = Limits::CHUNK;
    /// Requests reset before the server has accepted them, before the connection ends.
    pub const PENDING_RESETS: usize = 20;
    /// Reset requests for which late frames are still accepted.
    pub const KEPT_RESETS: usize = 20;
    /// How long late frames are accepted.
    pub const RESET_TIME: Duration = Duration::from_secs(5);
}
