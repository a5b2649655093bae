//! The tasks that wait for one operation, which wakes one waker.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

/// As a waker, this wakes all tasks that were added, and forgets them.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    pub(crate) fn add(&self, waker: &Waker) {
        let mut waiting = self.lock();
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// Wakes all tasks but one, and forgets them and it.
    pub(crate) fn wake_others(&self, waker: &Waker) {
        for other in self.take() {
            if !other.will_wake(waker) {
                other.wake();
            }
        }
    }

    fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Waiting>) {
        self.take().into_iter().for_each(Waker::wake);
    }
}
