//! The limits of the executor. Those of operations are [`laio::Limits`].
//!
//! They are about fairness: how long something may go on before others are looked after.

/// Operations that a task may start in one poll. Operations that do not block make no task wait, so
/// without a bound a task that copies a cached file would keep all others waiting. The operation after
/// these waits for the task's next turn.
pub const OPERATIONS_PER_POLL: u32 = 128;

/// Operations started, by all tasks together, before completions are gathered again. With
/// [`OPERATIONS_PER_POLL`] it stays within [`laio::Limits::inline_budget`] at its default.
pub const OPERATIONS_PER_TURN: u32 = 128;

/// Tasks polled before timers, wakes from other threads and completions are looked at again.
pub const TASKS_PER_TURN: u32 = 64;

/// Tasks that have given way ([`give_way`](crate::give_way)) and go on in the same turn, at the end of it.
pub const GIVEN_WAY_PER_TURN: usize = 4;

/// Contexts that a runtime may have beside its own.
pub const CONTEXTS_BESIDE: usize = 16;
