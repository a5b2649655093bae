//! The atomics on which `queue` is written: those of the model checker where the model includes it.

pub(super) use std::sync::atomic::{AtomicPtr, Ordering};
