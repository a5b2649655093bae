//! The end of the operations of a batch, which wakes its task once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;

/// The end of the operations of a batch.
#[derive(Default)]
pub(super) struct BatchEnd {
    pub(super) in_flight: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl BatchEnd {
    /// Counts one operation that is over. Returns the waker if it was the last.
    pub(super) fn count_one(&self) -> Option<Waker> {
        if self.in_flight.fetch_sub(1, SeqCst) > 1 {
            return None;
        }
        let mut waker = self.waker.lock().unwrap_or_else(|error| error.into_inner());
        waker.take()
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        let new = Some(waker.clone());
        let before = {
            let mut kept = self.waker.lock().unwrap_or_else(|error| error.into_inner());
            std::mem::replace(&mut *kept, new)
        };
        drop(before);
    }
}
