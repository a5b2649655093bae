//! From a call to its outcome: the fast path, else an attempt, else an operation in the background.

use crate::attempt::{Attempted, Try, Why};
use crate::composition::Strategy;
use crate::context::Context;
use crate::lifecycle::Lifecycle;
use crate::status_word::{StatusTarget, StatusWord};
use crate::table::{self, FastCall, Row};
use crate::{Call, Errno, Outcome};
use std::ptr::NonNull;

impl Context {
    /// Makes a system call: done at once, or pending.
    ///
    /// ```
    /// use laio::{Call, Context, Options, Outcome};
    /// let mut context = Context::new(Options::new()).unwrap();
    /// // SAFETY: getppid takes no pointers.
    /// let outcome = unsafe { context.call(Call::new(libc::SYS_getppid, [])) };
    /// assert!(matches!(outcome, Outcome::Done(Ok(_))));
    /// ```
    ///
    /// # Errors
    /// Those of the call. `EAGAIN` also if a limit is reached (see [`BackPressure`](crate::BackPressure)), `ENOSYS` or
    /// `EOPNOTSUPP` for a call that the table refuses.
    ///
    /// # Safety
    /// As for the system call. If the call is pending, everything its pointers refer to (buffers,
    /// names, structs) must stay valid and untouched until [`Context::poll`] has delivered its
    /// completion, even after a cancellation.
    #[inline(always)]
    pub unsafe fn call(&mut self, call: Call) -> Outcome {
        // SAFETY: by the caller.
        unsafe { self.call_with(call, 0) }
    }

    /// As [`Context::call`]; the completion carries `user_data`.
    ///
    /// # Safety
    /// As for [`Context::call`].
    // Inlined always, so that the arguments stay in registers on the way to the kernel.
    #[inline(always)]
    pub unsafe fn call_with(&mut self, call: Call, user_data: u64) -> Outcome {
        self.notice_fork();
        if self.trivial_is_plain
            && let Some(index) = table::find_trivial(call.number)
        {
            // SAFETY: by the caller.
            let result = unsafe { crate::sys::syscall(&call) };
            self.stats.calls[index].inline += 1;
            return Outcome::Done(result);
        }
        if self.background.carriers().is_some()
            // SAFETY: by the caller.
            && let Some(attempted) = unsafe { self.carry_fast(&call) }
        {
            return self.conclude(&Try::new(&call), attempted, user_data, None);
        }
        if let Some(fast_call) = table::find_fast_call(call.number)
            // SAFETY: by the caller.
            && let Some(attempted) = unsafe { self.try_fast(fast_call, &call) }
        {
            return match attempted {
                Attempted::Done(result) if !self.over_budget() => {
                    self.stats.calls[table::index(call.number)].inline += 1;
                    Outcome::Done(result)
                }
                attempted => self.conclude_tried(&call, attempted, user_data),
            };
        }
        // SAFETY: by the caller.
        unsafe { self.call_slow(&call, user_data) }
    }

    /// Attempts a call on the fast path, if nothing is in flight on its descriptor; see
    /// [`crate::knowledge::Knowledge::try_fast`].
    ///
    /// # Safety
    /// As for the system call.
    #[inline(always)]
    unsafe fn try_fast(&mut self, fast_call: FastCall, call: &Call) -> Option<Attempted> {
        if self.operations.order.is_busy(call.descriptor(0))
            || (self.background.carriers().is_some() && self.knowledge.is_known_file(call))
        {
            return None;
        }
        // SAFETY: by the caller.
        unsafe { self.knowledge.try_fast(fast_call, call) }
    }

    /// Concludes a call that the fast path has attempted and not finished.
    #[cold]
    fn conclude_tried(&mut self, call: &Call, attempted: Attempted, user_data: u64) -> Outcome {
        let this = Try::new(call);
        let attempted = self.count(this.row, Strategy::Try, attempted);
        self.conclude(&this, attempted, user_data, None)
    }

    /// # Safety
    /// As for [`Context::call`].
    #[inline(never)]
    unsafe fn call_slow(&mut self, call: &Call, user_data: u64) -> Outcome {
        let this = Try::new(call);
        // SAFETY: by the caller.
        let attempted = unsafe { self.attempt_by_strategy(&this) };
        self.conclude(&this, attempted, user_data, None)
    }

