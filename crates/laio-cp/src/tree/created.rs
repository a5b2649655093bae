//! Files that this copy created, so that it does not copy or write through its own output.

use super::identity::{Identity, identity};
use crate::lock::lock;
use laio_rt::fs::Metadata;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

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
        self.any.load(Ordering::Acquire) && lock(&self.files).contains(&identity(status))
    }
}
