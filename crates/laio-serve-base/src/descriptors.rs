//! The descriptor limit of the process, and how many descriptors connections may use.

use crate::options::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of descriptors (`RLIMIT_NOFILE`) to the hard one, which needs no
/// privilege, and returns the limit now in force. The soft limit is low for the sake of programs
/// that use `select`.
#[must_use]
pub fn raise_descriptor_limit() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this is refused, the soft limit stays in force, and the returned number shows it.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
    limit()
}

/// Returns the limit in force.
pub fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// Returns how many descriptors connections may use in a process that has `open` others.
pub fn for_connections(limit: usize, open: usize) -> usize {
    (limit.saturating_sub(open) - reserve(limit, open)).max(1)
}

/// Returns how many descriptors are reserved for files and upstreams, at most half of those left.
pub fn reserve(limit: usize, open: usize) -> usize {
    let share = limit / Limits::DESCRIPTOR_RESERVE_SHARE;
    let left = limit.saturating_sub(open);
    share.max(Limits::DESCRIPTOR_RESERVE).min(left / 2)
}

/// Returns the number of open descriptors, or none where `/proc` is not mounted.
pub fn count_open() -> Option<usize> {
    let entries = laio::directory::names("/proc/self/fd").ok()?;
    // One of them is the directory itself.
    Some(entries.count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve() {
        assert_eq!(reserve(1024, 30), 128);
        assert_eq!(for_connections(1024, 30), 1024 - 30 - 128);
        assert_eq!(reserve(200, 30), Limits::DESCRIPTOR_RESERVE);
        assert_eq!((reserve(64, 30), for_connections(64, 30)), (17, 17));
        assert_eq!(for_connections(64, 80), 1);
        assert!(for_connections(usize::MAX, 30) > usize::MAX / 2);
    }

    #[test]
    fn the_limit_is_raised_and_open_descriptors_are_counted() {
        let before = getrlimit(Resource::Nofile);
        assert!(raise_descriptor_limit() > 0);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        let few = count_open().unwrap();
        assert!(few >= 3 && few < limit());
    }
}
