//! The timers of one executor, ordered by expiry.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Instant;

/// Identifies a timer: its deadline, and a number that makes it unique.
pub(crate) type TimerId = (Instant, u64);

/// A search tree rather than a heap: most timers are time-outs of operations that finish first, and a tree
/// can remove them.
#[derive(Default)]
pub(crate) struct Timers {
    timers: BTreeMap<TimerId, Waker>,
    next: u64,
}

impl Timers {
    /// Starts a timer.
    pub(crate) fn insert(&mut self, deadline: Instant, waker: Waker) -> TimerId {
        let id = (deadline, self.next);
        self.next += 1;
        self.timers.insert(id, waker);
        id
    }

    /// Removes a timer and returns its waker, unless it has expired.
    pub(crate) fn remove(&mut self, id: TimerId) -> Option<Waker> {
        self.timers.remove(&id)
    }

    /// Returns the earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (first, _) = self.timers.first_key_value()?;
        Some(first.0)
    }

    /// Moves the wakers of all timers that have expired at `now` to `due`, earliest first.
    pub(crate) fn take_due(&mut self, now: Instant, due: &mut Vec<Waker>) {
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
    }

    /// Returns the number of timers that have not expired.
    pub(crate) fn count(&self) -> usize {
        self.timers.len()
    }
}
