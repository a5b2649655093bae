//! What the commands need of their process, and what safe code cannot do: find standard streams that
//! were closed when the program began, find signals that it ignores, and end it with a message when
//! memory is exhausted.
//!
//! A program that uses [`was_closed`] runs a constructor before `main`, so all of this exists only with the
//! feature `process`.

mod exhausted;
mod ignored;
mod streams;

pub use exhausted::{Allocator, end_when_memory_is_exhausted, is_memory_exhausted};
pub use ignored::is_ignored;
pub use streams::was_closed;
