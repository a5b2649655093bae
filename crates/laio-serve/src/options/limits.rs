//! The named limits of a server.

use super::UpstreamLimits;
use laio_http::Ranges;
use std::time::{Duration, Instant};

/// The named limits of a server. Fields are configurable; constants are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one worker. When it has reached them and another client connects, it closes
    /// idle connections; if none is idle, the client waits in the listen queue.
    pub connections: usize,
    /// Connections from one address (for IPv6, from one /64), over all workers. Further ones are
    /// closed when they are accepted. `None` is no limit.
    pub connections_per_address: Option<u32>,
    /// Requests of one connection. The limit lets connections spread over the workers again.
    pub requests: u32,
    /// Bytes, fields and target of a request head.
    pub head: laio_http::Limits,
    /// Bytes of a request body, including its framing, that are read and discarded; more is 413.
    pub body_bytes: u64,
    /// Ranges in one request; a request for more gets the whole file. 0 turns ranges off.
    pub ranges: usize,
    /// Bytes of the largest file that is compressed while it is sent.
    pub compress_bytes: u64,
    /// Files that one worker compresses at a time; others are sent uncompressed.
    pub compressions: usize,
    /// Entries in a directory listing.
    pub listing_entries: usize,
    /// Password checks of one worker that wait or run; more are refused with 503.
    pub auth_checks: usize,
    /// Time from the first byte of a request to the end of its head.
    pub head_time: Duration,
    /// Time for a request body, in addition to the time that it takes at [`Limits::body_rate`].
    pub body_time: Duration,
    /// Minimum rate of a request body, in bytes per second.
    pub body_rate: u64,
    /// Time between two requests of a connection.
    pub idle_time: Duration,
    /// Time for the client to accept one chunk of an answer ([`Limits::CHUNK`] bytes), if that is
    /// more than the time at [`Limits::write_rate`].
    pub write_time: Duration,
    /// Minimum rate at which a client must read, in bytes per second.
    pub write_rate: u64,
    /// The kernel's send buffer of a connection in bytes (`SO_SNDBUF`; the kernel doubles it, up to
    /// `net.core.wmem_max`). `None` leaves it to the kernel, which enlarges it for fast clients
    /// (`net.ipv4.tcp_wmem`).
    pub send_buffer: Option<usize>,
    /// Time to open a file; then the answer is 503, and the open finishes in the background.
    pub open_time: Duration,
    /// Time to read one chunk of a file; then the connection ends.
    pub read_time: Duration,
    /// Time for a client that was refused during its request to stop sending and read the answer,
    /// and for an HTTP/2 client to read the rest before its connection is closed.
    pub linger_time: Duration,
    /// Time for requests in progress to end after the server was stopped.
    pub drain_time: Duration,
    /// The limits of upstreams.
    pub upstream: UpstreamLimits,
}

