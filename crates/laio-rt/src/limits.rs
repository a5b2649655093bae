//! The limits of the executor. Those of operations are [`laio::Limits`].
//!
//! They ensure fairness: they bound how long a task runs before others do.

/// The number of operations that a task may start in one poll. An operation that does not block does not
/// suspend its task, so without a bound a task that copies a cached file would stall all others. The next
/// operation waits for the task's next turn.
pub const OPERATIONS_PER_POLL: u32 = 128;

/// The number of operations that all tasks together may start before completions are reaped again. With
/// [`OPERATIONS_PER_POLL`] it stays within the default of [`laio::Limits::inline_budget`].
pub const OPERATIONS_PER_TURN: u32 = 128;

/// The number of tasks polled before timers and completions are checked again.
pub const TASKS_PER_TURN: u32 = 64;

/// The number of tasks that have called [`give_way`](crate::give_way) and continue at the end of the same turn.
pub const GIVEN_WAY_PER_TURN: usize = 4;

/// The number of contexts that a runtime may have in addition to its own.
pub const EXTRA_CONTEXTS: usize = 16;

/// How long the executor pauses when its context cannot wait because the kernel lacks memory, before it tries again.
pub const SHORTAGE_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
