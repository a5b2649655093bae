//! The named limits of a server.

use super::declare::options;
#[cfg(feature = "clap")]
use super::declare::seconds;
use super::{Memory, UpstreamLimits};
use laio_http::Ranges;
use std::time::{Duration, Instant};

options! {
    /// The named limits of a server. Fields are configurable; constants are not.
    #[command(next_help_heading = "Limits")]
    pub struct Limits {
        /// Connections of one worker; at the limit a new one closes an idle one, or waits until one is
        /// idle. The worker also closes idle connections when descriptors run short.
        ///
        /// It closes the connection that has waited longest for its next request, or for longer than
        /// `--header-timeout` for its first. A client that waits is in the listen queue. With `--backend
        /// threads` the limit is at most 1024, because each connection needs a helper thread.
        #[arg(long = "max-connections", value_name = "N")]
        pub connections: usize = 10_000,
        /// Connections from one address (for IPv6, one /64) [default: no limit]
        ///
        /// Over all workers; further ones are closed when they are accepted.
        #[arg(long = "max-connections-per-address", value_name = "N")]
        pub connections_per_address: Option<u32> = None,
        /// Requests of one connection.
        ///
        /// The last response says `Connection: close`, or GOAWAY in HTTP/2, so that connections spread
        /// over the workers again.
        #[arg(long = "max-requests", value_name = "N")]
        pub requests: u32 = 100_000,
        /// Bytes of a request head, at most 65535; more is 431.
        ///
        /// In HTTP/2, of the decompressed field list.
        #[arg(long = "max-header-bytes", value_name = "BYTES")]
        pub head_bytes: usize = laio_http::Limits::DEFAULT.head_bytes,
        /// Header fields of a request, at most 100; more is 431.
        #[arg(long = "max-headers", value_name = "N")]
        pub headers: usize = laio_http::Limits::DEFAULT.headers,
        /// Bytes of a request target; more is 414.
        #[arg(long = "max-target-bytes", value_name = "BYTES")]
        pub target_bytes: usize = laio_http::Limits::DEFAULT.target_bytes,
        /// Bytes of a request body, which is discarded; more is 413.
        ///
        /// Including its framing. This is the limit for files; `--max-upstream-body-bytes` is the one for
        /// upstreams.
        #[arg(long = "max-body-bytes", value_name = "BYTES")]
        pub body_bytes: u64 = laio_http::BodySkip::BYTES_MAX,
        /// Uploads, and other changes of files, that a worker makes at a time; more is 503.
        ///
        /// Each holds a descriptor and 128 KiB of memory or more.
        #[arg(long = "max-uploads", value_name = "N")]
        pub changes: usize = 64,
        /// Ranges of one request, at most 16; for more, the whole file is sent.
        ///
        /// 0 turns ranges off.
        #[arg(long = "max-ranges", value_name = "N")]
        pub ranges: usize = Ranges::COUNT_MAX,
        /// Bytes of the largest file that --compress compresses.
        #[arg(long = "max-compress-bytes", value_name = "BYTES")]
        pub compress_bytes: u64 = 16 << 20,
        /// Files that a worker compresses at a time; others are sent uncompressed.
        #[arg(long = "max-compressions", value_name = "N")]
        pub compressions: usize = 16,
        /// Entries in a directory listing.
        ///
        /// If there are more, the listing says that it is incomplete.
        #[arg(long = "max-listing", value_name = "N")]
        pub listing_entries: usize = 10_000,
        /// Files and directories in a zip file; a directory with more is 403.
        ///
        /// Each takes about 100 bytes of memory while the zip file is sent.
        #[arg(long = "max-zip-entries", value_name = "N")]
        pub zip_entries: usize = 20_000,
        /// Bytes of all files in a zip file; a directory with more is 403.
        #[arg(long = "max-zip-bytes", value_name = "BYTES")]
        pub zip_bytes: u64 = 16 << 30,
        /// Zip files that a worker sends at a time; more is 503.
        #[arg(long = "max-zips", value_name = "N")]
        pub zips: usize = 8,
        /// Passwords that a worker checks at a time; more is 503.
        ///
        /// Those that wait count too.
        #[arg(long = "max-auth-checks", value_name = "N")]
        pub auth_checks: usize = 32,
        /// Minimum rate of a request body.
        #[arg(long = "min-body-rate", value_name = "BYTES/S")]
        pub body_rate: u64 = 1024,
        /// Minimum rate at which a client must read a response.
        #[arg(long = "min-write-rate", value_name = "BYTES/S")]
        pub write_rate: u64 = 1024,
        /// Bytes of the kernel's send buffer of a connection (SO_SNDBUF) [default: the kernel decides,
        /// up to net.ipv4.tcp_wmem]
        ///
        /// The kernel doubles it, up to `net.core.wmem_max`. More of a response waits in the server. A
        /// small buffer slows distant clients down; without this flag the kernel enlarges the buffer for
        /// fast clients.
        #[arg(long = "send-buffer", value_name = "BYTES")]
        pub send_buffer: Option<usize> = None,
        /// Time from the first byte of a request to the end of its head; then 408.
        #[arg(long = "header-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub head_time: Duration = Duration::from_secs(10),
        /// Time for a request body, in addition to the time it takes at --min-body-rate.
        ///
        /// Then the connection is closed.
        #[arg(long = "body-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub body_time: Duration = Duration::from_secs(10),
        /// Time between two requests of a connection.
        ///
        /// Then the connection is closed.
        #[arg(long = "idle-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub idle_time: Duration = Duration::from_secs(60),
        /// Time for a client to read 128 KiB of a response, unless --min-write-rate allows more.
        ///
        /// Then the connection is closed.
        #[arg(long = "write-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub write_time: Duration = Duration::from_secs(30),
        /// Time to open a file; then 503.
        ///
        /// The open finishes in the background.
        #[arg(long = "open-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub open_time: Duration = Duration::from_secs(30),
        /// Time to read 128 KiB of a file; then the connection ends.
        #[arg(long = "read-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub read_time: Duration = Duration::from_secs(60),
        /// Time for a refused client to read the response.
        ///
        /// Also the time for an HTTP/2 client to read the rest before its connection is closed.
        #[arg(long = "linger-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub linger_time: Duration = Duration::from_secs(5),
        /// Time for responses in progress to end, once the server stops.
        ///
        /// The last lines of the access log and the last messages share this time; they have at least 50 ms
        /// each, and at most 2 s and 1 s.
        #[arg(long = "drain-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub drain_time: Duration = Duration::from_secs(10),
        /// Bytes that the process holds for its clients beyond the reserves of their connections.
        #[field(skip)]
        pub memory: u64 = Memory::PROCESS,
        /// The limits of upstreams.
        #[field(skip)]
        pub upstream: UpstreamLimits = UpstreamLimits::default(),
    }
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
    /// Initial bytes of the buffer for a response of HTTP/2 or HTTP/3, which is given away with the response: enough for
    /// a head and a small file.
    pub const STREAM_OUTPUT_BYTES: usize = 2048;
    /// Requests of one HTTP/2 connection that are answered before other tasks run.
    pub const STREAMS_BEFORE_YIELD: usize = 128;
    /// Buffers that a worker keeps for later requests. Idle connections have none.
    pub const POOLED_BUFFERS: usize = 64;
    /// Bytes of the largest buffer kept: a chunk of a file, and the head before it. Allocating one
    /// again costs a page fault for each page.
    pub const POOLED_BUFFER_BYTES: usize = Limits::CHUNK + 8 * 1024;
    /// Bytes of the largest buffer kept for received bytes.
    pub const POOLED_INPUT_BYTES: usize = 8 * 1024;
    /// Bytes of buffer space of a connection that waits for its next request.
    pub const IDLE_BYTES: usize = 1024;
    /// How long such a connection keeps its buffer. Then it waits for readiness, which takes one call
    /// more when the request arrives.
    pub const IDLE_BUFFER_TIME: Duration = Duration::from_secs(1);
    /// Two ranges closer than this many bytes are sent as one, because another part costs about as
    /// much.
    pub const RANGE_GAP: u64 = 80;
    /// Bytes of access log buffered while the log is slow; further lines are counted and dropped.
    pub const LOG_BYTES: usize = 1024 * 1024;
    /// Bytes of access log that wait for a syslog or a journal, over all workers; further lines are counted and
    /// dropped. As much again may be on its way.
    pub const LOG_SOCKET_BYTES: usize = 4 * 1024 * 1024;
    /// Time for a syslog or a journal to take a line, before a warning.
    pub const LOG_SEND_TIME: Duration = Duration::from_secs(1);
    /// Time to connect to a syslog.
    pub const LOG_CONNECT_TIME: Duration = Duration::from_secs(5);
    /// Time between two attempts to connect to a syslog or a journal.
    pub const LOG_RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
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
    /// Bytes read from a refused client while it reads the response.
    pub const LINGER_BYTES: usize = 1024 * 1024;
    /// Correct passwords that a worker remembers.
    pub const AUTH_REMEMBERED: usize = 1024;
    /// Entries of a field that names clients which are read, from the last: proxies in front of one another.
    pub const PROXIES: usize = 32;
    /// The largest cost of a bcrypt hash: 2 to that power rounds, about a second.
    pub const AUTH_COST: u32 = 14;
    /// KiB of memory that a hash of Argon2 may take: as in the second recommendation of RFC 9106, section 4.
    pub const AUTH_ARGON2_KIB: u32 = 64 * 1024;
    /// The most passes over that memory, about a second.
    pub const AUTH_ARGON2_PASSES: u32 = 16;
    /// Bytes of the largest file of users.
    pub const AUTH_FILE: u64 = 1024 * 1024;
    /// Repetitions of an open when a directory of the path is renamed at the same moment.
    pub const OPEN_RACES: u32 = 16;
    /// Bytes of a response that are encrypted and not yet sent.
    pub const TLS_BUFFER: usize = 64 * 1024;
    /// Buffers for bytes that wait to be sent, over TLS and HTTP/2, that a worker keeps for later.
    pub const WRITE_BUFFERS: usize = 16;
    /// Bytes of the largest of these buffers: the records of [`Limits::TLS_BUFFER`].
    pub const WRITE_BUFFER_BYTES: usize = Limits::TLS_BUFFER + 8 * 1024;
    /// Sessions remembered for TLS 1.2 clients that do not support tickets.
    pub const TLS_SESSIONS: usize = 256;
    /// Bytes of the longest OCSP response that is sent with a certificate.
    pub const TLS_OCSP: u64 = 64 * 1024;
    /// How often certificate files are checked for changes.
    pub const TLS_CHECK_INTERVAL: Duration = Duration::from_secs(10);
    /// Arenas of the allocator (glibc) for each worker: one for itself, and one for its successor after a reload.
    pub const ARENAS_PER_WORKER: usize = 2;
    /// Arenas for all other threads.
    pub const OTHER_ARENAS: usize = 2;
    /// Bytes of freed memory that an arena keeps at its end (glibc).
    pub const FREED_BYTES_PER_ARENA: usize = 1024 * 1024;
    /// Bytes of the largest allocation that belongs to it: more than a chunk of a file, and less than a block of the
    /// buffers of idle connections, which must be returned to the system.
    pub const LARGEST_KEPT_ALLOCATION: usize = 192 * 1024;
    /// Directories of a site besides its root (`--alias`).
    pub const ALIASES: usize = 64;
    /// Names of `--https`.
    pub const ACME_NAMES: usize = 100;
    /// Bytes of a file in the directory of `--acme-state`.
    pub const ACME_FILE: u64 = 256 * 1024;
    /// Bytes of a response of an authority.
    pub const ACME_RESPONSE: u64 = 256 * 1024;
    /// Characters of an error of an authority in a message.
    pub const ACME_MESSAGE: usize = 1000;
    /// Challenges that are answered at a time.
    pub const ACME_CHALLENGES: usize = 64;
    /// Time to connect to an authority.
    pub const ACME_CONNECT_TIME: Duration = Duration::from_secs(10);
    /// Time for a request to an authority, and its response.
    pub const ACME_REQUEST_TIME: Duration = Duration::from_secs(30);
    /// Time for an authority to check a name and issue a certificate.
    pub const ACME_ORDER_TIME: Duration = Duration::from_secs(300);
    /// The first pause before an authority is asked for the status of an order; each is twice as long as the one
    /// before.
    pub const ACME_POLL_FIRST: Duration = Duration::from_millis(250);
    /// The longest of these pauses, whatever the authority asks for.
    pub const ACME_POLL_MAX: Duration = Duration::from_secs(30);
    /// How often the certificates are compared with their times of renewal, and with the files, which other servers
    /// change too.
    pub const ACME_LOOK_INTERVAL: Duration = Duration::from_secs(1);
    /// Time for other servers with the same sockets to see the answer to a challenge.
    pub const ACME_SHARE_TIME: Duration = Duration::from_millis(2500);
    /// The part of its lifetime by which a certificate may be renewed earlier than after two thirds.
    pub const ACME_JITTER: f64 = 0.05;
    /// The last part of its lifetime, before which a certificate is renewed even if its authority suggests a later time:
    /// 7.5 of 90 days.
    pub const ACME_RESERVE: f64 = 1.0 / 12.0;
    /// Orders of a certificate during the lifetime of one, at most: a wrong clock, or what the authority suggests, may make
    /// each new one due at once.
    pub const ACME_ORDERS_OF_LIFETIME: u32 = 100;
    /// Repetitions of an order, from the step that failed, when the authority has forgotten the account or refuses nonces
    /// (the numbers against replayed requests) several times.
    pub const ACME_REPETITIONS: u32 = 4;
    /// Pause after the thread that gets certificates has panicked.
    pub const ACME_PANIC_PAUSE: Duration = Duration::from_secs(60);
    /// The longest pause after failed orders.
    pub const ACME_PAUSE_MAX: Duration = Duration::from_secs(12 * 3600);
    /// The longest `Retry-After` of an authority that is respected: the limits of Let's Encrypt are for a week.
    pub const ACME_RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
    /// The shortest and the longest pause before an authority is asked again when to renew a certificate.
    pub const ACME_WINDOW_PAUSE: (Duration, Duration) =
        (Duration::from_secs(60), Duration::from_secs(6 * 3600));
    /// Directories inside each other in a zip file.
    pub const ZIP_DEPTH: usize = 64;
    /// Directory listings that a worker makes at a time; further ones wait.
    pub const LISTINGS: usize = 4;
    /// Bytes of the smallest file that is compressed.
    pub const COMPRESS_FROM: u64 = 1024;

    /// Returns the limits of a request head.
    #[doc(hidden)]
    pub fn head(&self) -> laio_http::Limits {
        laio_http::Limits {
            head_bytes: self.head_bytes,
            headers: self.headers,
            target_bytes: self.target_bytes,
        }
    }

    /// Returns the time for a final action that takes up to `most`. All final actions share one
    /// deadline, so that their times do not add up.
    #[doc(hidden)]
    pub fn final_time(deadline: Option<Instant>, most: Duration) -> Duration {
        let left = deadline.map_or(most, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        left.max(Limits::FINAL_ACTION_TIME).min(most)
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
