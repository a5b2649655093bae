//! The status word of an operation: memory that a helper thread updates when the operation
//! finishes, even if the context's own thread is busy. The context itself writes the results of
//! calls that finish without a helper, and of cancelled ones.

use crate::Errno;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering::*};

/// The state and the result of an operation. In C it is `struct laio_status`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct StatusWord {
    state: AtomicI32,
    reserved: i32,
    result: AtomicIsize,
}

/// The address of the status word of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusTarget(NonNull<StatusWord>);

// SAFETY: the status is made of atomics, and the caller keeps it in place until the call has
// returned its result or the completion has been delivered.
unsafe impl Send for StatusTarget {}

impl StatusWord {
    /// Returns a status word in the state `EINPROGRESS`.
    pub fn new() -> StatusWord {
        let status = StatusWord::default();
        status.begin();
        status
    }

    /// Returns the result of the operation if it has finished. Data that the operation wrote to its
    /// buffers is then visible.
    pub fn get(&self) -> Option<Result<usize, Errno>> {
        match self.state.load(Acquire) {
            libc::EINPROGRESS => None,
            0 => Some(Ok(self.result.load(Relaxed) as usize)),
            errno => Some(Err(Errno::from_raw(errno))),
        }
    }

    /// Returns `EINPROGRESS` while the operation runs, then 0 or the errno.
    pub fn state(&self) -> i32 {
        self.state.load(Acquire)
    }

    fn begin(&self) {
        self.state.store(libc::EINPROGRESS, Relaxed);
    }

    fn publish(&self, result: Result<usize, Errno>) {
        let (value, errno) = match result {
            Ok(value) => (value as isize, 0),
            Err(errno) => (-1, errno.raw()),
        };
        self.result.store(value, Relaxed);
        // A thread that loads this value also sees the result and the buffers.
        self.state.store(errno, Release);
    }
}

impl StatusTarget {
    /// Puts the status word into the state `EINPROGRESS`.
    ///
    /// # Safety
    /// It stays in place until the call has returned its result or the completion has been
    /// delivered.
    pub(crate) unsafe fn begin(status: NonNull<StatusWord>) -> StatusTarget {
        // SAFETY: by the caller.
        unsafe { status.as_ref() }.begin();
        StatusTarget(status)
    }

    pub(crate) fn publish(self, result: Result<usize, Errno>) {
        // SAFETY: it stays in place until the completion has been delivered, which is still to come.
        unsafe { self.0.as_ref() }.publish(result);
    }

    /// Whether a helper has published a result, rather than the context.
    pub(crate) fn is_published(self) -> bool {
        // SAFETY: as for `publish`.
        unsafe { self.0.as_ref() }.state() != libc::EINPROGRESS
    }
}
