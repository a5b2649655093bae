//! The descriptors of directories, and the number of those that may be open.

use crate::lock::lock;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// An open directory, shared by operations on any thread.
pub(crate) type Handle = Arc<OwnedFd>;

/// The descriptors of a source directory and its destination. `None`: the working directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handles {
    pub(crate) source: Option<Handle>,
    pub(crate) target: Option<Handle>,
}

/// The descriptors of a directory, if they are open.
#[derive(Debug, Default)]
pub(crate) struct HandleSlot(Mutex<Option<OpenHandles>>);

/// The descriptors of an open directory.
#[derive(Debug)]
struct OpenHandles {
    handles: Handles,
    /// `None`: not counted, and never closed.
    _counted: Option<CountGuard>,
}

/// The number of open directories of all workers, and its maximum.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors {
    open: Arc<AtomicUsize>,
    pub(crate) max: usize,
}

/// Counts one open directory.
#[derive(Debug)]
struct CountGuard(Arc<AtomicUsize>);

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Descriptors {
    /// Allows at most `max` open directories, with two descriptors each.
    pub(crate) fn new(max: usize) -> Descriptors {
        Descriptors {
            open: Arc::default(),
            max,
        }
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.max
    }
}

impl HandleSlot {
    /// A slot that is never closed.
    pub(crate) fn always(handles: Handles) -> HandleSlot {
        HandleSlot(Mutex::new(Some(OpenHandles {
            handles,
            _counted: None,
        })))
    }

    pub(crate) fn get(&self) -> Option<Handles> {
        lock(&self.0).as_ref().map(|open| open.handles.clone())
    }

    pub(crate) fn is_open(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Stores the descriptors; returns `false` if the directory is open already.
    pub(crate) fn set(&self, handles: Handles, descriptors: &Descriptors) -> bool {
        let mut slot = lock(&self.0);
        if slot.is_some() {
            return false;
        }
        let count = &descriptors.open;
        count.fetch_add(1, Ordering::Relaxed);
        *slot = Some(OpenHandles {
            handles,
            _counted: Some(CountGuard(count.clone())),
        });
        true
    }

    /// Closes the descriptors; operations in flight still hold them.
    pub(crate) fn close(&self) {
        // `close` runs after the lock is released.
        let open = lock(&self.0).take();
        drop(open);
    }
}
