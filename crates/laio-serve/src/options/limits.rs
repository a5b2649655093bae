//! The named limits of a server.

use super::UpstreamLimits;
use laio_http::Ranges;
use std::time::{Duration, Instant};

/// The named limits of a server. Those that are fields can be chosen; the others are constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of one worker; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Connections from one address (of IPv6, from one /64), over all workers; more are closed as soon as
    /// they are accepted. `None` is no such limit.
    pub connections_per_address: Option<u32>,
    /// Requests of one connection, so that connections spread over workers again.
    pub requests: u32,
    /// Bytes, fields and target of a request head.
    pub head: laio_http::Limits,
    /// Bytes of a request body, with its framing, that are read and thrown away; more is 413.
    pub body_bytes: u64,
    /// Ranges that one request may ask for; a request for more gets the whole file. 0 turns them off.
    pub ranges: usize,
    /// Bytes of the largest file that is compressed while it is sent.
    pub compress_bytes: u64,
    /// Files compressed at a time by one worker; others are sent as they are.
    pub compressions: usize,
    /// Entries that a listing shows.
    pub listing_entries: usize,
    /// Password checks of one worker that wait or run; more are refused with 503.
    pub auth_checks: usize,
    /// From the first byte of a request to the end of its head.
    pub head_time: Duration,
    /// For a request body, besides the time that it has at [`Limits::body_rate`].
    pub body_time: Duration,
    /// Bytes a second that a request body must make.
    pub body_rate: u64,
    /// Between two requests of a connection.
    pub idle_time: Duration,
    /// For the client to take one piece of an answer ([`Limits::PIECE`] bytes), if that is more than it
    /// needs at [`Limits::write_rate`].
    pub write_time: Duration,
    /// Bytes a second that a client must take.
    pub write_rate: u64,
    /// Bytes that the kernel holds of what a client has not taken (`SO_SNDBUF`, of which it takes the double, at most
    /// `net.core.wmem_max`). `None` leaves it to the kernel, which gives fast clients more (`net.ipv4.tcp_wmem`).
    pub send_buffer: Option<usize>,
    /// For a file to open; then the answer is 503 and the file is left to open by itself.
    pub open_time: Duration,
    /// For one piece of a file to be read; then the connection ends.
    pub read_time: Duration,
    /// For a client that was refused in the middle of its request to stop sending and read why, and for one of HTTP/2
    /// whose connection the server ends to read the rest.
    pub linger_time: Duration,
    /// For requests in flight to end, after the server was asked to stop.
    pub drain_time: Duration,
    /// Of what goes to and comes from upstreams.
    pub upstream: UpstreamLimits,
}

