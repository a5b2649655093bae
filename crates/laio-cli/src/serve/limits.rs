//! The limits of `laio serve`, each a flag.

use laio_serve::Limits;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArguments {
    /// Connections of one worker; further ones wait
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// Connections from one address (of IPv6, one /64) [default: no limit]
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
    /// Bytes of a request body, which is thrown away; more is 413
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body_bytes)]
    max_body_bytes: u64,
    /// Ranges of one request, at most 16; for more, the whole file is sent
    #[arg(long, value_name = "N", default_value_t = Limits::default().ranges)]
    max_ranges: usize,
    /// Bytes of the largest file that --compress takes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().compress_bytes)]
    max_compress_bytes: u64,
    /// Files that a worker compresses at a time; others are sent plainly
    #[arg(long, value_name = "N", default_value_t = Limits::default().compressions)]
    max_compressions: usize,
    /// Entries that a listing shows
    #[arg(long, value_name = "N", default_value_t = Limits::default().listing_entries)]
    max_listing: usize,
    /// Passwords that a worker checks at a time; more is 503
    #[arg(long, value_name = "N", default_value_t = Limits::default().auth_checks)]
    max_auth_checks: usize,
    /// Rate at which a request body must come
    #[arg(long, value_name = "BYTES/S", default_value_t = Limits::default().body_rate)]
    min_body_rate: u64,
    /// Rate at which a client must take an answer
    #[arg(long, value_name = "BYTES/S", default_value_t = Limits::default().write_rate)]
    min_write_rate: u64,
    /// Bytes that the kernel holds of what a client has not taken (SO_SNDBUF) [default: the kernel decides, up to
    /// net.ipv4.tcp_wmem]
    #[arg(long, value_name = "BYTES")]
    send_buffer: Option<usize>,
    /// From the first byte of a request to the end of its head; then 408
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().head_time))]
    header_timeout: Seconds,
    /// For a request body, besides what it has at --min-body-rate
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().body_time))]
    body_timeout: Seconds,
    /// Between two requests of a connection
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().idle_time))]
    idle_timeout: Seconds,
    /// For a client to take 128 KiB of an answer, or as long as --min-write-rate gives it
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().write_time))]
    write_timeout: Seconds,
    /// For a file to open; then 503
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().open_time))]
    open_timeout: Seconds,
    /// For 128 KiB of a file to be read; then the connection ends
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().read_time))]
    read_timeout: Seconds,
    /// For a refused client to read why
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(Limits::default().linger_time))]
    linger_timeout: Seconds,
    /// For answers in flight to end, once the server stops
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

/// A time in seconds, with a fraction if need be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seconds, String> {
        let number: f64 = text.parse().map_err(|_| "that is no number of seconds")?;
        let time = Duration::try_from_secs_f64(number).map_err(|error| error.to_string())?;
        Ok(Seconds(time))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_secs_f64().fmt(f)
    }
}
