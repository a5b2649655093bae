//! Ending the copy before its time.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Asks a copy to stop: between two files, between two pieces of one, and while it waits for a source. What
/// is half-written by then is removed.
#[derive(Clone, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Default)]
struct StopState {
    signal: AtomicI32,
    workers: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks to stop, because of this signal.
    pub fn stop(&self, signal: i32) {
        self.0.signal.store(signal, Ordering::SeqCst);
        let workers = std::mem::take(&mut *self.workers());
        workers.into_iter().for_each(Waker::wake);
    }

    /// The signal, if somebody has asked.
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Whether somebody has asked.
    pub fn is_requested(&self) -> bool {
        self.signal().is_some()
    }

    /// Waits until somebody asks.
    pub(crate) async fn requested(&self) {
        poll_fn(|context| {
            // In this order: whoever asks after the look finds the waker.
            self.workers().push(context.waker().clone());
            if self.is_requested() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn workers(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.0
            .workers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.signal()).finish()
    }
}
