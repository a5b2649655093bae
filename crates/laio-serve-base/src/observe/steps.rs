//! The system calls of each step by outcome.

use super::Seen;
use crate::options::IoStep;

/// The system calls of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCounts {
    /// The step.
    pub step: IoStep,
    /// Completed inline.
    pub inline: u64,
    /// Attempted, and done in the background because they would have blocked.
    pub background: u64,
    /// Done in the background without an attempt, because the back end, the call or the file system
    /// has none.
    pub fallback: u64,
}

/// Returns the system calls of a step. `splice` counts for both ends of a pipe.
fn calls(step: IoStep) -> &'static [&'static str] {
    match step {
        IoStep::Accept => &["accept4"],
        IoStep::Receive => &["recvfrom"],
        IoStep::Open => &["openat2", "openat", "getdents64"],
        IoStep::Stat => &["fstat", "statx", "newfstatat"],
        IoStep::FileRead => &["pread64"],
        IoStep::Send => &["sendto"],
        IoStep::Sendfile => &["sendfile", "splice"],
    }
}

impl Seen {
    /// Returns [`Seen::calls`] summed by step.
    pub fn steps(&self) -> Vec<StepCounts> {
        let of = |step| {
            let counts = calls(step).iter().filter_map(|name| self.calls.get(name));
            let none = StepCounts {
                step,
                inline: 0,
                background: 0,
                fallback: 0,
            };
            counts.fold(none, |sum, counts| StepCounts {
                step,
                inline: sum.inline + counts.inline,
                background: sum.background + counts.background,
                fallback: sum.fallback + counts.fallback,
            })
        };
        IoStep::ALL.into_iter().map(of).collect()
    }
}
