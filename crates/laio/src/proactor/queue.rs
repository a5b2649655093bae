//! The queue of a driver: any thread pushes, the driver takes everything at once.
//!
//! This file uses only one atomic, so that the model checker can run it; see `tests/model.rs`.

use super::atomic::{AtomicPtr, Ordering::*};
use std::ptr::null_mut;

/// A queue that is only emptied as a whole, so that the ABA problem cannot occur.
pub(super) struct Queue<T> {
    newest: AtomicPtr<Node<T>>,
}

struct Node<T> {
    value: T,
    older: *mut Node<T>,
}

// SAFETY: a queue only passes values from one thread to another.
unsafe impl<T: Send> Send for Queue<T> {}
// SAFETY: as above; no reference to a value in the queue is handed out.
unsafe impl<T: Send> Sync for Queue<T> {}

impl<T> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue {
            newest: AtomicPtr::new(null_mut()),
        }
    }

    /// Pushes values, which stay together. Returns whether the queue was empty: then the caller must
    /// wake the driver. A queue that was not empty has a caller that does so.
    pub(super) fn push(&self, values: impl IntoIterator<Item = T>) -> bool {
        let (mut oldest, mut newest): (*mut Node<T>, *mut Node<T>) = (null_mut(), null_mut());
        for value in values {
            let older = newest;
            newest = Box::into_raw(Box::new(Node { value, older }));
            if oldest.is_null() {
                oldest = newest;
            }
        }
        if newest.is_null() {
            return false;
        }
        let mut before = self.newest.load(Relaxed);
        loop {
            // SAFETY: the node is this thread's until the exchange succeeds.
            unsafe { (*oldest).older = before };
            match self.newest.compare_exchange(before, newest, SeqCst, SeqCst) {
                Ok(_) => return before.is_null(),
                Err(now) => before = now,
            }
        }
    }

    /// Takes all values, the oldest first.
    pub(super) fn take_all(&self) -> Vec<T> {
        let mut node = self.newest.swap(null_mut(), SeqCst);
        let mut values = Vec::new();
        while !node.is_null() {
            // SAFETY: it comes from a box, and left the queue with the swap.
            let Node { value, older } = *unsafe { Box::from_raw(node) };
            values.push(value);
            node = older;
        }
        values.reverse();
        values
    }
}

impl<T> Drop for Queue<T> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}
