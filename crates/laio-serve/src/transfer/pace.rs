//! The time limit for a slow client.

use crate::options::Limits;
use crate::worker::Worker;
use laio::ops::Readiness;
use laio_rt::Descriptor;
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// The time spent waiting for a client, reset each time the client has taken a whole piece. A
/// client that takes a few bytes now and then gets no extra time.
pub(crate) struct Pace {
    waited: Cell<Duration>,
    taken: Cell<u64>,
    most: Duration,
}

impl Pace {
    pub(crate) fn new(worker: &Worker) -> Pace {
        Pace {
            waited: Cell::default(),
            taken: Cell::default(),
            most: worker.time_to_send(Limits::PIECE),
        }
    }

    /// Records that the socket accepted `count` bytes.
    pub(crate) fn took(&self, count: u64) {
        let taken = self.taken.get() + count;
        if taken >= Limits::PIECE as u64 {
            self.waited.set(Duration::ZERO);
            self.taken.set(0);
        } else {
            self.taken.set(taken);
        }
    }

    /// Waits until the socket is writable.
    ///
    /// # Errors
    /// `TimedOut` if the client was too slow, or that of the socket.
    pub(crate) async fn wait(&self, worker: &Worker, socket: &Descriptor) -> io::Result<()> {
        if worker.is_sync() {
            // The socket's own timeout has expired.
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = self.most.saturating_sub(self.waited.get());
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
