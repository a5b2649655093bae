//! A function that may block, as the threads see it that run it.

use crate::Errno;

/// A function of any type, for the thread that runs it.
pub(super) trait AnyFunction: Send + Sync {
    /// Runs the function, unless its future was dropped, and wakes the future.
    fn run(&self);

    /// Ends it without running it.
    fn fail(&self, errno: Errno);
}
