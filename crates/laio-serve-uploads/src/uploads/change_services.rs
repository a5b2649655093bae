//! What changes need, and no other step.

use super::names_in_change::NamesInChange;
use super::webdav::locks::Locks;
use laio_rt::sync::Semaphore;
use laio_serve_base::options::Limits;
use std::sync::Arc;

/// What changes need beside the services of their worker.
pub struct ChangeServices {
    pub(super) names_in_change: Arc<NamesInChange>,
    pub(super) locks: Arc<Locks>,
    /// Limits the changes at the same time.
    pub(super) permits: Semaphore,
}

/// What the changes of all workers share, before and after a reload.
#[derive(Clone, Default)]
pub struct SharedChanges {
    names_in_change: Arc<NamesInChange>,
    locks: Arc<Locks>,
}

impl ChangeServices {
    /// Returns the services of a worker, which shares some with others.
    pub fn new(shared: SharedChanges, limits: &Limits) -> ChangeServices {
        ChangeServices {
            names_in_change: shared.names_in_change,
            locks: shared.locks,
            permits: Semaphore::new(limits.changes),
        }
    }
}
