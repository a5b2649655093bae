//! Turns looks at a thread into its waits, with the start and the length of each.
//!
//! The scheduler counts how often the thread has got a processor. If that number has not changed between
//! two looks, the thread has been in the same wait all the time.

use crate::proc_files::{BlockedCall, Position, Times};

/// How long a thread may run between two waits in the same call with the same arguments for them to be
/// one: a call that reads several blocks from a device waits for each.
const PAUSE: u64 = 200_000;

/// A time off the processor, as perf has recorded it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffTime {
    /// When it began.
    pub(crate) start: u64,
    /// When it ended; `None` if it lasts.
    pub(crate) end: Option<u64>,
    /// Whether another thread took the processor from a thread that could have run on.
    pub(crate) is_preemption: bool,
}

/// A wait that may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Where the thread waits.
    pub(crate) call: BlockedCall,
    /// When it began, in nanoseconds.
    pub(crate) start: u64,
    /// How long the thread has run or could have run since.
    excluded: u64,
}

impl Wait {
    /// How long it has lasted at this time.
    pub(crate) fn length(&self, at: u64) -> u64 {
        at.saturating_sub(self.start).saturating_sub(self.excluded)
    }
}

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A wait has ended after so many nanoseconds.
    Ended(Wait, u64),
    /// The thread could run, and had no processor for so many nanoseconds before this time.
    Delayed { until: u64, length: u64 },
    /// A wait has begun and ended between two looks, and its call is not known.
    Missed(u64),
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: u64,
    times: Times,
}

/// The waits of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    last: Option<Look>,
    current: Option<Wait>,
}

impl Waits {
    /// The wait in which the thread was at the last look.
    pub(crate) fn current(&self) -> Option<&Wait> {
        self.current.as_ref()
    }

    /// Whether the thread is still in the same wait, so that its position is known.
    pub(crate) fn continues(&self, times: Times) -> bool {
        self.current.is_some()
            && self
                .last
                .is_some_and(|last| last.times.turns == times.turns)
    }

    /// Takes a look. `off` is what perf has recorded since the last one.
    pub(crate) fn look(
        &mut self,
        at: u64,
        times: Times,
        position: Position,
        off: &[OffTime],
    ) -> Vec<Change> {
        let Some(last) = self.last.replace(Look { at, times }) else {
            self.current = begun(position, at);
            return Vec::new();
        };
        let interval = Interval::between(last, at, times);
        let mut changes = Vec::new();
        changes.extend(interval.delays(at, off));
        if interval.turns == 0 && self.current.is_some() {
            return changes;
        }
        let before = self.current.take();
        self.current = begun(position, at);
        if let (Some(before), Some(now)) = (before, &mut self.current)
            && before.call == now.call
            && interval.run < PAUSE
        {
            now.start = before.start;
            now.excluded = before.excluded + interval.run + interval.delay;
            return changes;
        }
        changes.extend(
            before.map(|wait| {
                Change::Ended(wait, interval.ended(&wait, self.current.is_some(), off))
            }),
        );
        changes.extend(missed(off, interval.begin));
        if let Some(now) = &mut self.current {
            let open = off.last().filter(|off| off.end.is_none());
            let share = interval.off / (interval.turns + 1);
            now.start = open.map_or(at - share, |off| off.start.min(at));
        }
        changes
    }
}

fn begun(position: Position, at: u64) -> Option<Wait> {
    match position {
        Position::Running => None,
        Position::Blocked(call) => Some(Wait {
            call,
            start: at,
            excluded: 0,
        }),
    }
}

/// The waits that no look has seen: they began after the last one, at this time.
fn missed(off: &[OffTime], last: u64) -> impl Iterator<Item = Change> {
    let unseen = off
        .iter()
        .filter(move |off| off.start >= last && !off.is_preemption);
    unseen.filter_map(|off| Some(Change::Missed(off.end?.saturating_sub(off.start))))
}

/// What the scheduler has counted between two looks.
struct Interval {
    begin: u64,
    run: u64,
    delay: u64,
    turns: u64,
    /// How long the thread was neither running nor able to run.
    off: u64,
    /// How much of the delay lies before the interval: it is counted when it ends.
    early: u64,
}

impl Interval {
    fn between(last: Look, at: u64, times: Times) -> Interval {
        let run = times.run.saturating_sub(last.times.run);
        let delay = times.delay.saturating_sub(last.times.delay);
        let time = at.saturating_sub(last.at);
        Interval {
            begin: last.at,
            run,
            delay,
            turns: times.turns.saturating_sub(last.times.turns),
            off: time.saturating_sub(run).saturating_sub(delay),
            early: (run + delay).saturating_sub(time),
        }
    }

    /// The times without a processor that have ended. perf records those that began while the thread ran; the
    /// rest, after a wait, is what the scheduler has counted, in equal shares.
    fn delays(&self, at: u64, off: &[OffTime]) -> Vec<Change> {
        let recorded = off.iter().filter(|off| off.is_preemption);
        let recorded = recorded.filter_map(|off| Some((off.start, off.end?)));
        let mut delays: Vec<Change> = recorded
            .map(|(start, until)| Change::Delayed {
                until,
                length: until.saturating_sub(start),
            })
            .collect();
        let known = delays.iter().map(|delay| match delay {
            Change::Delayed { length, .. } => *length,
            _ => 0,
        });
        let delay = self.delay.saturating_sub(known.sum());
        let turns = self.turns.saturating_sub(delays.len() as u64);
        if turns > 0 && delay > 0 {
            // A delay that is longer than the interval began before it, and has ended before the thread ran.
            let after = if self.off == 0 {
                self.run
            } else {
                (self.run + self.off) / 2
            };
            let until = at.saturating_sub(after);
            let length = delay / turns;
            delays.push(Change::Delayed { until, length });
        }
        delays
    }

