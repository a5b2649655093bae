//! Decides whether perf may record a thread: each switch that it records costs the thread some time, and a
//! thread that switches all the time fills the records between two looks.

/// How often in a second a thread may get a processor while perf records it.
const MAX_SWITCHES: u64 = 5000;

/// How long switches are counted before the next decision, in nanoseconds.
const INTERVAL: u64 = 1_000_000_000;

/// How often a thread gets a processor.
#[derive(Debug, Default)]
pub(crate) struct SwitchRate {
    /// The time of the last decision, and the count of switches then.
    since: Option<(u64, u64)>,
    is_high: bool,
}

impl SwitchRate {
    /// Takes the count of switches at this time. Returns whether perf may record, if that has changed.
    pub(crate) fn update(&mut self, at: u64, switches: u64) -> Option<bool> {
        let (since, before) = *self.since.get_or_insert((at, switches));
        let time = at.saturating_sub(since);
        let switches_since = switches.saturating_sub(before);
        let most = MAX_SWITCHES * time.max(INTERVAL) / INTERVAL;
        let is_high = switches_since > most;
        if time < INTERVAL && !is_high {
            return None;
        }
        self.since = Some((at, switches));
        let has_changed = is_high != std::mem::replace(&mut self.is_high, is_high);
        has_changed.then_some(!is_high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_that_switches_often_is_not_recorded_for_a_second() {
        let mut rate = SwitchRate::default();
        assert_eq!(rate.update(0, 70_000), None);
        assert_eq!(rate.update(100 * MS, 74_000), None);
        assert_eq!(rate.update(200 * MS, 76_000), Some(false));
        // Still too often, then seldom.
        assert_eq!(rate.update(1200 * MS, 83_000), None);
        assert_eq!(rate.update(1900 * MS, 83_500), None);
        assert_eq!(rate.update(2200 * MS, 83_900), Some(true));
        assert_eq!(rate.update(9000 * MS, 84_000), None);
    }
}
