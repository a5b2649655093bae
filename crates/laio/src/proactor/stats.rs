//! The statistics of a proactor.

/// The statistics of a proactor since it was made, or since the process was forked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProactorStats {
    /// Operations finished by the attempt on the polling thread.
    pub inline: u64,
    /// Operations whose attempt would have blocked.
    pub background: u64,
    /// Operations without an attempt, or whose file system has refused it.
    pub fallback: u64,
    /// Operations and functions handed to a driver, its helpers, or a thread of their own.
    pub handed_over: u64,
    /// How many of these went to a helper without a wakeup of the driver, and are not functions.
    pub direct: u64,
    /// How many of these were submitted to the ring of an event loop.
    pub in_loops: u64,
    /// How many of these a thread was started for, because of the rights of their thread.
    pub one_shots: u64,
    /// Operations in flight whose futures were dropped.
    pub cancelled: u64,
    /// Operations on remote file systems (FUSE, network) that a thread makes, or that wait for one, now.
    pub unanswered: u64,
    /// Remote file systems that hang now: they have answered none of these operations for
    /// [`Limits::HUNG_AFTER`](crate::Limits::HUNG_AFTER).
    pub hung_mounts: u64,
}

/// One value of the statistics, with the name and the kind that monitoring systems such as Prometheus use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name: `laio_` and the field, with `_total` if it only grows.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Whether it goes up and down. Others only grow, until the process forks.
    pub is_gauge: bool,
    /// The value.
    pub value: u64,
}

impl ProactorStats {
    /// The values, for monitoring.
    ///
    /// ```
    /// let proactor = laio::Proactor::new(laio::Options::new())?;
    /// for metric in proactor.stats().metrics() {
    ///     let kind = if metric.is_gauge { "gauge" } else { "counter" };
    ///     println!("# TYPE {} {kind}\n{} {}", metric.name, metric.name, metric.value);
    /// }
    /// # Ok::<(), laio::Errno>(())
    /// ```
    #[rustfmt::skip]
    pub fn metrics(&self) -> [Metric; 10] {
        let metric = |name: &'static str, value, help| Metric {
            name,
            help,
            is_gauge: !name.ends_with("_total"),
            value,
        };
        [
            metric("laio_inline_total", self.inline,
                "Operations finished by the attempt on the polling thread."),
            metric("laio_background_total", self.background, "Operations whose attempt would have blocked."),
            metric("laio_fallback_total", self.fallback,
                "Operations without an attempt, or whose file system has refused it."),
            metric("laio_handed_over_total", self.handed_over,
                "Operations and functions handed to a driver, its helpers, or a thread of their own."),
            metric("laio_direct_total", self.direct,
                "Operations handed to a helper without a wakeup of the driver."),
            metric("laio_in_loops_total", self.in_loops, "Reads submitted to the ring of an event loop."),
            metric("laio_one_shots_total", self.one_shots,
                "Operations that a thread was started for, because of the rights of their thread."),
            metric("laio_cancelled_total", self.cancelled,
                "Operations in flight whose futures were dropped."),
            metric("laio_unanswered", self.unanswered,
                "Operations on remote file systems that a thread makes, or that wait for one, now."),
            metric("laio_hung_mounts", self.hung_mounts, "Remote file systems that hang now."),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_metric() {
        let stats = ProactorStats {
            inline: 1,
            background: 2,
            fallback: 3,
            handed_over: 4,
            direct: 5,
            in_loops: 6,
            one_shots: 7,
            cancelled: 8,
            unanswered: 9,
            hung_mounts: 10,
        };
        let metrics = stats.metrics();
        let values: Vec<u64> = metrics.iter().map(|metric| metric.value).collect();
        assert_eq!(values, (1..=10).collect::<Vec<_>>());
        for metric in metrics {
            assert!(metric.name.starts_with("laio_") && metric.help.ends_with('.'));
            assert_eq!(metric.is_gauge, !metric.name.ends_with("_total"));
        }
    }
}
