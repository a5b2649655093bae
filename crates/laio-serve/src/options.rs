//! What a server is told when it starts.

use laio::BackendKind;
use laio_http::log::LogFormat;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory whose files are served. Nothing outside it is.
    pub root: PathBuf,
    /// The address to listen on. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads, each with a context, an executor and a listening socket of its own.
    pub workers: usize,
    /// How system calls go to the background; `None` leaves it to the environment and the machine.
    pub backend: Option<BackendKind>,
    /// Where the access log goes.
    pub log: LogTarget,
    /// What a line of it looks like.
    pub log_format: LogFormat,
    /// The limits in force.
    pub limits: Limits,
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// The end of a file, which is made if it is not there.
    File(PathBuf),
}

/// The named limits of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one worker; further ones wait in the kernel's queue.
    pub connections: usize,
    /// From the first byte of a request to the end of its head.
    pub head_time: Duration,
    /// Between two requests of a connection.
    pub idle_time: Duration,
    /// For the client to take one piece of an answer ([`Limits::PIECE`] bytes).
    pub write_time: Duration,
    /// For requests in flight to end, after the server was asked to stop.
    pub drain_time: Duration,
    /// Requests of one connection, so that connections spread over workers again.
    pub requests: u32,
}

impl Limits {
    /// Bytes of a file read and sent at a time. A client that claims a long transfer holds no more
    /// memory than this.
    pub const PIECE: usize = 128 * 1024;
    /// Bytes of access log a worker keeps while the log is slow; lines beyond are counted, not kept.
    pub const LOG_BYTES: usize = 1024 * 1024;
    /// Connections of one worker with the back end `threads`, whatever [`Limits::connections`] says.
    pub const CONNECTIONS_THREADS: usize = 1024;
    /// Helpers that a worker has for files, besides those for connections, with that back end.
    pub const HELPERS_SPARE: usize = 64;
    /// Connections that wait in the kernel's queue of one worker.
    pub const BACKLOG: i32 = 1024;
}

impl Options {
    /// Connections of one worker with a back end: with `threads` each of them needs a thread.
    pub(crate) fn connections(&self, kind: BackendKind) -> usize {
        let most = match kind {
            BackendKind::Threads => Limits::CONNECTIONS_THREADS,
            _ => usize::MAX,
        };
        self.limits.connections.clamp(1, most)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(60),
            drain_time: Duration::from_secs(10),
            requests: 100_000,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            root: PathBuf::from("."),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            backend: None,
            log: LogTarget::Stdout,
            log_format: LogFormat::Combined,
            limits: Limits::default(),
        }
    }
}
