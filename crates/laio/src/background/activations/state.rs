//! The state words: who may do what with the application, decided by single atomic operations.
//!
//! Each carrier has a word, generation and state. A call of the application raises the generation:
//!
//! ```text
//!        begin                      the call returns: leave
//! APP(g) ------> CALL(g+1) ------------------------------------> APP(g+1)
//!                   | a spare has seen it blocked: take
//!                   v
//!               TAKEN(g+1) --- the call returns, leave fails ---> SPARE --- takes the application ---> APP
//! ```
//!
//! Exactly one of `leave` and `take` succeeds, and the winner alone owns the saved application. The generation
//! keeps evidence about one call from being used against the next.
//!
//! This file knows nothing but atomics, so that the model checker can run it; see `tests/model.rs`. On x86-64
//! `begin`, `leave`, `open` and `close` are done by the assembly, in this order and with these strengths.

use super::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence, set};

/// Runs the application.
pub(super) const APP: u64 = 0;
/// Makes a call of the application, which waits for its return.
pub(super) const CALL: u64 = 1;
/// Makes a call of the application, which goes on elsewhere.
pub(super) const TAKEN: u64 = 2;
/// Has nothing to do with the application.
pub(super) const SPARE: u64 = 3;

pub(super) const fn state(word: u64) -> u64 {
    word & 3
}

pub(super) const fn with_state(word: u64, state: u64) -> u64 {
    (word & !3) | state
}

/// Before a call: the application's stack is saved, its arguments are in registers.
#[allow(dead_code, reason = "done by the assembly; here for the model")]
pub(super) fn begin(word: &AtomicU64) -> u64 {
    let calling = word.load(Relaxed) + 4 + CALL;
    word.store(calling, Release);
    calling
}

/// After a call: whether the application is still here.
#[allow(dead_code, reason = "done by the assembly; here for the model")]
pub(super) fn leave(word: &AtomicU64, calling: u64) -> bool {
    change(word, calling, with_state(calling, APP))
}

/// Takes the application from a carrier that was seen to be blocked in this very call.
pub(super) fn take(word: &AtomicU64, calling: u64) -> bool {
    change(word, calling, with_state(calling, TAKEN))
}

/// If the word is still this one.
pub(super) fn change(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
}

/// The carrier changes its own state, which nobody else may at this time.
pub(super) fn become_(word: &AtomicU64, state: u64) {
    word.store(with_state(word.load(Relaxed), state), SeqCst);
    fence(SeqCst);
}

/// Announces an interruption, before it is looked whether the call still goes on. Whoever returns from the call
/// says so first, and then waits for those announced: so one of the two sees the other.
pub(super) fn announce(interrupts: &AtomicU32) {
    interrupts.fetch_add(1, SeqCst);
    fence(SeqCst);
}

/// The gate of a carrier's switch records: `data_head`, which the kernel advances, and `data_tail`.
///
/// Open, the tail is where the head was: the next record finds room and wakes. Closed, the tail is one beyond: the
/// ring seems full, and the kernel drops the record without waking anybody.
pub(super) struct Gate<'a>(pub(super) &'a [AtomicU64; 2]);

impl Gate<'_> {
    #[allow(dead_code, reason = "done by the assembly; here for the model")]
    pub(super) fn open(&self) {
        set(&self.0[1], self.0[0].load(Relaxed));
    }

    pub(super) fn close(&self) {
        set(&self.0[1], self.0[0].load(Relaxed).wrapping_add(1));
    }

    /// The tail, if the thread has been switched out or in since the gate was opened.
    pub(super) fn evidence(&self) -> Option<u64> {
        let tail = self.0[1].load(Acquire);
        (tail < self.0[0].load(Acquire)).then_some(tail)
    }

    /// Closes the gate of a thread that was preempted, or else each of its switches would wake a spare, which
    /// preempts it again. Not if it has begun another call meanwhile: there has been a record since, so its
    /// tail is another.
    pub(super) fn close_for(&self, tail: u64) {
        let closed = self.0[0].load(Acquire).wrapping_add(1);
        let _ = self.0[1].compare_exchange(tail, closed, SeqCst, SeqCst);
    }
}

/// What flights are chained by.
pub(super) trait Chained: Sized {
    fn next(&self) -> &AtomicPtr<Self>;
}

/// Pushes to a list that is only ever emptied as a whole, so that no node is seen in two places.
pub(super) fn push<T: Chained>(list: &AtomicPtr<T>, node: *mut T) {
    let mut first = list.load(Relaxed);
    loop {
        // SAFETY: the caller's node, which nobody else knows yet.
        unsafe { (*node).next() }.store(first, Relaxed);
        match list.compare_exchange(first, node, SeqCst, SeqCst) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

/// Takes the whole list, the newest node first.
pub(super) fn take_all<T>(list: &AtomicPtr<T>) -> *mut T {
    list.swap(std::ptr::null_mut(), SeqCst)
}
