//! The locks and the atomic of `queue`: the ones of the model checker where the model includes it.

pub(super) use std::sync::atomic::{AtomicU32, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
