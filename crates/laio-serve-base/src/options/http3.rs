//! HTTP/3: early data, and the limits.

use super::declare::options;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

options! {
    /// The named limits of HTTP/3 and QUIC. Fields are configurable; constants are not.
    #[command(next_help_heading = "Limits")]
    pub struct Http3 {
        /// Requests answered at the same time on an HTTP/3 connection.
        ///
        /// QUIC announces the limit to the client, which may open another stream when one has ended.
        #[arg(long = "max-http3-streams", value_name = "N")]
        pub streams: u32 = 100,
        /// Requests that the client of an HTTP/3 connection may reset before the connection ends.
        #[arg(long = "max-http3-resets", value_name = "N")]
        pub resets: u32 = 200,
        /// QUIC handshakes in progress in one worker; further ones are ignored.
        #[arg(long = "max-http3-handshakes", value_name = "N")]
        pub handshakes: usize = 1000,
        /// QUIC handshakes in progress in one worker from which on a client must show that it receives
        /// at its address (Retry), which takes another round trip; 0 asks always.
        #[arg(long = "http3-retry-from", value_name = "N")]
        pub retry_from: usize = 100,
        /// Port for HTTP/3 in the field `Alt-Svc` [default: the port of the address]
        ///
        /// For a server whose clients reach it at another port than the one it listens on.
        #[arg(long = "alt-svc-port", value_name = "PORT", help_heading = "Encryption")]
        pub alt_svc_port: Option<u16> = None,
        /// Answer GET and HEAD over HTTP/3 in early data (0-RTT), before the handshake of a client that comes
        /// back is complete: requests for files, or with upstreams also those for HTTP upstreams, which must
        /// understand `Early-Data` [default: no early data]
        ///
        /// All other requests in early data wait until the handshake is complete, which a recording cannot bring
        /// about: other methods, requests with bodies, scripts, and those that rules for client addresses or auth
        /// servers decide. An upstream gets the field `Early-Data: 1` and may refuse with 425 (RFC 8470).
        #[arg(long = "early-data", value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "files", help_heading = "Encryption")]
        pub early_data: Option<EarlyData> = None,
    }
}

/// Which requests in early data are answered before the handshake is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyData {
    /// Those for files.
    Files,
    /// Those for HTTP upstreams too.
    Upstreams,
}

impl FromStr for EarlyData {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<EarlyData, Self::Err> {
        match text {
            "files" => Ok(EarlyData::Files),
            "upstreams" => Ok(EarlyData::Upstreams),
            _ => Err("it is files or upstreams"),
        }
    }
}

impl fmt::Display for EarlyData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EarlyData::Files => "files",
            EarlyData::Upstreams => "upstreams",
        })
    }
}

impl Http3 {
    /// The flow-control window in bytes for each request body.
    pub const WINDOW: u32 = 128 * 1024;
    /// The flow-control window in bytes for all request bodies of a connection.
    pub const CONNECTION_WINDOW: u32 = 256 * 1024;
    /// Bytes of responses of a connection that wait for the client's acknowledgement, at least. It is
    /// twice the congestion window.
    pub const SEND_BUFFER: u64 = 128 * 1024;
    /// The same, at most.
    pub const SEND_BUFFER_MAX: u64 = 4 << 20;
    /// Streams in one direction that the client may have open at the same time: its control stream,
    /// two for QPACK, and some of types that the server does not know.
    pub const UNIDIRECTIONAL_STREAMS: u32 = 8;
    /// Bytes of a frame on a control stream.
    pub const CONTROL_FRAME: u64 = 4096;
    /// Bytes of the frames of one request whose types the server does not know.
    pub const UNKNOWN_FRAMES: u64 = 64 * 1024;
    /// Datagrams that wait for an endpoint because another one has received them.
    pub const PASSED_DATAGRAMS: usize = 1024;
    /// Buffers of one receive.
    pub const RECEIVE_BATCH: usize = 8;
    /// Bytes of such a buffer: the kernel joins datagrams up to 64 KiB.
    pub const RECEIVE_BUFFER: usize = 64 * 1024;
    /// Receives before other tasks run.
    pub const RECEIVES_BEFORE_YIELD: usize = 4;
    /// Datagrams that one call sends.
    pub const SEND_BATCH: usize = 16;
    /// Calls that send for one connection before other tasks run.
    pub const SENDS_BEFORE_YIELD: usize = 8;
    /// Bytes of the kernel's buffers of a socket, which all connections of a worker share. The kernel
    /// allows up to `net.core.rmem_max` and `net.core.wmem_max`.
    pub const SOCKET_BUFFER: usize = 2 << 20;
    /// Bytes of packets that arrive while a connection is being accepted.
    pub const INCOMING_BYTES: u64 = 64 * 1024;
    /// The same for all connections of an endpoint.
    pub const ALL_INCOMING_BYTES: u64 = 4 << 20;
    /// TLS sessions remembered for early data, in the process. Each can be resumed once.
    pub const EARLY_SESSIONS: usize = 10_000;
    /// How long they are remembered.
    pub const EARLY_SESSION_TIME: Duration = Duration::from_secs(24 * 60 * 60);
    /// How long the token of a Retry is valid.
    pub const RETRY_TIME: Duration = Duration::from_secs(15);
    /// How often a client that waits for a response is asked whether it is still there.
    pub const PING_INTERVAL: Duration = Duration::from_secs(10);
    /// Time between the announcement that a connection will end, because other workers take over, and the last request
    /// that is accepted.
    pub const ACCEPTS_AFTER_ANNOUNCEMENT: Duration = Duration::from_millis(150);
    /// Time in which a connection that ends rejects requests, so that clients send them again. curl looks for the end of a
    /// connection only once in a second.
    pub const REJECTS_BEFORE_END: Duration = Duration::from_millis(1500);
    /// Time without any packet from the client after which a connection that ends does not wait for the
    /// acknowledgement of its last response any more.
    pub const LAST_TIME: Duration = Duration::from_secs(2);
    /// Seconds for which a client remembers that the server has HTTP/3 (`Alt-Svc`).
    pub const ALT_SVC_AGE: u32 = 24 * 60 * 60;
}
