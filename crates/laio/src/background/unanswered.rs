//! What remote file systems have not answered.

use crate::Limits;
use std::time::Instant;

/// The calls that remote file systems have not answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unanswered(Vec<OfMount>);

#[derive(Clone, Copy, Debug)]
struct OfMount {
    device: u64,
    calls: usize,
    /// Since when the file system has answered none of the calls that run; `None` if none runs.
    since: Option<Instant>,
}

impl Unanswered {
    /// From device numbers, numbers of calls, and since when none of those that run was answered. A device
    /// may come more than once.
    pub(crate) fn from_mounts(
        mounts: impl Iterator<Item = (u64, usize, Option<Instant>)>,
    ) -> Unanswered {
        let mut all = Unanswered::default();
        mounts.for_each(|(device, calls, since)| {
            all.note(OfMount {
                device,
                calls,
                since,
            });
        });
        all
    }

    /// With the calls of another part of the engine.
    pub(crate) fn and(mut self, other: Unanswered) -> Unanswered {
        other.0.into_iter().for_each(|one| self.note(one));
        self
    }

    fn note(&mut self, new: OfMount) {
        match self.0.iter_mut().find(|one| one.device == new.device) {
            Some(one) => {
                one.calls += new.calls;
                // An answer to one of the parts is an answer.
                one.since = one.since.max(new.since);
            }
            None => self.0.push(new),
        }
    }

    /// The number of calls.
    pub(crate) fn calls(&self) -> usize {
        self.0.iter().map(|one| one.calls).sum()
    }

    /// The device numbers of the file systems that hang: they have answered nothing for
    /// [`Limits::HUNG_AFTER`] although calls wait.
    pub(crate) fn hung(&self) -> impl Iterator<Item = u64> {
        let hangs = |one: &&OfMount| {
            one.since
                .is_some_and(|at| at.elapsed() >= Limits::HUNG_AFTER)
        };
        self.0.iter().filter(hangs).map(|one| one.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_file_system_hangs_until_any_of_its_calls_is_answered() {
        let now = Instant::now();
        let Some(long_ago) = now.checked_sub(Limits::HUNG_AFTER + Duration::from_secs(60)) else {
            return;
        };
        let calls = |since| Unanswered::from_mounts([(7, 3, since), (8, 1, Some(now))].into_iter());
        let hung = |all: Unanswered| all.hung().collect::<Vec<_>>();
        assert_eq!(calls(Some(long_ago)).calls(), 4);
        assert_eq!(hung(calls(Some(long_ago))), [7]);
        assert_eq!(hung(calls(None)), []);
        let both = calls(Some(long_ago)).and(calls(Some(now)));
        assert_eq!((both.calls(), hung(both)), (8, Vec::new()));
    }
}
