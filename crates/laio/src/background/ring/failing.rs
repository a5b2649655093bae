//! The operation of a ring that fails, for tests ([`Inject::failing_entry`](crate::testing::Inject)).

use crate::testing::FailingEntry;
use io_uring::{opcode, squeue};

/// Counts the operations of a ring, and finds the one that fails.
#[derive(Debug)]
pub(super) struct Failing {
    entry: Option<FailingEntry>,
    /// The operations submitted until now.
    count: u64,
    /// The handle of the failing operation, while it is in flight.
    handle: Option<u64>,
}

impl Failing {
    pub(super) fn new(entry: Option<FailingEntry>) -> Failing {
        Failing {
            entry,
            count: 0,
            handle: None,
        }
    }

    /// Returns the entry for an operation: for the failing one an entry that has no effect.
    pub(super) fn entry(&mut self, entry: squeue::Entry, handle: u64) -> squeue::Entry {
        self.count += 1;
        match self.entry {
            Some(failing) if failing.nth == self.count => {
                self.handle = Some(handle);
                opcode::Nop::new().build()
            }
            _ => entry,
        }
    }

    /// Returns the result of a CQE: for that of the failing operation its errno.
    pub(super) fn result(&mut self, handle: u64, result: i32) -> i32 {
        match (self.entry, self.handle) {
            (Some(failing), Some(of)) if of == handle => {
                self.handle = None;
                -failing.errno.raw()
            }
            _ => result,
        }
    }
}
