//! The atomics on which `queue` and `work_queue` are written: those of the model checker where the model includes them.

pub(super) use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
