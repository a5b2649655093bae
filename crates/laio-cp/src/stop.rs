//! Ending the copy before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Asks a copy to stop: between two files, and between two pieces of one. What is half-written by then is
/// removed.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicI32>);

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks to stop, because of this signal.
    pub fn stop(&self, signal: i32) {
        self.0.store(signal, Ordering::Relaxed);
    }

    /// The signal, if somebody has asked.
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.signal().is_some()
    }
}
