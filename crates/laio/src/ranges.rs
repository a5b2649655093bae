//! Ranges of a file: near ranges are read together.

#[cfg_attr(not(test), allow(dead_code, reason = "the next commits use it"))]
mod memory;
#[cfg_attr(not(test), allow(dead_code, reason = "the next commits use the rest"))]
mod plan;

pub use memory::{POOL_BYTES, Piece, RangeBytes};
pub use plan::{GAP, JOINED_MAX, JoinedRange, join};
