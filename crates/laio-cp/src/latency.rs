//! Predicts the latency of calls on the source from earlier ones: whether a blocking `open` is
//! cheaper than a hand-over, and whether data is cached.

use std::cell::Cell;
use std::time::Duration;

/// The number of opens per average.
const WINDOW: u32 = 64;
/// Average latency up to which a blocking call is preferred; handing it to a helper costs about 20
/// µs of CPU on each side, but the worker can do nothing else while it blocks.
const BLOCKING_MAX: Duration = Duration::from_micros(100);
/// Opens that are handed over before latency is measured again.
const HANDOFFS: u32 = 1024;
/// Reads that are expected to be uncached after one that was.
const UNCACHED_READS: u32 = 16;

/// The measurements of a worker.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    samples: Cell<u32>,
    total: Cell<Duration>,
    /// Opens still to be handed over.
    handoffs_left: Cell<u32>,
    /// Reads still expected to be uncached.
    uncached_left: Cell<u32>,
}

impl Latency {
    /// Whether to open a file on a device by a blocking call, to be measured by
    /// [`record_open`](Latency::record_open).
    pub(crate) fn prefers_blocking_open(&self) -> bool {
        let left = self.handoffs_left.get();
        self.handoffs_left.set(left.saturating_sub(1));
        left == 0
    }

    /// Records the duration of a blocking open.
    pub(crate) fn record_open(&self, took: Duration) {
        let total = self.total.get() + took;
        let samples = self.samples.get() + 1;
        let is_slow = total > BLOCKING_MAX * WINDOW;
        if is_slow {
            self.handoffs_left.set(HANDOFFS);
        }
        let goes_on = !is_slow && samples < WINDOW;
        self.total.set(if goes_on { total } else { Duration::ZERO });
        self.samples.set(if goes_on { samples } else { 0 });
    }

    /// Whether the next read is probably uncached.
    pub(crate) fn expects_uncached(&self) -> bool {
        let left = self.uncached_left.get();
        self.uncached_left.set(left.saturating_sub(1));
        left > 0
    }

    /// Records whether an attempted read was done inline.
    pub(crate) fn record_read(&self, inline: bool) {
        if !inline {
            self.uncached_left.set(UNCACHED_READS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_opens_are_handed_over_for_a_while() {
        let latency = Latency::default();
        for _ in 0..10 * WINDOW {
            assert!(latency.prefers_blocking_open());
            latency.record_open(BLOCKING_MAX);
        }
        assert!(latency.prefers_blocking_open());
        latency.record_open(BLOCKING_MAX * WINDOW);
        assert!(
            latency.prefers_blocking_open(),
            "exactly the maximum is tolerated"
        );
        latency.record_open(Duration::from_nanos(1));
        let handoffs_left = (0..HANDOFFS).filter(|_| !latency.prefers_blocking_open());
        assert_eq!(handoffs_left.count(), HANDOFFS as usize);
        assert!(latency.prefers_blocking_open(), "latency is measured again");
        latency.record_open(Duration::from_secs(30));
        assert!(!latency.prefers_blocking_open(), "one slow open is enough");
    }

    #[test]
    fn reads_after_an_uncached_one_are_expected_to_be_uncached() {
        let latency = Latency::default();
        assert!(!latency.expects_uncached());
        latency.record_read(true);
        assert!(!latency.expects_uncached());
        latency.record_read(false);
        assert_eq!(
            (0..UNCACHED_READS)
                .filter(|_| latency.expects_uncached())
                .count(),
            UNCACHED_READS as usize
        );
        assert!(!latency.expects_uncached(), "the next read is attempted");
    }
}
