//! Keeping the measuring thread on one processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// While this lives, the thread stays on the processor that it was on.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
    here: usize,
}

impl Pinned {
    /// `None` where the system does not allow it: then the thread moves, and the spread shows it.
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

    /// The processor.
    pub(crate) fn processor(&self) -> usize {
        self.here
    }

    /// Another one, if the thread was allowed to run on one.
    pub(crate) fn other_processor(&self) -> Option<usize> {
        let allowed = |processor: &usize| self.before.is_set(*processor);
        (0..CpuSet::MAX_CPU)
            .filter(allowed)
            .find(|processor| *processor != self.here)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before; if it is not any more, measuring goes on here.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Keeps this thread, and those that it starts, on the first so many of the processors that it may use.
pub(crate) fn to_first(processors: usize) -> rustix::io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    let first = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    for processor in first.take(processors) {
        only.set(processor);
    }
    sched_setaffinity(None, &only)
}
