//! Locks of plain data.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks data that a panic cannot leave inconsistent.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
