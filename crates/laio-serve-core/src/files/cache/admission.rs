//! Cache admission: a file is admitted when its name was requested before, since the table was last
//! cleared, so one-off reads do not evict anything.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The requested names of all sites, as hashes of site and name in a fixed-size table whose entries
/// overwrite each other.
pub(super) struct AdmissionFilter {
    random: RandomState,
    names: Box<[u64]>,
    since: Option<Instant>,
}

/// Whether a name was requested before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    First,
    Again,
    /// Caching it failed recently.
    Refused,
}

/// Set in a table entry if caching the name failed.
const REFUSED: u64 = 1;

impl AdmissionFilter {
    /// The table is cleared after this time, because a file that could not be cached may have
    /// changed. A name is then admitted at its second request again.
    const MAX_AGE: Duration = Duration::from_secs(10);

    pub(super) fn new(names: usize) -> AdmissionFilter {
        AdmissionFilter {
            random: RandomState::new(),
            names: vec![0; names].into(),
            since: None,
        }
    }

    pub(super) fn record(&mut self, site: usize, name: &[u8], now: Instant) -> Admission {
        let old = |since| now.saturating_duration_since(since) >= Self::MAX_AGE;
        if self.since.is_none_or(old) {
            self.since = Some(now);
            self.names.fill(0);
        }
        let (slot, hash) = self.slot(site, name);
        match std::mem::replace(slot, hash) {
            seen if seen == hash => Admission::Again,
            seen if seen == hash | REFUSED => {
                *slot = seen;
                Admission::Refused
            }
            _ => Admission::First,
        }
    }

    /// Records that caching the name failed.
    pub(super) fn refuse(&mut self, site: usize, name: &[u8]) {
        let (slot, hash) = self.slot(site, name);
        *slot = hash | REFUSED;
    }

    fn slot(&mut self, site: usize, name: &[u8]) -> (&mut u64, u64) {
        let hash = self.random.hash_one((site, name));
        let slot = (hash >> 32) as usize % self.names.len();
        // Never zero, which marks an empty entry.
        (&mut self.names[slot], hash & !REFUSED | 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_admitted_at_its_second_request() {
        let mut admission = AdmissionFilter::new(64);
        let now = Instant::now();
        assert_eq!(admission.record(0, b"a", now), Admission::First);
        assert_eq!(admission.record(0, b"a", now), Admission::Again);
        admission.refuse(0, b"a");
        assert_eq!(admission.record(0, b"a", now), Admission::Refused);
        let later = now + AdmissionFilter::MAX_AGE;
        assert_eq!(admission.record(0, b"a", later), Admission::First);
    }
}
