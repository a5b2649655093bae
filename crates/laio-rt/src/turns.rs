//! Counts the turns of the executor's loop, for its tasks and for a watch on another thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often turns have begun and ended. Between a turn and the next one, completions are reaped. The number
/// is odd while no tasks run: before the first turn, while completions are reaped, and outside of `block_on`.
#[derive(Debug)]
pub(crate) struct Turns(AtomicU64);

impl Default for Turns {
    fn default() -> Turns {
        Turns(AtomicU64::new(1))
    }
}

impl Turns {
    /// Tasks run from here on.
    pub(crate) fn begin(&self) {
        let count = self.count();
        self.set(count + count % 2);
    }

    /// No tasks run from here on.
    pub(crate) fn end(&self) {
        self.set(self.count() | 1);
    }

    /// The number of the present turn.
    pub(crate) fn number(&self) -> u64 {
        self.count() / 2
    }

    /// How often turns have begun and ended.
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the thread of the runtime stores, so that no addition of another one is lost.
    fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}
