//! Which work is done when: work items, workers, and the walk through directories.

pub(crate) mod listing;
pub(crate) mod pool;
pub(crate) mod walk;
pub(crate) mod worker;
