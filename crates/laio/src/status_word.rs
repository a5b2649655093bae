//! The status word of an operation: memory that a helper thread updates when the operation
//! finishes, even if the context's own thread is busy. The context itself writes the results of
//! calls that finish without a helper, and of cancelled ones.

use crate::attempt::Attempted;
use crate::context::Context;
use crate::{Call, Errno, Outcome};
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

impl Context {
    /// Makes a call like [`Context::call_with`], and updates `status` when the call has finished,
    /// even while this thread does something else.
    ///
    /// In every back end, a call that would block goes to a helper, because only another thread can
    /// write the status word meanwhile. While it runs, the call counts against [`Limits::helpers`]
    /// or [`Limits::waiting_helpers`]. Its completion is delivered as well.
    ///
    /// While the call is queued behind an earlier operation on its descriptor, no helper has it:
    /// it starts, and the status word changes, only after this thread has called
    /// [`Context::poll`] or another function that reaps completions.
    ///
    /// [`Limits::helpers`]: crate::Limits::helpers
    /// [`Limits::waiting_helpers`]: crate::Limits::waiting_helpers
    ///
    /// # Safety
    /// As for [`Context::call`]; and `status` must stay valid as long as what the call points to.
    pub unsafe fn call_with_status(
        &mut self,
        call: Call,
        user_data: u64,
        status: NonNull<StatusWord>,
    ) -> Outcome {
        self.notice_fork();
        let target = StatusTarget(status);
        // SAFETY: by the caller.
        unsafe { status.as_ref() }.begin();
        // Only a helper can write the status word.
        self.no_carrier = true;
        // SAFETY: by the caller.
        let attempted = unsafe { self.attempt_any(&call) };
        self.no_carrier = false;
        self.status = Some(target);
        let outcome = match attempted {
            Attempted::Done(result) => Outcome::Done(result),
            Attempted::OverBudget(result) => self.defer_result(&call, result, user_data),
            Attempted::Blocked(blocked) => self.start(&call, blocked, user_data),
        };
        self.status = None;
        if let Outcome::Done(result) = outcome {
            target.publish(result);
        }
        outcome
    }
}
