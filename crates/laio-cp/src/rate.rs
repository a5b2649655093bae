//! A bound on the bytes per second of all workers together.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tells how long to wait, so that on average no more than so many bytes per second are moved.
pub(crate) struct Rate {
    per_second: u64,
    /// When all that was allowed so far has been moved, at that rate.
    until: Mutex<Instant>,
}

impl Rate {
    pub(crate) fn new(per_second: u64) -> Rate {
        Rate {
            per_second: per_second.max(1),
            until: Mutex::new(Instant::now()),
        }
    }

    /// Bytes that a piece should not exceed, so that waits are short.
    pub(crate) fn piece_size(&self) -> usize {
        usize::try_from(self.per_second / 8)
            .unwrap_or(usize::MAX)
            .clamp(4 << 10, 4 << 20)
    }

    /// Allows `bytes`, after this time.
    pub(crate) fn take(&self, bytes: usize) -> Duration {
        let now = Instant::now();
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = until.saturating_duration_since(now);
        let lasts = Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
        *until = (*until).max(now) + lasts;
        wait
    }
}
