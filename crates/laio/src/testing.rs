//! For tests of programs that use this crate: faults that a context imposes on itself
//! ([`Options::inject`](crate::Options::inject)).

use crate::Errno;

/// Injected faults, with which programs can test their event loops.
///
/// Except for [`failing_entry`](Inject::failing_entry) they never change the final result of a call, only how it
/// is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inject {
    /// Every call is made inline, whether it blocks or not.
    pub force_inline: bool,
    /// No attempt is made: every call that may block goes to the background.
    pub force_block: bool,
    /// One step of a transfer moves at most this many bytes (0: no bound), so that every longer
    /// transfer is completed in pieces.
    pub short_transfer: usize,
    /// Non-blocking attempts on files report end of file for data that is not cached, as Linux 5.9
    /// and 5.10 did, so that the confirmation of an end of file is exercised.
    pub false_eof: bool,
    /// Every non-blocking attempt fails with `EAGAIN`, as after a kernel regression.
    pub attempts_fail: bool,
    /// One operation of the ring fails as if the kernel had refused it, without an effect.
    pub failing_entry: Option<FailingEntry>,
}

/// An operation of the ring that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingEntry {
    /// Which of the context's ring operations, in the order of submission, from 1.
    pub nth: u64,
    /// The errno with which it fails.
    pub errno: Errno,
}
