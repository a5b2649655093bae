//! Ranges of a file: near ranges are read together.

#[cfg_attr(not(test), allow(dead_code, reason = "the next commit uses the rest"))]
mod choice;
#[cfg_attr(not(test), allow(dead_code, reason = "the next commit uses the rest"))]
mod device;
#[cfg_attr(not(test), allow(dead_code, reason = "the next commit uses it"))]
mod memory;
mod memory_size;
#[cfg_attr(not(test), allow(dead_code, reason = "the next commit uses the rest"))]
mod plan;
#[cfg_attr(not(test), allow(dead_code, reason = "the next commit uses it"))]
mod reuse;

pub use choice::{Direct, DirectReason, RangeStats};
pub use device::{DeviceAccess, DeviceFile, DeviceOpen};
pub use memory::{POOL_BYTES, Piece, RangeBytes};
pub use plan::{GAP, JOINED_MAX, JoinedRange, join};
