//! Timers of one executor, in the order in which they are due.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Instant;

/// The identity of a timer: when it is due, and a number that makes it unique.
pub(crate) type TimerId = (Instant, u64);

/// A search tree rather than a heap: most timers guard an operation that finishes first, and a tree
/// takes those out for good.
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

    /// Changes whom a timer wakes. False if it was due before.
    pub(crate) fn update(&mut self, id: TimerId, waker: &Waker) -> bool {
        match self.timers.get_mut(&id) {
            Some(present) => {
                present.clone_from(waker);
                true
            }
            None => false,
        }
    }

    /// Takes a timer out, if it was not due before.
    pub(crate) fn remove(&mut self, id: TimerId) -> Option<Waker> {
        self.timers.remove(&id)
    }

    /// When the next timer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (first, _) = self.timers.first_key_value()?;
        Some(first.0)
    }

    /// Moves the wakers of all timers due at `now` to `due`, earliest first.
    pub(crate) fn take_due(&mut self, now: Instant, due: &mut Vec<Waker>) {
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
    }

    /// Timers that are not due yet.
    pub(crate) fn count(&self) -> usize {
        self.timers.len()
    }
}
