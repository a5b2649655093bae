//! Numbers that readers of the statistics take at the moment when they read. Other modules have the numbers, and
//! implement these traits.

use std::fmt;
use std::path::PathBuf;

/// The numbers of a server.
pub trait ServerGauges: fmt::Debug + Send + Sync {
    /// Returns what is used of directories with a quota.
    fn used_quotas(&self) -> Vec<UsedQuota>;
    /// Returns the memory that is held for clients.
    fn memory(&self) -> MemoryCounts;
}

/// An upstream that gets requests or is left out.
pub trait UpstreamGauge {
    /// Returns the name, under which the upstream is counted.
    fn name(&self) -> &str;
    /// Whether it gets requests.
    fn is_in_use(&self) -> bool;
}

/// What is used of a directory with a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedQuota {
    /// The directory.
    pub directory: PathBuf,
    /// The bytes of the files below it.
    pub bytes: u64,
    /// The number of files and directories below it.
    pub files: u64,
}

/// What the server holds for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Bytes held beyond the reserves of connections.
    pub held: u64,
    /// The most of them.
    pub most: u64,
    /// Pieces of responses that were smaller than usual, because the budget was used up.
    pub small_pieces: u64,
    /// Requests refused because a budget was used up.
    pub refused: u64,
}
