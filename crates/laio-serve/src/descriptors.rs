//! The descriptors of the process: how many there may be, and how many of them connections may take.

use crate::options::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of descriptors (`RLIMIT_NOFILE`) to the hard one, which needs no right, and returns what holds
/// then. The soft limit is low for programs that use `select`, and this one does not.
#[must_use]
pub fn raise_descriptor_limit() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused, the soft limit stays in force, and the number that is returned says so.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
    limit()
}

/// The limit in force.
pub(crate) fn limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// The descriptors that connections may have, of a process that has `open` others.
pub(crate) fn for_connections(limit: usize, open: usize) -> usize {
    (limit.saturating_sub(open) - reserve(limit, open)).max(1)
}

/// The descriptors that are kept for files and upstreams. Where there are few at all, that is half of what is left.
pub(crate) fn reserve(limit: usize, open: usize) -> usize {
    let share = limit / Limits::DESCRIPTORS_KEPT_SHARE;
    let left = limit.saturating_sub(open);
    share.max(Limits::DESCRIPTORS_KEPT).min(left / 2)
}

/// The descriptors that are open now. None where `/proc` is not mounted.
pub(crate) fn count_open() -> Option<usize> {
    let entries = std::fs::read_dir("/proc/self/fd").ok()?;
    // One of them is that of the directory.
    Some(entries.count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve() {
        assert_eq!(reserve(1024, 30), 128);
        assert_eq!(for_connections(1024, 30), 1024 - 30 - 128);
        assert_eq!(reserve(200, 30), Limits::DESCRIPTORS_KEPT);
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
