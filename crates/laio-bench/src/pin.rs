//! Pins the measuring thread to a processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// While this exists, the thread stays on its current processor.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
    here: usize,
}

impl Pinned {
    /// Returns `None` if the system does not permit it: then the thread may migrate, which increases the
    /// spread.
    pub(crate) fn here() -> Option<Pinned> {
        let before = sched_getaffinity(None).ok()?;
        let here = sched_getcpu();
        if here >= CpuSet::MAX_CPU {
            return None;
        }
        let mut only = CpuSet::new();
        only.set(here);
        sched_setaffinity(None, &only).ok()?;
        Some(Pinned { before, here })
    }

    /// Returns the processor.
    pub(crate) fn processor(&self) -> usize {
        self.here
    }

    /// Returns another processor, if the thread was allowed to run on one.
    pub(crate) fn other_processor(&self) -> Option<usize> {
        let allowed = |processor: &usize| self.before.is_set(*processor);
        (0..CpuSet::MAX_CPU)
            .filter(allowed)
            .find(|processor| *processor != self.here)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // If the old set is no longer allowed, the thread stays pinned.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Pins this thread, and those that it starts, to the first `count` of the processors that it may use.
pub(crate) fn to_first(processors: usize) -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    let first = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    for processor in first.take(processors) {
        only.set(processor);
    }
    sched_setaffinity(None, &only)
}
