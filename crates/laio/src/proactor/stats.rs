//! The statistics of a proactor.

/// The statistics of a proactor since it was made, or since the process was forked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProactorStats {
    /// Operations finished by the attempt on the polling thread.
    pub inline: u64,
    /// Operations whose attempt would have blocked.
    pub background: u64,
    /// Operations without an attempt, or whose file system has refused it.
    pub fallback: u64,
    /// Operations and functions handed to a driver, its helpers, or a thread of their own.
    pub handed_over: u64,
    /// How many of these went to a helper without a wakeup of the driver, and are not functions.
    pub direct: u64,
    /// How many of these a thread was started for, because of the rights of their thread.
    pub one_shots: u64,
    /// Operations in flight whose futures were dropped.
    pub cancelled: u64,
    /// Operations on remote file systems (FUSE, network) that a thread makes, or that wait for one, now.
    pub unanswered: u64,
    /// Remote file systems that hang now: they have answered none of these operations for
    /// [`Limits::HUNG_AFTER`](crate::Limits::HUNG_AFTER).
    pub hung_mounts: u64,
}
