//! Predicts the latency of calls on the source from earlier ones: whether a blocking `open` is
//! cheaper than one in the background, and whether data is cached.

use std::cell::Cell;
use std::time::Duration;

/// The number of opens per average.
const WINDOW: u32 = 64;
/// The highest average latency at which opens block the worker. Above it, the worker would lose
/// more by waiting than the about 40 µs of CPU for a helper (20 µs on each side).
const BLOCKING_MAX: Duration = Duration::from_micros(100);
/// Opens that are sent to the background before latency is measured again.
const BACKGROUND_OPENS: u32 = 1024;
/// After an uncached read, this many first reads of files are submitted without an attempt.
const UNCACHED_READS: u32 = 16;

/// The measurements of a worker, over all devices that it opens files on.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    samples: Cell<u32>,
    total: Cell<Duration>,
    /// Opens still to be sent to the background.
    background_opens_left: Cell<u32>,
    /// Reads still expected to be uncached.
    uncached_left: Cell<u32>,
}

impl Latency {
    /// Whether to open the next file on a device by a blocking call, to be measured by
    /// [`record_open`](Latency::record_open). If not, counts the open as sent to the background.
    pub(crate) fn next_open_blocks(&self) -> bool {
        let left = self.background_opens_left.get();
        self.background_opens_left.set(left.saturating_sub(1));
        left == 0
    }

    /// Records the duration of a blocking open. As soon as the opens of a window have taken longer
    /// than allowed in total, the next ones go to the background.
    pub(crate) fn record_open(&self, took: Duration) {
        let total = self.total.get() + took;
        let samples = self.samples.get() + 1;
        let is_slow = total > BLOCKING_MAX * WINDOW;
        if is_slow {
            self.background_opens_left.set(BACKGROUND_OPENS);
        }
        let goes_on = !is_slow && samples < WINDOW;
        self.total.set(if goes_on { total } else { Duration::ZERO });
        self.samples.set(if goes_on { samples } else { 0 });
    }

    /// Whether the next first read of a file is probably uncached. Uses up one prediction.
    pub(crate) fn take_uncached_prediction(&self) -> bool {
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
    fn slow_opens_go_to_the_background_for_a_while() {
        let latency = Latency::default();
        for _ in 0..10 * WINDOW {
            assert!(latency.next_open_blocks());
            latency.record_open(BLOCKING_MAX);
        }
        assert!(latency.next_open_blocks());
        latency.record_open(BLOCKING_MAX * WINDOW);
        assert!(
            latency.next_open_blocks(),
            "exactly the maximum is tolerated"
        );
        latency.record_open(Duration::from_nanos(1));
        let background_opens_left = (0..BACKGROUND_OPENS).filter(|_| !latency.next_open_blocks());
        assert_eq!(background_opens_left.count(), BACKGROUND_OPENS as usize);
        assert!(latency.next_open_blocks(), "latency is measured again");
        latency.record_open(Duration::from_secs(30));
        assert!(!latency.next_open_blocks(), "one slow open is enough");
    }

    #[test]
    fn reads_after_an_uncached_one_are_expected_to_be_uncached() {
        let latency = Latency::default();
        assert!(!latency.take_uncached_prediction());
        latency.record_read(true);
        assert!(!latency.take_uncached_prediction());
        latency.record_read(false);
        assert_eq!(
            (0..UNCACHED_READS)
                .filter(|_| latency.take_uncached_prediction())
                .count(),
            UNCACHED_READS as usize
        );
        assert!(
            !latency.take_uncached_prediction(),
            "the next read is attempted"
        );
    }
}
