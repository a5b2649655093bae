//! The time limit for a slow client.

use crate::services::Services;
use laio::ops::Readiness;
use laio_rt::Descriptor;
use laio_serve_base::options::Limits;
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// The time spent waiting for a client, reset each time the client has accepted a whole chunk. A
/// client that takes a few bytes now and then gets no extra time.
pub struct SendDeadline {
    waited: Cell<Duration>,
    sent: Cell<u64>,
    limit: Duration,
}

impl SendDeadline {
    pub(crate) fn new(limit: Duration) -> SendDeadline {
        SendDeadline {
            waited: Cell::default(),
            sent: Cell::default(),
            limit,
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
    pub async fn wait_until_writable(
        &self,
        services: &Services,
        socket: &Descriptor,
    ) -> io::Result<()> {
        if services.contexts.sync {
            // The socket's own timeout has expired.
            return Err(io::ErrorKind::TimedOut.into());
        }
        let ready = laio_rt::submit(Readiness::writable(socket.clone()));
        self.wait(ready).await.map(drop)
    }

    /// Waits for the client.
    ///
    /// # Errors
    /// `TimedOut` if the client was too slow, or that of `client`.
    pub async fn wait<T>(&self, client: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let left = self.limit.saturating_sub(self.waited.get());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let begun = Instant::now();
        let ready = laio_rt::time::timeout(left, client).await;
        self.waited.set(self.waited.get() + begun.elapsed());
        ready.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
