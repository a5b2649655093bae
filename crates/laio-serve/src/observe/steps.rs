//! How often the calls of each operation went which way.

use super::Seen;
use crate::options::Step;

/// How the calls of one operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCounts {
    /// The operation.
    pub step: Step,
    /// Done at once.
    pub inline: u64,
    /// Tried, and done in the background, because they would have blocked.
    pub background: u64,
    /// Done in the background without a try: the back end makes none, or the call or the file system has none.
    pub fallback: u64,
}

/// The system calls of a step. Those of the two ends of a pipe are not told apart.
fn calls(step: Step) -> &'static [&'static str] {
    match step {
        Step::Accept => &["accept4"],
        Step::Read => &["recvfrom"],
        Step::Open => &["openat2", "openat", "getdents64"],
        Step::Stat => &["fstat", "statx", "newfstatat"],
        Step::FileRead => &["pread64"],
        Step::Write => &["sendto"],
        Step::Sendfile => &["sendfile", "splice"],
    }
}

impl Seen {
    /// [`Seen::calls`] by operation.
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
        Step::ALL.into_iter().map(of).collect()
    }
}
