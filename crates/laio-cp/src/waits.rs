//! How long calls on the source wait, guessed from those before: whether opening is worth a hand-over, and whether
//! data is in memory.

use std::cell::Cell;
use std::time::Duration;

/// Calls of which the time is added up.
const WINDOW: u32 = 64;
/// What plain calls may wait on the average. To hand a call over costs some 20 us of two processors, and whoever
/// waits can do nothing else meanwhile.
const TOLERATED: Duration = Duration::from_micros(100);
/// Calls that are handed over before it is looked again.
const HANDED_OVER: u32 = 1024;
/// Reads that are thought to wait after one that did.
const COLD: u32 = 16;

/// What a worker has seen.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    timed: Cell<u32>,
    waited: Cell<Duration>,
    /// Calls that are yet to be handed over.
    handed_over: Cell<u32>,
    /// Reads that are yet to be thought to wait.
    cold: Cell<u32>,
}

impl Waits {
    /// Whether to open something on a device plainly, which is to be [timed](Waits::opened).
    pub(crate) fn opens_plainly(&self) -> bool {
        let left = self.handed_over.get();
        self.handed_over.set(left.saturating_sub(1));
        left == 0
    }

    /// How long it took to open something plainly.
    pub(crate) fn opened(&self, took: Duration) {
        let waited = self.waited.get() + took;
        let timed = self.timed.get() + 1;
        let is_slow = waited > TOLERATED * WINDOW;
        if is_slow {
            self.handed_over.set(HANDED_OVER);
        }
        let goes_on = !is_slow && timed < WINDOW;
        self.waited
            .set(if goes_on { waited } else { Duration::ZERO });
        self.timed.set(if goes_on { timed } else { 0 });
    }

    /// Whether the next read will wait, most probably.
    pub(crate) fn is_cold(&self) -> bool {
        let left = self.cold.get();
        self.cold.set(left.saturating_sub(1));
        left > 0
    }

    /// How a read went that was not thought to wait.
    pub(crate) fn read(&self, at_once: bool) {
        if !at_once {
            self.cold.set(COLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_long_is_handed_over_for_a_while() {
        let waits = Waits::default();
        for _ in 0..10 * WINDOW {
            assert!(waits.opens_plainly());
            waits.opened(TOLERATED);
        }
        assert!(waits.opens_plainly());
        waits.opened(TOLERATED * WINDOW);
        assert!(waits.opens_plainly(), "not more than is tolerated");
        waits.opened(Duration::from_nanos(1));
        let handed_over = (0..HANDED_OVER).filter(|_| !waits.opens_plainly());
        assert_eq!(handed_over.count(), HANDED_OVER as usize);
        assert!(waits.opens_plainly(), "it is looked again");
        waits.opened(Duration::from_secs(30));
        assert!(!waits.opens_plainly(), "one may be enough");
    }

    #[test]
    fn after_a_read_that_waited_others_are_thought_to() {
        let waits = Waits::default();
        assert!(!waits.is_cold());
        waits.read(true);
        assert!(!waits.is_cold());
        waits.read(false);
        assert_eq!((0..COLD).filter(|_| waits.is_cold()).count(), COLD as usize);
        assert!(!waits.is_cold(), "it is tried again");
    }
}
