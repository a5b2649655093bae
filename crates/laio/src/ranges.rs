//! Ranges of a file: near ranges are read together, and large files may be read past the page cache
//! (`O_DIRECT`).
//!
//! `laio-tokio` and `laio-rt` have this as `File::read_ranges_with` and `File::read_ranges`, C has it as
//! `laio_read_ranges`, and Python as `read_ranges`. This module plans the reads and interprets their results
//! ([`RangeReads`]); a program that polls a [`Context`](crate::Context) itself makes a [`RangeRequest`]. It
//! waits for nothing.
//!
//! Whatever [`Direct`] says, a range has the bytes that a plain read has: a direct read that fails, or that
//! ends early, is repeated through the page cache, and the result of that counts. Of a file that is being
//! written:
//!
//! - A direct read sees everything that was written before it began: the kernel first writes the dirty
//!   pages of the range to the device.
//! - While a write is in progress, a range may have some of its blocks and not others. So may plain reads.
//! - Two ranges of one request are read at different times, unless they are read together.
//! - A file that is truncated meanwhile has fewer bytes, as with plain reads.

mod choice;
mod device;
mod memory;
mod memory_size;
mod plan;
mod reading;
mod request;
mod reuse;

pub use choice::{Direct, DirectReason, RangeStats};
pub use device::{DeviceAccess, DeviceFile, DeviceOpen};
pub use memory::{POOL_BYTES, Piece, RangeBytes, set_pool_limit};
pub use plan::{GAP, JOINED_MAX, JoinedRange, join};
pub use reading::{PieceRead, RangeReads};
pub use request::{RangeRequest, RequestedRanges};

/// How ranges are read. A [`Direct`] is one with the default depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeOptions {
    /// Whether reads bypass the page cache.
    pub direct: Direct,
    /// How many reads of one request are in flight at a time; 0 counts as 1.
    pub depth: usize,
}

/// The number of reads of one request that are in flight at a time, unless the program says otherwise.
pub const DEPTH: usize = 64;

impl RangeOptions {
    /// The options with the default depth.
    #[must_use]
    pub fn new(direct: Direct) -> RangeOptions {
        let depth = DEPTH;
        RangeOptions { direct, depth }
    }

    /// Sets the number of reads in flight.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> RangeOptions {
        self.depth = depth;
        self
    }
}

impl From<Direct> for RangeOptions {
    fn from(direct: Direct) -> RangeOptions {
        RangeOptions::new(direct)
    }
}
