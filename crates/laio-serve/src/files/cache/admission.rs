//! Cache admission: a file is admitted when its name was requested before, since the table was last
//! cleared, so one-off reads do not evict anything. Names of all sites share the table: a request
//! to one site admits the name on another.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The requested names, as hashes in a fixed-size table whose entries overwrite each other.
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

    pub(super) fn record(&mut self, name: &[u8], now: Instant) -> Admission {
        let old = |since| now.saturating_duration_since(since) >= Self::MAX_AGE;
        if self.since.is_none_or(old) {
            self.since = Some(now);
            self.names.fill(0);
        }
        let (slot, hash) = self.slot(name);
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
    pub(super) fn refuse(&mut self, name: &[u8]) {
        let (slot, hash) = self.slot(name);
        *slot = hash | REFUSED;
    }

    fn slot(&mut self, name: &[u8]) -> (&mut u64, u64) {
        let hash = self.random.hash_one(name);
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
        assert_eq!(admission.record(b"a", now), Admission::First);
        assert_eq!(admission.record(b"a", now), Admission::Again);
        admission.refuse(b"a");
        assert_eq!(admission.record(b"a", now), Admission::Refused);
        let later = now + AdmissionFilter::MAX_AGE;
        assert_eq!(admission.record(b"a", later), Admission::First);
    }
}
