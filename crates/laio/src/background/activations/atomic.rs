//! The atomics on which [`super::state`] is written: those of the model checker where the model includes it.

pub(super) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