    /// Makes a call like [`Context::call_with`], and updates `status` when the call has finished,
    /// even while this thread does something else.
    ///
    /// In every back end but `sync`, a call that would block goes to a helper, because only another
    /// thread can write the status word meanwhile. While it runs, the call counts against [`Limits::helpers`]
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
        // SAFETY: by the caller.
        let status = unsafe { StatusTarget::begin(status) };
        let this = Try {
            has_status: true,
            ..Try::new(&call)
        };
        // SAFETY: by the caller.
        let attempted = unsafe { self.attempt_any(&this) };
        let outcome = self.conclude(&this, attempted, user_data, Some(status));
        if let Outcome::Done(result) = outcome {
            status.publish(result);
        }
        outcome
    }

    /// Makes or attempts a call: on the fast path where possible, else with the back end's strategy.
    ///
    /// # Safety
    /// As for the system call.
    pub(crate) unsafe fn attempt_any(&mut self, this: &Try<'_>) -> Attempted {
        let fast_call = table::find_fast_call(this.call.number);
        // SAFETY: by the caller.
        match fast_call.and_then(|fast_call| unsafe { self.try_fast(fast_call, this.call) }) {
            Some(Attempted::Done(result)) if !self.over_budget() => {
                self.stats.calls[this.row.index as usize].inline += 1;
                Attempted::Done(result)
            }
            Some(attempted) => self.count(this.row, Strategy::Try, attempted),
            // SAFETY: by the caller.
            None => unsafe { self.attempt_by_strategy(this) },
        }
    }

    /// Makes or attempts a call with the back end's strategy for its class.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    unsafe fn attempt_by_strategy(&mut self, this: &Try<'_>) -> Attempted {
        let strategy = self.strategies[this.row.class as usize];
        // SAFETY: by the caller.
        let attempted = unsafe { self.make(strategy, this) };
        self.count(this.row, strategy, attempted)
    }

    /// Updates the statistics and the inline budget after an attempt.
    pub(crate) fn count(
        &mut self,
        row: &Row,
        strategy: Strategy,
        attempted: Attempted,
    ) -> Attempted {
        let counts = &mut self.stats.calls[row.index as usize];
        match &attempted {
            Attempted::Done(_) => counts.inline += 1,
            Attempted::OverBudget(_) => unreachable!("only `count` makes OverBudget"),
            Attempted::Blocked(blocked) => match blocked.why {
                Why::WouldBlock
                | Why::Ordered
                | Why::ExpectedToBlock
                | Why::UsuallyBlocks
                | Why::ZeroCopy => counts.background += 1,
                Why::NotTried | Why::Unsupported | Why::NoCarrier => counts.fallback += 1,
                Why::KnownUnsupported => {
                    counts.fallback += 1;
                    counts.latched += 1;
                }
            },
        }
        match attempted {
            Attempted::Done(result)
                if matches!(strategy, Strategy::Try | Strategy::Carry) && self.over_budget() =>
            {
                Attempted::OverBudget(result)
            }
            attempted => attempted,
        }
    }

    /// Counts an inline result. Returns true if the result must be delivered through `poll`, because
    /// the program has made too many calls without `poll`.
    #[inline]
    fn over_budget(&mut self) -> bool {
        if self.operations.live() == 0 || self.limits.inline_budget == 0 {
            return false;
        }
        self.inline_since_poll += 1;
        self.inline_since_poll > self.limits.inline_budget
    }

    /// Turns the outcome of an attempt into that of the call.
    #[inline]
    pub(crate) fn conclude(
        &mut self,
        this: &Try<'_>,
        attempted: Attempted,
        user_data: u64,
        status: Option<StatusTarget>,
    ) -> Outcome {
        match attempted {
            Attempted::Done(result) => Outcome::Done(result),
            Attempted::OverBudget(result) => self.defer_result(this, result, user_data, status),
            Attempted::Blocked(blocked) => self.start(this, blocked, user_data, status),
        }
    }

    /// Delivers an inline result through `poll`, because the inline budget is used up.
    #[cold]
    fn defer_result(
        &mut self,
        this: &Try<'_>,
        result: Result<usize, Errno>,
        user_data: u64,
        status: Option<StatusTarget>,
    ) -> Outcome {
        if self.operations.is_full() {
            return Outcome::Done(result);
        }
        self.stats.over_budget += 1;
        self.stats.operations += 1;
        let slot = self.operations.insert(this.row, this.call, user_data);
        self.operations[slot].status = status;
        self.finish(slot, result);
        self.arm_descriptor();
        Outcome::Pending(self.operations.handle(slot))
    }
}
