//! Files that this copy created, so that it does not copy or write through its own output.

use crate::lock::lock;
use crate::tree::identity::{Identity, identity};
use laio_rt::fs::Metadata;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Directories and symbolic links that this copy created.
///
/// For each argument, recording the first created directory is enough, unless its destination is
/// inside its source.
#[derive(Debug, Default)]
pub(crate) struct CreatedFiles {
    files: Mutex<HashSet<Identity>>,
    /// Whether `files` has an element: saves most callers the lock.
    any: AtomicBool,
}

impl CreatedFiles {
    pub(crate) fn insert(&self, status: &Metadata) {
        let mut files = lock(&self.files);
        files.insert(identity(status));
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn contains(&self, status: &Metadata) -> bool {
        self.any.load(Ordering::Acquire)
            && self
                .files
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&identity(status))
    }
}
