//! How many helpers a lane has at a time: twice as many as long as that makes more of its calls end.
//!
//! A disk that is busy with sixteen calls gets no faster with sixty-four, but each helper costs memory,
//! and its wakeups interrupt the thread that waits for it. How many a file system can use is not known,
//! so it is measured: the calls that end in a second while others are queued.

use std::time::{Duration, Instant};

/// The limit of a lane.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    limit: usize,
    most: usize,
    /// The calls that have ended since the limit has changed, if calls were queued all the time.
    round: Option<Round>,
    /// How long a call took on average, when half as many ran at a time; `None` if that was not measured.
    with_fewer: Option<Duration>,
    /// The limit has proved useless for the present.
    settled_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    since: Instant,
    /// Not counted: these calls began before all helpers had one.
    first: usize,
    ended: usize,
}

impl Growth {
    /// The calls that end before the rate is compared: fewer depend too much on chance.
    const ROUND: usize = 64;
    /// Twice as many helpers stay if an average call then takes less than this part of the time, in percent.
    const USEFUL: u32 = 88;
    /// How long the limit stays when growing was useless.
    const PAUSE: Duration = Duration::from_secs(1);

    /// A limit that does not change.
    pub(crate) fn fixed(limit: usize) -> Growth {
        Growth::new(limit, limit)
    }

    pub(crate) fn new(first: usize, most: usize) -> Growth {
        let most = most.max(1);
        Growth {
            limit: first.clamp(1, most),
            most,
            round: None,
            with_fewer: None,
            settled_at: None,
        }
    }

    /// How many calls may run at a time.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// A call has ended. `any_queued`: others wait for its helper. Returns whether the limit has grown.
    pub(crate) fn ended(&mut self, any_queued: bool, now: Instant) -> bool {
        if !any_queued || self.limit == self.most && self.with_fewer.is_none() {
            // The limit keeps no call from beginning, or is final.
            self.round = None;
            return false;
        }
        let pauses = |since| now.saturating_duration_since(since) < Growth::PAUSE;
        if self.settled_at.is_some_and(pauses) {
            return false;
        }
        let first = if self.with_fewer.is_some() {
            self.limit
        } else {
            0
        };
        let round = self.round.get_or_insert(Round {
            since: now,
            first,
            ended: 0,
        });
        if round.first > 0 {
            round.first -= 1;
            round.since = now;
            return false;
        }
        round.ended += 1;
        if round.ended < Growth::ROUND.max(2 * self.limit) {
            return false;
        }
        let took = now.saturating_duration_since(round.since) / round.ended as u32;
        self.end_round(took, now)
    }

    /// Compares how long a call took on average, with all that ran at the same time.
    fn end_round(&mut self, took: Duration, now: Instant) -> bool {
        self.round = None;
        let is_useful = |before: Duration| took * 100 < before * Growth::USEFUL;
        match self.with_fewer {
            Some(before) if !is_useful(before) => {
                self.limit = self.limit.div_ceil(2);
                (self.with_fewer, self.settled_at) = (None, Some(now));
                false
            }
            _ if self.limit == self.most => {
                self.with_fewer = None;
                false
            }
            _ => {
                self.limit = (2 * self.limit).min(self.most);
                (self.with_fewer, self.settled_at) = (Some(took), None);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs calls on a device that makes at most `width` of them at a time, each in a millisecond, and
    /// returns the limit at the end.
    fn limit_after(growth: &mut Growth, calls: usize, width: usize, begin: Instant) -> usize {
        let mut now = begin;
        for _ in 0..calls {
            now += Duration::from_millis(1) / growth.limit().min(width) as u32;
            growth.ended(true, now);
        }
        growth.limit()
    }

    #[test]
    fn a_lane_has_as_many_helpers_as_its_device_can_use() {
        for (width, expected) in [(1, 16), (16, 16), (32, 32), (64, 64), (1_000, 512)] {
            let mut growth = Growth::new(16, 512);
            let limit = limit_after(&mut growth, 5_000, width, Instant::now());
            assert_eq!(limit, expected, "{width} at a time");
        }
    }

    #[test]
    fn a_lane_tries_again_after_a_second() {
        let (mut growth, begin) = (Growth::new(16, 64), Instant::now());
        assert_eq!(limit_after(&mut growth, 500, 16, begin), 16);
        let later = begin + 3 * Growth::PAUSE;
        assert_eq!(limit_after(&mut growth, 2_000, 64, later), 64);
    }

    #[test]
    fn without_queued_calls_or_room_the_limit_stays() {
        for (mut growth, any_queued) in [(Growth::new(2, 64), false), (Growth::fixed(2), true)] {
            let mut now = Instant::now();
            for _ in 0..1_000 {
                now += Duration::from_micros(1);
                assert!(!growth.ended(any_queued, now));
            }
            assert_eq!(growth.limit(), 2);
        }
    }
}