    /// How long a wait lasted that has ended in this interval. Without records, the time off the
    /// processor in this interval belongs in equal shares to this wait and to the ones after it. A delay
    /// that began before the interval was the end of the wait.
    fn ended(&self, wait: &Wait, another_follows: bool, off: &[OffTime]) -> u64 {
        let recorded = off.first().and_then(|off| off.end);
        if let Some(end) = recorded.filter(|end| *end >= self.begin) {
            let delay = if self.turns <= 1 { self.delay } else { 0 };
            return wait.length(end).saturating_sub(delay);
        }
        let waits = self.turns.max(1) + u64::from(another_follows);
        let early = if self.turns <= 1 { self.early } else { 0 };
        wait.length(self.begin + self.off / waits)
            .saturating_sub(early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn blocked(number: usize) -> Position {
        Position::Blocked(BlockedCall {
            number: Some(number),
            arguments: [0; 6],
            stack: 0,
            instruction: 0,
        })
    }

    fn times(run: u64, delay: u64, turns: u64) -> Times {
        Times { run, delay, turns }
    }

    fn lengths(changes: &[Change]) -> Vec<u64> {
        let length = |change: &Change| match change {
            Change::Ended(_, length) => Some(*length),
            _ => None,
        };
        changes.iter().filter_map(length).collect()
    }

    #[test]
    fn a_wait_ends_when_the_thread_gets_a_processor() {
        let mut waits = Waits::default();
        assert_eq!(waits.look(0, times(0, 0, 1), Position::Running, &[]), []);
        // It ran for 1 ms of 3, so the wait began at 1 ms.
        assert_eq!(waits.look(3 * MS, times(MS, 0, 1), blocked(1), &[]), []);
        assert_eq!(waits.current().unwrap().start, MS);
        assert!(waits.continues(times(MS, 0, 1)));
        let changes = waits.look(10 * MS, times(2 * MS, 0, 2), Position::Running, &[]);
        assert_eq!(lengths(&changes), [8 * MS]);
        assert!(waits.current().is_none());
    }

    #[test]
    fn several_waits_of_one_call_are_one() {
        let mut waits = Waits::default();
        waits.look(0, times(0, 0, 1), blocked(1), &[]);
        waits.look(MS, times(10_000, 0, 5), blocked(1), &[]);
        assert_eq!(waits.look(2 * MS, times(20_000, 0, 9), blocked(1), &[]), []);
        let changes = waits.look(4 * MS, times(2 * MS, 0, 10), blocked(2), &[]);
        assert_eq!(lengths(&changes).len(), 1);
    }

    #[test]
    fn a_delay_is_no_part_of_the_wait() {
        let mut waits = Waits::default();
        waits.look(0, times(0, 0, 1), blocked(1), &[]);
        let changes = waits.look(10 * MS, times(0, 4 * MS, 2), Position::Running, &[]);
        assert_eq!(lengths(&changes), [6 * MS]);
        let delay = Change::Delayed {
            until: 7 * MS,
            length: 4 * MS,
        };
        assert!(changes.contains(&delay), "{changes:?}");
    }

    #[test]
    fn a_wait_before_a_long_delay_keeps_its_length() {
        let mut waits = Waits::default();
        waits.look(0, times(0, 0, 1), blocked(1), &[]);
        assert_eq!(
            waits.look(9 * MS, times(0, 0, 1), Position::Running, &[]),
            []
        );
        // Of its 20 ms without a processor 2 lie before the last look.
        let changes = waits.look(27 * MS, times(0, 20 * MS, 2), Position::Running, &[]);
        assert_eq!(lengths(&changes), [7 * MS]);
    }

    #[test]
    fn records_tell_a_delay_from_those_after_waits() {
        let mut waits = Waits::default();
        waits.look(0, times(0, 0, 1), Position::Running, &[]);
        let preempted = OffTime {
            start: MS,
            end: Some(4 * MS),
            is_preemption: true,
        };
        let look = times(3 * MS, 4 * MS, 4);
        let changes = waits.look(7 * MS, look, Position::Running, &[preempted]);
        let delays = [(4 * MS, 3 * MS), (4 * MS, MS / 2)];
        let delays = delays.map(|(until, length)| Change::Delayed { until, length });
        assert_eq!(changes, delays);
    }

    #[test]
    fn records_give_the_times_and_what_was_missed() {
        let off = |start, end| OffTime {
            start,
            end,
            is_preemption: false,
        };
        let mut waits = Waits::default();
        waits.look(0, times(0, 0, 1), Position::Running, &[]);
        waits.look(5 * MS, times(0, 0, 1), blocked(1), &[off(2 * MS, None)]);
        assert_eq!(waits.current().unwrap().start, 2 * MS);
        let records = [
            off(2 * MS, Some(7 * MS)),
            off(8 * MS, Some(9 * MS)),
            off(10 * MS, None),
        ];
        let changes = waits.look(12 * MS, times(2 * MS, 0, 3), blocked(2), &records);
        assert_eq!(lengths(&changes), [5 * MS]);
        assert!(changes.contains(&Change::Missed(MS)));
        assert_eq!(waits.current().unwrap().start, 10 * MS);
    }
}
