//! Directories that this copy has made: they are not copied in turn, and get their attributes.

use laio_rt::fs::Metadata;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Device and inode.
pub(crate) type Identity = (u64, u64);

/// What a file is, whatever its name.
pub(crate) fn identity(status: &Metadata) -> Identity {
    (status.device(), status.inode())
}

/// Of those that are not to be copied, for each argument the first is enough, unless the destination is known to be
/// inside the source.
#[derive(Debug, Default)]
pub(crate) struct Made {
    directories: Mutex<HashSet<Identity>>,
    any: AtomicBool,
}

impl Made {
    pub(crate) fn insert(&self, status: &Metadata) {
        let mut directories = self
            .directories
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        directories.insert(identity(status));
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn contains(&self, status: &Metadata) -> bool {
        self.any.load(Ordering::Acquire)
            && self
                .directories
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&identity(status))
    }
}