impl Limits {
    /// Bytes of a file read and sent at a time. A client that claims a long transfer holds no more
    /// memory than this.
    pub const PIECE: usize = 128 * 1024;
    /// Bytes of a chunk at least.
    pub const CHUNK_MIN: usize = 4096;
    /// Bytes of a chunk at most: each connection with a body has one.
    pub const CHUNK_MAX: usize = 16 << 20;
    /// Pipes, and buffers of each kind, that a worker keeps for transfers to come.
    pub const TRANSFERS_KEPT: usize = 16;
    /// Bytes that a connection sends before others have their turn: socket buffers take megabytes at once, and
    /// many clients that begin a large file would keep a small one waiting.
    pub const TURN: u64 = 2 * Limits::PIECE as u64;
    /// As [`Limits::TURN`], where the kernel sends by itself what is in memory: it is sooner done, and each turn costs
    /// three system calls.
    pub const SENDFILE_TURN: u64 = 8 * Limits::PIECE as u64;
    /// Bytes of the smallest part of a file that the kernel sends by itself: fewer are copied as soon.
    pub const SENDFILE_FROM: u64 = 16 * 1024;
    /// Chunks on their way to a client with [`Transfer::ZeroCopy`](super::Transfer::ZeroCopy), each in memory until the
    /// client has acknowledged it.
    pub const ZEROCOPY_CHUNKS: usize = 4;
    /// Buffers that a worker has ready for requests: connections that wait for one have none.
    pub const SPARE_BUFFERS: usize = 64;
    /// Bytes of the largest such buffer: a piece of a file and the head before it. To make one anew costs a page fault for each page.
    pub const SPARE_BYTES: usize = Limits::PIECE + 8 * 1024;
    /// Bytes of room that a connection which waits for a request has for it.
    pub const IDLE_BYTES: usize = 1024;
    /// Bytes between two ranges below which they are sent as one: another part costs about as much.
    pub const RANGE_GAP: u64 = 80;
    /// Bytes of access log a worker keeps while the log is slow; lines beyond are counted, not kept.
    pub const LOG_BYTES: usize = 1024 * 1024;
    /// How often it is said that lines of the access log are left out, or no longer.
    pub const LOG_SAY_EVERY: Duration = Duration::from_secs(10);
    /// How often it is said that descriptors or memory have run out.
    pub const SHORTAGE_SAY_EVERY: Duration = Duration::from_secs(10);
    /// Descriptors that are kept for files and upstreams, at least, whatever connections come; where the process may
    /// have many, it is a share of [`Limits::DESCRIPTORS_KEPT_SHARE`], and where it may have few, half of those left.
    pub const DESCRIPTORS_KEPT: usize = 32;
    /// One of so many descriptors is kept for files and upstreams.
    pub const DESCRIPTORS_KEPT_SHARE: usize = 8;
    /// Connections that are on their way out, to make room for others, while further ones are taken.
    pub const CONNECTIONS_LEAVING: usize = 8;
    /// Connections that end so that one file can be opened, or one upstream reached, when descriptors have run out.
    pub const ROOM_TRIES: usize = 4;
    /// Between these tries, for the descriptor of such a connection to be closed.
    pub const ROOM_PAUSE: Duration = Duration::from_millis(10);
    /// For a connection of HTTP/2 that makes room to say so to its client (`GOAWAY`).
    pub const LEAVE_TIME: Duration = Duration::from_millis(500);
    /// For the last lines of the access log to be written, when a worker ends.
    pub const LOG_LAST: Duration = Duration::from_secs(2);
    /// For each of the last things that a server does, such as to write the end of its log, when the time to stop
    /// ([`Limits::drain_time`]) is used up.
    pub const LAST_MOMENT: Duration = Duration::from_millis(50);
    /// Generations of workers that finish what they have begun, after the options have changed.
    pub const GENERATIONS: usize = 8;
    /// For clients with idle connections to send one more request, before these are closed because other workers
    /// take over.
    pub const HAND_OVER_GRACE: Duration = Duration::from_millis(500);
    /// Connections that a worker still takes from the kernel's queue when it stops: all that the kernel had completed,
    /// and no more, however fast others come.
    pub const ACCEPTS_AFTER_STOP: usize = Limits::BACKLOG as usize + 1;
    /// For clients whose connections were just taken to send their first request, when the server stops.
    pub const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(500);
    /// Between the start of a worker and its next start, if it dies.
    pub const RESTART_PAUSE: Duration = Duration::from_secs(1);
    /// Connections of one worker with the back end `threads`, whatever [`Limits::connections`] says.
    pub const CONNECTIONS_THREADS: usize = 1024;
    /// Helpers that a worker has for files, besides those for connections, with that back end.
    pub const HELPERS_SPARE: usize = 64;
    /// Workers with the back end `sync`, each of which serves one connection at a time.
    pub const WORKERS_SYNC: usize = 64;
    /// Connections that wait in the kernel's queue of one worker.
    pub const BACKLOG: i32 = 1024;
    /// Bytes read from a client that was refused, so that it gets to read why.
    pub const LINGER_BYTES: usize = 1024 * 1024;
    /// Passwords that a worker remembers to be right.
    pub const AUTH_REMEMBERED: usize = 1024;
    /// The largest cost of a bcrypt hash: two to that power rounds, about a second.
    pub const AUTH_COST: u32 = 14;
    /// Bytes of the largest file with users.
    pub const AUTH_FILE: u64 = 1024 * 1024;
    /// Times an opening is tried again when a directory on the way is renamed at the same moment.
    pub const OPEN_RACES: u32 = 16;
    /// Bytes of an answer that are encrypted and not yet sent.
    pub const TLS_BUFFER: usize = 64 * 1024;
    /// Sessions remembered of clients of TLS 1.2 that take no tickets.
    pub const TLS_SESSIONS: usize = 256;
    /// How often the files of certificates are looked at.
    pub const TLS_LOOK: Duration = Duration::from_secs(10);
    /// Bytes of the smallest file that is worth compressing.
    pub const COMPRESS_FROM: u64 = 1024;

    /// The time for something at the end of the server that takes up to `most`: it shares one deadline with what was
    /// before, so that their times do not add up.
    pub(crate) fn last(deadline: Option<Instant>, most: Duration) -> Duration {
        let left = deadline.map_or(most, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        left.max(Limits::LAST_MOMENT).min(most)
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
        assert_eq!(Limits::last(None, most), most);
        assert_eq!(
            Limits::last(Some(Instant::now()), most),
            Limits::LAST_MOMENT
        );
        let later = Some(Instant::now() + Duration::from_secs(500));
        let left = Limits::last(later, most);
        assert!(left <= Duration::from_secs(500) && left > Limits::LAST_MOMENT);
        let short = Duration::from_millis(1);
        assert_eq!(Limits::last(later, short), short);
    }
}
