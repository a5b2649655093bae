//! Requests that a copy stop early.

use crate::lock::lock;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Requests that a copy stop: between two files, between two pieces of a file, or while it waits
/// for a source. The copy then removes partial files.
#[derive(Clone, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Default)]
struct StopState {
    signal: Arc<AtomicUsize>,
    workers: Mutex<Vec<Waker>>,
}

impl Stop {
    /// Makes a handle on which no stop is requested.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Requests a stop because of this signal.
    pub fn stop(&self, signal: i32) {
        let number = usize::try_from(signal).unwrap_or(0);
        self.0.signal.store(number, Ordering::SeqCst);
        let workers = std::mem::take(&mut *lock(&self.0.workers));
        workers.into_iter().for_each(Waker::wake);
    }

    /// The number of the signal, which a signal handler may set where no thread can call [`Stop::stop`]: the copy then stops
    /// when it looks at the number, between two files or two pieces of a file.
    pub fn number(&self) -> Arc<AtomicUsize> {
        self.0.signal.clone()
    }

    /// The signal of the request, if there is one.
    pub fn signal(&self) -> Option<i32> {
        let number = self.0.signal.load(Ordering::SeqCst);
        i32::try_from(number).ok().filter(|signal| *signal != 0)
    }

    /// Whether a stop is requested, or memory is exhausted.
    pub fn is_requested(&self) -> bool {
        self.signal().is_some() || laio::process::is_memory_exhausted()
    }

    /// Waits for a request.
    pub(crate) async fn requested(&self) {
        poll_fn(|context| {
            // Register first: a request after the check then finds the waker.
            lock(&self.0.workers).push(context.waker().clone());
            if self.is_requested() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.signal()).finish()
    }
}
