//! The locks of `work_queue`: those of the model checker where the model includes it.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