impl Limits {
    /// Bytes of a file read and sent at a time. A long transfer uses no more memory than this.
    pub const CHUNK: usize = 128 * 1024;
    /// Minimum chunk size in bytes.
    pub const CHUNK_MIN: usize = 4096;
    /// Maximum chunk size in bytes. Each connection with a body has one chunk in memory.
    pub const CHUNK_MAX: usize = 16 << 20;
    /// Pipes, and buffers of each kind, that a worker keeps for later transfers.
    pub const TRANSFERS_KEPT: usize = 16;
    /// Bytes that a connection sends before other tasks run. A socket buffer accepts megabytes at
    /// once, so many large files would otherwise delay a small one.
    pub const BYTES_BEFORE_YIELD: u64 = 2 * Limits::CHUNK as u64;
    /// Like [`Limits::BYTES_BEFORE_YIELD`], for `sendfile` from the page cache: it is faster, and
    /// each yield costs three system calls.
    pub const SENDFILE_BYTES_BEFORE_YIELD: u64 = 8 * Limits::CHUNK as u64;
    /// Bytes of the smallest part of a file sent with `sendfile`; copying fewer is as fast.
    pub const SENDFILE_FROM: u64 = 16 * 1024;
    /// Unacknowledged chunks of a client with [`Transfer::ZeroCopy`](super::Transfer::ZeroCopy),
    /// each of which stays in memory.
    pub const ZEROCOPY_CHUNKS: usize = 4;
    /// Buffers that a worker keeps for later requests. Idle connections have none.
    pub const POOLED_BUFFERS: usize = 64;
    /// Bytes of the largest buffer kept: a chunk of a file, and the head before it. Allocating one
    /// again costs a page fault for each page.
    pub const POOLED_BUFFER_BYTES: usize = Limits::CHUNK + 8 * 1024;
    /// Bytes of buffer space of an idle connection.
    pub const IDLE_BYTES: usize = 1024;
    /// Two ranges closer than this many bytes are sent as one, because another part costs about as
    /// much.
    pub const RANGE_GAP: u64 = 80;
    /// Bytes of access log buffered while the log is slow; further lines are counted and dropped.
    pub const LOG_BYTES: usize = 1024 * 1024;
    /// Minimum time between messages about dropped lines of the access log.
    pub const LOG_WARN_INTERVAL: Duration = Duration::from_secs(10);
    /// Minimum time between warnings about exhausted descriptors or memory.
    pub const EXHAUSTION_WARN_INTERVAL: Duration = Duration::from_secs(10);
    /// Descriptors reserved for files and upstreams, at least. With a high limit it is a share
    /// ([`Limits::DESCRIPTOR_RESERVE_SHARE`]), and with a low one half of those left.
    pub const DESCRIPTOR_RESERVE: usize = 32;
    /// One in this many descriptors is reserved for files and upstreams.
    pub const DESCRIPTOR_RESERVE_SHARE: usize = 8;
    /// Evicted connections that may still be closing while further ones are accepted.
    pub const EVICTIONS_PENDING: usize = 8;
    /// Connections evicted so that one file can be opened, or one upstream reached, when
    /// descriptors are exhausted.
    pub const EVICTION_TRIES: usize = 4;
    /// Pause after an eviction, for the descriptor to be closed.
    pub const EVICTION_PAUSE: Duration = Duration::from_millis(10);
    /// Time for an evicted HTTP/2 connection to send `GOAWAY`.
    pub const GOAWAY_TIME: Duration = Duration::from_millis(500);
    /// Time to write the last lines of the access log when a worker ends.
    pub const LOG_FLUSH_TIME: Duration = Duration::from_secs(2);
    /// Minimum time for each final action of a server, such as writing the end of the log, even
    /// after [`Limits::drain_time`].
    pub const FINAL_ACTION_TIME: Duration = Duration::from_millis(50);
    /// Generations of workers that may still finish their connections after reloads.
    pub const GENERATIONS: usize = 8;
    /// Time for clients with idle connections to send one more request, before the connections are
    /// closed because other workers take over.
    pub const HAND_OVER_GRACE: Duration = Duration::from_millis(500);
    /// Connections that a worker still accepts from the listen queue when it stops: as many as the
    /// kernel had completed, however fast others arrive.
    pub const ACCEPTS_AFTER_STOP: usize = Limits::BACKLOG as usize + 1;
    /// Time for clients that were just accepted to send their first request, when the server stops.
    pub const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(500);
    /// Minimum time between two starts of a worker that fails.
    pub const RESTART_PAUSE: Duration = Duration::from_secs(1);
    /// Connections of one worker with the back end `threads`, even if [`Limits::connections`] is
    /// higher.
    pub const CONNECTIONS_THREADS: usize = 1024;
    /// Helpers of a worker for files, in addition to those for connections, with the back end
    /// `threads`.
    pub const HELPERS_FOR_FILES: usize = 64;
    /// Workers with the back end `sync`, each of which serves one connection at a time.
    pub const WORKERS_SYNC: usize = 64;
    /// The length of the kernel's listen queue of one worker.
    pub const BACKLOG: i32 = 1024;
    /// Bytes read from a refused client while it reads the answer.
    pub const LINGER_BYTES: usize = 1024 * 1024;
    /// Correct passwords that a worker remembers.
    pub const AUTH_REMEMBERED: usize = 1024;
    /// The largest cost of a bcrypt hash: 2 to that power rounds, about a second.
    pub const AUTH_COST: u32 = 14;
    /// Bytes of the largest file of users.
    pub const AUTH_FILE: u64 = 1024 * 1024;
    /// Repetitions of an open when a directory of the path is renamed at the same moment.
    pub const OPEN_RACES: u32 = 16;
    /// Bytes of an answer that are encrypted and not yet sent.
    pub const TLS_BUFFER: usize = 64 * 1024;
    /// Sessions remembered for TLS 1.2 clients that do not support tickets.
    pub const TLS_SESSIONS: usize = 256;
    /// How often certificate files are checked for changes.
    pub const TLS_CHECK_INTERVAL: Duration = Duration::from_secs(10);
    /// Bytes of the smallest file that is compressed.
    pub const COMPRESS_FROM: u64 = 1024;

    /// Returns the time for a final action that takes up to `most`. All final actions share one
    /// deadline, so that their times do not add up.
    pub(crate) fn final_time(deadline: Option<Instant>, most: Duration) -> Duration {
        let left = deadline.map_or(most, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        left.max(Limits::FINAL_ACTION_TIME).min(most)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            connections_per_address: None,
            requests: 100_000,
            head: laio_http::Limits::DEFAULT,
            body_bytes: laio_http::BodySkip::BYTES_MAX,
            ranges: Ranges::COUNT_MAX,
            compress_bytes: 16 << 20,
            compressions: 16,
            listing_entries: 10_000,
            auth_checks: 32,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
            body_rate: 1024,
            idle_time: Duration::from_secs(60),
            write_time: Duration::from_secs(30),
            write_rate: 1024,
            send_buffer: None,
            open_time: Duration::from_secs(30),
            read_time: Duration::from_secs(60),
            linger_time: Duration::from_secs(5),
            drain_time: Duration::from_secs(10),
            upstream: UpstreamLimits::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_things_share_one_deadline() {
        let most = Duration::from_secs(1000);
        assert_eq!(Limits::final_time(None, most), most);
        assert_eq!(
            Limits::final_time(Some(Instant::now()), most),
            Limits::FINAL_ACTION_TIME
        );
        let later = Some(Instant::now() + Duration::from_secs(500));
        let left = Limits::final_time(later, most);
        assert!(left <= Duration::from_secs(500) && left > Limits::FINAL_ACTION_TIME);
        let short = Duration::from_millis(1);
        assert_eq!(Limits::final_time(later, short), short);
    }
}
