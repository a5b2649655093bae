//! The limits of `laio serve`, one flag each.

use laio_serve::Limits;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArguments {
    /// Connections of one worker; at the limit a new one closes an idle one, or waits if none is
    /// idle. The worker also closes idle connections when descriptors run short
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// Connections from one address (for IPv6, one /64) [default: no limit]
    #[arg(long, value_name = "N")]
    max_connections_per_address: Option<u32>,
    /// Requests of one connection
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests)]
    max_requests: u32,
    /// Bytes of a request head, at most 65535; more is 431
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().head.head_bytes)]
    max_header_bytes: usize,
    /// Header fields of a request, at most 100; more is 431
    #[arg(long, value_name = "N", default_value_t = Limits::default().head.headers)]
    max_headers: usize,
    /// Bytes of a request target; more is 414
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().head.target_bytes)]
    max_target_bytes: usize,
    /// Bytes of a request body, which is discarded; more is 413
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    max_body_bytes: u64,
    /// Ranges of one request, at most 16; for more, the whole file is sent
    #[arg(long, value_name = "N", default_value_t = Limits::default().ranges)]
    max_ranges: usize,
    /// Bytes of the largest file that --compress compresses
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().compress_bytes)]
    max_compress_bytes: u64,
    /// Files that a worker compresses at a time; others are sent uncompressed
    #[arg(long, value_name = "N", default_value_t = Limits::default().compressions)]
    max_compressions: usize,
    /// Entries in a directory listing
    #[arg(long, value_name = "N", default_value_t = Limits::default().listing_entries)]
    max_listing: usize,
    /// Passwords that a worker checks at a time; more is 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().auth_checks)]
    max_auth_checks: usize,
    /// Minimum rate of a request body
    #[arg(long, value_name = "BYTES/S", default_value_t = Limits::default().body_rate)]
    min_body_rate: u64,
    /// Minimum rate at which a client must read an answer
    #[arg(long, value_name = "BYTES/S", default_value_t = Limits::default().write_rate)]
    min_write_rate: u64,
    /// Bytes of the kernel's send buffer of a connection (SO_SNDBUF) [default: the kernel decides,
    /// up to net.ipv4.tcp_wmem]
    #[arg(long, value_name = "BYTES")]
    send_buffer: Option<usize>,
    /// Time from the first byte of a request to the end of its head; then 408
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().head_time))]
    header_timeout: Seconds,
    /// Time for a request body, in addition to the time it takes at --min-body-rate
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().body_time))]
    body_timeout: Seconds,
    /// Time between two requests of a connection
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().idle_time))]
    idle_timeout: Seconds,
    /// Time for a client to read 128 KiB of an answer, unless --min-write-rate allows more
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().write_time))]
    write_timeout: Seconds,
    /// Time to open a file; then 503
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().open_time))]
    open_timeout: Seconds,
    /// Time to read 128 KiB of a file; then the connection ends
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().read_time))]
    read_timeout: Seconds,
    /// Time for a refused client to read the answer
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().linger_time))]
    linger_timeout: Seconds,
    /// Time for answers in progress to end, once the server stops
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().drain_time))]
    drain_timeout: Seconds,
}

impl LimitArguments {
    pub(super) fn limits(self) -> Limits {
        Limits {
            connections: self.max_connections,
            connections_per_address: self.max_connections_per_address,
            requests: self.max_requests,
            head: laio_serve::HeadLimits {
                head_bytes: self.max_header_bytes,
                headers: self.max_headers,
                target_bytes: self.max_target_bytes,
            },
            body_bytes: self.max_body_bytes,
            ranges: self.max_ranges,
            compress_bytes: self.max_compress_bytes,
            compressions: self.max_compressions,
            listing_entries: self.max_listing,
            auth_checks: self.max_auth_checks,
            body_rate: self.min_body_rate,
            write_rate: self.min_write_rate,
            send_buffer: self.send_buffer,
            head_time: self.header_timeout.0,
            body_time: self.body_timeout.0,
            idle_time: self.idle_timeout.0,
            write_time: self.write_timeout.0,
            open_time: self.open_timeout.0,
            read_time: self.read_timeout.0,
            linger_time: self.linger_timeout.0,
            drain_time: self.drain_timeout.0,
            ..Limits::default()
        }
    }
}

/// A time in seconds, with an optional fraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seconds, String> {
        let number: f64 = text
            .parse()
            .map_err(|_| "the value is not a number of seconds")?;
        let time = Duration::try_from_secs_f64(number).map_err(|error| error.to_string())?;
        Ok(Seconds(time))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_secs_f64().fmt(f)
    }
}
