//! The atomics on which [`super::state`] is written: those of the model checker where the model includes it.

pub(super) use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// A store that releases. A function, because the model checker does not order a store that races with an exchange of the
/// same word, which memory does; it makes an exchange of this.
pub(super) fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Release);
}
