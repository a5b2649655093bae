//! What changes need, and no other step.

use super::change_extension::{ChangeExtension, ExtendsChanges};
use super::names_in_change::NamesInChange;
use laio_rt::sync::Semaphore;
use laio_serve_base::options::Limits;
use laio_serve_core::site::Site;
use std::sync::Arc;

/// What changes need beside the services of their worker.
pub struct ChangeServices {
    pub(super) names_in_change: Arc<NamesInChange>,
    extension: Option<ChangeExtension>,
    /// Limits the changes at the same time.
    pub(super) permits: Semaphore,
}

/// What the changes of all workers share, before and after a reload.
#[derive(Clone)]
pub struct SharedChanges {
    names_in_change: Arc<NamesInChange>,
    extension: Option<ChangeExtension>,
}

impl SharedChanges {
    /// Returns what the changes share, and what a feature adds to them.
    pub fn new(extension: Option<ChangeExtension>) -> SharedChanges {
        SharedChanges {
            names_in_change: Arc::default(),
            extension,
        }
    }
}

impl ChangeServices {
    /// Returns the services of a worker, which shares some with others.
    pub fn new(shared: SharedChanges, limits: &Limits) -> ChangeServices {
        ChangeServices {
            names_in_change: shared.names_in_change,
            extension: shared.extension,
            permits: Semaphore::new(limits.changes),
        }
    }

    /// Returns what a feature adds to changes, of whichever site.
    pub(super) fn extension(&self) -> Option<&dyn ExtendsChanges> {
        self.extension.as_ref().map(|it| &*it.0)
    }

    /// Returns what a feature of this site adds to changes.
    pub(super) fn extension_of(&self, site: &Site) -> Option<&dyn ExtendsChanges> {
        self.extension().filter(|it| it.is_of(site))
    }
}
