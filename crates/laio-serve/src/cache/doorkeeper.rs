//! Cache admission: a file is admitted on its second request, so one-off reads do not evict
//! anything.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The requested names, as hashes in a fixed-size table whose entries overwrite each other.
pub(super) struct Doorkeeper {
    random: RandomState,
    names: Box<[u64]>,
    since: Option<Instant>,
}

/// Whether a name was requested before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    First,
    Again,
    /// Caching it failed recently.
    Refused,
}

/// Set in a table entry if caching the name failed.
const REFUSED: u64 = 1;

impl Doorkeeper {
    /// The table is cleared after this time, because a file that could not be cached may have
    /// changed.
    const REMEMBERS: Duration = Duration::from_secs(10);

    pub(super) fn new(names: usize) -> Doorkeeper {
        Doorkeeper {
            random: RandomState::new(),
            names: vec![0; names].into(),
            since: None,
        }
    }

    pub(super) fn see(&mut self, name: &[u8], now: Instant) -> Sight {
        let old = |since| now.saturating_duration_since(since) >= Self::REMEMBERS;
        if self.since.is_none_or(old) {
            self.since = Some(now);
            self.names.fill(0);
        }
        let (place, hash) = self.place(name);
        match std::mem::replace(place, hash) {
            seen if seen == hash => Sight::Again,
            seen if seen == hash | REFUSED => {
                *place = seen;
                Sight::Refused
            }
            _ => Sight::First,
        }
    }

    /// Records that caching the name failed.
    pub(super) fn refuse(&mut self, name: &[u8]) {
        let (place, hash) = self.place(name);
        *place = hash | REFUSED;
    }

    fn place(&mut self, name: &[u8]) -> (&mut u64, u64) {
        let hash = self.random.hash_one(name);
        let place = (hash >> 32) as usize % self.names.len();
        // Never zero, which marks an empty entry.
        (&mut self.names[place], hash & !REFUSED | 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_in_the_second_time() {
        let mut doorkeeper = Doorkeeper::new(64);
        let now = Instant::now();
        assert_eq!(doorkeeper.see(b"a", now), Sight::First);
        assert_eq!(doorkeeper.see(b"a", now), Sight::Again);
        doorkeeper.refuse(b"a");
        assert_eq!(doorkeeper.see(b"a", now), Sight::Refused);
        let later = now + Doorkeeper::REMEMBERS;
        assert_eq!(doorkeeper.see(b"a", later), Sight::First);
    }
}
