//! The time limit for a slow client.

use crate::options::Limits;
use crate::services::Services;
use laio::ops::Readiness;
use laio_rt::Descriptor;
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// The time spent waiting for a client, reset each time the client has accepted a whole chunk. A
/// client that takes a few bytes now and then gets no extra time.
pub(crate) struct SendDeadline {
    waited: Cell<Duration>,
    sent: Cell<u64>,
    limit: Duration,
}

impl SendDeadline {
    pub(crate) fn new(services: &Services) -> SendDeadline {
        SendDeadline {
            waited: Cell::default(),
            sent: Cell::default(),
            limit: time_to_send(services, Limits::CHUNK),
        }
    }

    /// Records that the socket accepted `count` bytes.
    pub(crate) fn add_sent(&self, count: u64) {
        let sent = self.sent.get() + count;
        if sent >= Limits::CHUNK as u64 {
            self.waited.set(Duration::ZERO);
            self.sent.set(0);
        } else {
            self.sent.set(sent);
        }
    }

    /// Waits until the socket is writable.
    ///
    /// # Errors
    /// `TimedOut` if the client was too slow, or that of the socket.
    pub(crate) async fn wait_until_writable(
        &self,
        services: &Services,
        socket: &Descriptor,
    ) -> io::Result<()> {
        if services.contexts.sync {
            // The socket's own timeout has expired.
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = self.limit.saturating_sub(self.waited.get());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let begun = Instant::now();
        let ready = laio_rt::submit(Readiness::writable(socket.clone()));
        let ready = laio_rt::time::timeout(left, ready).await;
        self.waited.set(self.waited.get() + begun.elapsed());
        match ready {
            Ok(seen) => seen.map(drop),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Returns the time limit for sending `length` bytes. A slower client would occupy a connection
/// and a buffer for too long.
pub(super) fn time_to_send(services: &Services, length: usize) -> Duration {
    let limits = &services.limits;
    let at_rate = length as u64 / limits.write_rate.max(1);
    limits.write_time.max(Duration::from_secs(at_rate))
}
