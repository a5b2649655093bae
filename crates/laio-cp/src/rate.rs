//! A limit on the bytes per second of all workers together.

use crate::lock::lock;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Computes pauses so that the average rate stays below the limit.
pub(crate) struct Rate {
    per_second: u64,
    /// The time until which the bytes allowed so far last at this rate.
    until: Mutex<Instant>,
}

impl Rate {
    pub(crate) fn new(per_second: u64) -> Rate {
        Rate {
            per_second: per_second.max(1),
            until: Mutex::new(Instant::now()),
        }
    }

    /// The maximum number of bytes per piece, so that pauses are short.
    pub(crate) fn piece_size(&self) -> usize {
        usize::try_from(self.per_second / 8)
            .unwrap_or(usize::MAX)
            .clamp(4 << 10, 4 << 20)
    }

    /// Reserves `bytes`, and returns the pause before they may be used.
    pub(crate) fn take(&self, bytes: usize) -> Duration {
        let now = Instant::now();
        let mut until = lock(&self.until);
        let wait = until.saturating_duration_since(now);
        let lasts = Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
        *until = (*until).max(now) + lasts;
        wait
    }
}
