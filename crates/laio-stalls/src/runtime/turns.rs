//! Decides from the counts of the runtime whether a worker turns.

use std::time::Duration;

/// How often a worker has parked or unparked, and how long it has been busy until its last turn. The first
/// number is odd while it sleeps.
pub type TurnCounts = (u64, Duration);

/// What is known of the turns of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerTurns {
    counts: TurnCounts,
    /// How long the counts have been these.
    time: Duration,
    is_reported: bool,
}

/// What a look at a worker has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It sleeps, has turned not long ago, or its stall is reported.
    Recent,
    /// It has not turned for half of the time that it may take.
    Late,
    /// It has not turned for that time.
    Stalled,
}

impl WorkerTurns {
    /// Takes a look, so long after the last one.
    pub(crate) fn look(&mut self, time: Duration, counts: TurnCounts, over: Duration) -> Turn {
        if self.counts != counts {
            *self = WorkerTurns {
                counts,
                ..WorkerTurns::default()
            };
            return Turn::Recent;
        }
        self.time += time;
        if self.is_parked() || self.is_reported || self.time < over / 2 {
            return Turn::Recent;
        }
        if self.time < over {
            return Turn::Late;
        }
        self.is_reported = true;
        Turn::Stalled
    }

    /// Its stall was not reported: the next look finds it again, if it has not turned.
    pub(crate) fn report_later(&mut self) {
        self.is_reported = false;
    }

    /// How long it has not turned.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// Takes counts without a look.
    pub(crate) fn note(&mut self, counts: TurnCounts) {
        if self.counts != counts {
            *self = WorkerTurns {
                counts,
                ..WorkerTurns::default()
            };
        }
    }

    /// Whether it has slept since the last look.
    pub(crate) fn has_slept(&self) -> bool {
        self.is_parked() && !self.time.is_zero()
    }

    /// The count grows when it parks and when it goes on.
    fn is_parked(&self) -> bool {
        self.counts.0 % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const OVER: Duration = Duration::from_millis(4);

    fn looks(worker: &mut WorkerTurns, counts: &[TurnCounts]) -> Vec<Turn> {
        counts
            .iter()
            .map(|counts| worker.look(MS, *counts, OVER))
            .collect()
    }

    #[test]
    fn a_stall_without_a_report_is_found_again() {
        let mut worker = WorkerTurns::default();
        let counts = [(2, MS); 6];
        assert_eq!(
            looks(&mut worker, &counts)[4..],
            [Turn::Stalled, Turn::Recent]
        );
        worker.report_later();
        assert_eq!(
            looks(&mut worker, &counts[..2]),
            [Turn::Stalled, Turn::Recent]
        );
    }

    #[test]
    fn a_worker_that_stands_is_late_and_then_reported_once() {
        use Turn::{Late, Recent, Stalled};
        let mut worker = WorkerTurns::default();
        let found = looks(&mut worker, &[(2, MS); 8]);
        let expected = [Recent, Recent, Late, Late, Stalled, Recent, Recent, Recent];
        assert_eq!(found, expected);
        // It turns, and stands again.
        let found = looks(&mut worker, &[(2, MS * 9); 5]);
        assert_eq!(found, [Recent, Recent, Late, Late, Stalled]);
        assert_eq!(worker.time(), OVER);
    }

    #[test]
    fn an_idle_worker_is_never_late() {
        let mut worker = WorkerTurns::default();
        let found = looks(&mut worker, &[(1, MS); 100]);
        assert!(found.iter().all(|turn| *turn == Turn::Recent));
        assert!(worker.has_slept() && !WorkerTurns::default().has_slept());
    }

    #[test]
    fn a_busy_worker_that_turns_is_never_late() {
        let mut worker = WorkerTurns::default();
        let counts: Vec<TurnCounts> = (0..100).map(|turn| (2, MS * turn)).collect();
        let found = looks(&mut worker, &counts);
        assert!(found.iter().all(|turn| *turn == Turn::Recent));
    }
}
