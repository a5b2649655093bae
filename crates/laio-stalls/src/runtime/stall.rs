//! A worker that does not turn, as it is reported.

use crate::report::Cause;
use crate::text::length;
use std::fmt;
use std::time::Duration;

/// A worker of the runtime has not turned.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// How long it has not turned. The stall is not over yet.
    pub lasted: Duration,
    /// The name of its thread.
    pub thread: String,
    /// The number of its thread; 0 if it is not known.
    pub thread_id: u32,
    /// Why it does not go on.
    pub cause: StallCause,
    /// The system call, or what takes its place.
    pub call: &'static str,
    /// The file, the peer or the child of the call; empty where there is no such thing.
    pub subject: String,
    /// Where in the program, the innermost function first; empty if the thread runs. A function in between
    /// can be of a call that has returned.
    pub stack: Vec<String>,
    /// What laio would do with the call.
    pub remedy: &'static str,
    /// How many stalls were not reported before this one, because of [`MAX_REPORTS`](crate::MAX_REPORTS).
    pub unreported: u64,
}

/// Why a worker does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StallCause {
    /// A system call waits.
    Call,
    /// It waits for another thread: a lock or a condition variable.
    Lock,
    /// A page of its memory is not there.
    PageFault,
    /// It runs: a task computes, or makes many short calls, without a pause.
    Running,
    /// It could run, and other threads have the processors.
    Processor,
    /// A signal has stopped it.
    Stopped,
    /// Its thread is not known: it has run none of the watch's own tasks yet.
    Unknown,
}

impl Stall {
    pub(super) fn of_unknown_thread(lasted: Duration) -> Stall {
        Stall {
            lasted,
            thread: String::new(),
            thread_id: 0,
            cause: StallCause::Unknown,
            call: "a thread that is not known yet",
            subject: String::new(),
            stack: Vec::new(),
            remedy: "",
            unreported: 0,
        }
    }
}

impl From<Cause> for StallCause {
    fn from(cause: Cause) -> StallCause {
        match cause {
            Cause::Call => StallCause::Call,
            Cause::Futex => StallCause::Lock,
            Cause::PageFault => StallCause::PageFault,
            Cause::Processor => StallCause::Processor,
            Cause::Stopped => StallCause::Stopped,
        }
    }
}

/// Several lines: what waits, the functions, and what laio would do.
impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "a worker has not turned for {}: {}",
            length(self.lasted),
            self.call
        )?;
        if !self.subject.is_empty() {
            write!(formatter, " {}", self.subject)?;
        }
        if !self.thread.is_empty() {
            write!(formatter, " [{}, thread {}]", self.thread, self.thread_id)?;
        }
        for function in &self.stack {
            write!(formatter, "\n    {function}")?;
        }
        if !self.remedy.is_empty() {
            write!(formatter, "\n    → {}", self.remedy)?;
        }
        if self.unreported > 0 {
            write!(
                formatter,
                "\n    {} stalls before this one were not reported",
                self.unreported
            )?;
        }
        Ok(())
    }
}
