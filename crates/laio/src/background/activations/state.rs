//! The state words, whose atomic changes decide which carrier owns the application.
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
//! This file uses only atomics, so that the model checker can run it; see `tests/model.rs`. On
//! x86-64 the assembly implements `begin`, `leave`, `open` and `close`, in this order and with
//! these memory orderings.

use super::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence, set};

/// Runs the application.
pub(super) const APP: u64 = 0;
/// Makes a call of the application, which waits for its return.
pub(super) const CALL: u64 = 1;
/// Makes a call of the application, which runs on another carrier meanwhile.
pub(super) const TAKEN: u64 = 2;
/// Detached from the application.
pub(super) const SPARE: u64 = 3;

pub(super) const fn state(word: u64) -> u64 {
    word & 3
}

pub(super) const fn with_state(word: u64, state: u64) -> u64 {
    (word & !3) | state
}

/// Marks the begin of a call: the application's stack is saved, its arguments are in registers.
#[allow(dead_code, reason = "done by the assembly; here for the model")]
pub(super) fn begin(word: &AtomicU64) -> u64 {
    let calling = word.load(Relaxed) + 4 + CALL;
    word.store(calling, Release);
    calling
}

/// Marks the end of a call. Returns whether the application is still on this carrier.
#[allow(dead_code, reason = "done by the assembly; here for the model")]
pub(super) fn leave(word: &AtomicU64, calling: u64) -> bool {
    change(word, calling, with_state(calling, APP))
}

/// Takes the application from a carrier that was seen to be blocked in this very call.
pub(super) fn take(word: &AtomicU64, calling: u64) -> bool {
    change(word, calling, with_state(calling, TAKEN))
}

/// Changes the word if it is still `from`.
pub(super) fn change(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
}

/// Changes the carrier's own state, at a time when no other thread may.
pub(super) fn become_(word: &AtomicU64, state: u64) {
    word.store(with_state(word.load(Relaxed), state), SeqCst);
    fence(SeqCst);
}

/// Announces an interruption, before checking whether the call is still in flight. A carrier that
/// returns from the call first changes its state, and then waits for announced interruptions: so
/// one of the two sees the other. Returns how many were announced before and are not handled yet.
pub(super) fn announce(interrupts: &AtomicU32) -> u32 {
    let before = interrupts.fetch_add(1, SeqCst);
    fence(SeqCst);
    before
}

/// The gate of a carrier's switch records: `data_head`, which the kernel advances, and `data_tail`.
///
/// While the gate is open, the tail equals the head: the next record fits and wakes a spare. While
/// it is closed, the tail is one beyond: the ring seems full, and the kernel drops the record
/// without a wakeup.
pub(super) struct Gate<'a>(pub(super) &'a [AtomicU64; 2]);

impl Gate<'_> {
    #[allow(dead_code, reason = "done by the assembly; here for the model")]
    pub(super) fn open(&self) {
        set(&self.0[1], self.0[0].load(Relaxed));
    }

    pub(super) fn close(&self) {
        set(&self.0[1], self.0[0].load(Relaxed).wrapping_add(1));
    }

    /// Returns the tail, if the thread has been switched out or in since the gate was opened.
    pub(super) fn evidence(&self) -> Option<u64> {
        let tail = self.0[1].load(Acquire);
        (tail < self.0[0].load(Acquire)).then_some(tail)
    }

    /// Closes the gate of a preempted thread. Otherwise each of its switches would wake a spare,
    /// which preempts it again. Does nothing if the thread has begun another call: there has been a
    /// record since, so its tail differs.
    pub(super) fn close_for(&self, tail: u64) {
        let closed = self.0[0].load(Acquire).wrapping_add(1);
        let _ = self.0[1].compare_exchange(tail, closed, SeqCst, SeqCst);
    }
}

/// The link of a node in a list of flights.
pub(super) trait Chained: Sized {
    fn next(&self) -> &AtomicPtr<Self>;
}

/// Pushes to a list that is only emptied as a whole, so that the ABA problem cannot occur.
pub(super) fn push<T: Chained>(list: &AtomicPtr<T>, node: *mut T) {
    let mut first = list.load(Relaxed);
    loop {
        // SAFETY: the caller's node, which no other thread has yet.
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
