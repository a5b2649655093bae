//! Whether an upstream gets requests: judged by the requests that fail (passive), and by checks
//! (active). All workers of a process share the judgement, so that it costs each of them one atomic
//! load for a request.

use laio_serve_base::messages::print;
use laio_serve_base::observe::gauges::UpstreamGauge;
use laio_serve_base::options::UpstreamLimits;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The share of its weight that an upstream has at the beginning of its slow start.
const SLOW_START_SHARE: f64 = 0.1;

/// Milliseconds since a moment before the first call, never 0.
pub fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    1 + millis(START.elapsed())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The health of an upstream. Times are those of [`now`].
#[derive(Debug)]
pub struct Health {
    /// The name in messages.
    name: String,
    /// When it may be tried again; 0 while it is in use.
    out_until: AtomicU64,
    /// Whether a request tries it, while it is out.
    on_trial: AtomicBool,
    /// Whether its checks fail.
    fails_checks: AtomicBool,
    /// When it came back; 0 if that is long ago.
    back_since: AtomicU64,
    /// When the next check is due.
    next_check: AtomicU64,
    record: Mutex<Record>,
}

/// What changes only with failures and checks.
#[derive(Debug, Default)]
struct Record {
    /// The times of the last failures.
    failures: VecDeque<u64>,
    /// How often in a row it was left out.
    outages: u32,
    failed_checks: u32,
    passed_checks: u32,
}

impl Health {
    pub(crate) fn new(name: &str) -> Health {
        Health {
            name: name.to_owned(),
            out_until: AtomicU64::new(0),
            on_trial: AtomicBool::new(false),
            fails_checks: AtomicBool::new(false),
            back_since: AtomicU64::new(0),
            next_check: AtomicU64::new(0),
            record: Mutex::default(),
        }
    }

    /// Whether it gets requests.
    pub(crate) fn is_in_use(&self) -> bool {
        self.out_until.load(Ordering::Relaxed) == 0 && !self.fails_checks.load(Ordering::Relaxed)
    }

    /// Whether a request may try it, because its time is over.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        let until = self.out_until.load(Ordering::Relaxed);
        until != 0 && until <= now && !self.fails_checks.load(Ordering::Relaxed)
    }

    /// Lets one request try it. Returns false if another request does.
    pub(crate) fn try_again(&self, now: u64, limits: &UpstreamLimits) -> bool {
        let until = self.out_until.load(Ordering::Relaxed);
        let next = now + millis(limits.out_time).max(1);
        let claimed = until != 0
            && until <= now
            && self
                .out_until
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if claimed {
            self.on_trial.store(true, Ordering::Relaxed);
        }
        claimed
    }

    /// Lets a request try it although its time is not over, because all others are out too.
    pub(crate) fn try_anyway(&self) {
        if self.out_until.load(Ordering::Relaxed) != 0 {
            self.on_trial.store(true, Ordering::Relaxed);
        }
    }

    /// Returns its weight: less than the full one after it has come back.
    pub(crate) fn weight(&self, weight: u32, now: u64, limits: &UpstreamLimits) -> f64 {
        let full = f64::from(weight);
        let since = self.back_since.load(Ordering::Relaxed);
        if since == 0 {
            return full;
        }
        let (passed, whole) = (now.saturating_sub(since), millis(limits.slow_start));
        if passed >= whole {
            let _ =
                self.back_since
                    .compare_exchange(since, 0, Ordering::Relaxed, Ordering::Relaxed);
            return full;
        }
        full * (passed as f64 / whole as f64).max(SLOW_START_SHARE)
    }

    /// Notes that it has answered a request.
    pub(crate) fn succeeded(&self, now: u64) {
        if !self.on_trial.load(Ordering::Relaxed) {
            return;
        }
        let mut record = self.record();
        if self.on_trial.swap(false, Ordering::Relaxed) {
            record.failures.clear();
            self.out_until.store(0, Ordering::Relaxed);
            self.back_since.store(now, Ordering::Relaxed);
            print(format_args!(
                "{} answers again and gets requests",
                self.name
            ));
        }
    }

    /// Notes that a request has failed. Leaves the upstream out after several failures, or if this
    /// was a trial.
    pub(crate) fn failed(&self, now: u64, limits: &UpstreamLimits, why: impl fmt::Display) {
        let mut record = self.record();
        if self.out_until.load(Ordering::Relaxed) != 0 {
            if self.on_trial.swap(false, Ordering::Relaxed) {
                self.leave_out(&mut record, now, limits);
            }
            return;
        }
        let window = millis(limits.failure_window);
        record.failures.push_back(now);
        while record
            .failures
            .front()
            .is_some_and(|&first| first.saturating_add(window) < now)
        {
            record.failures.pop_front();
        }
        let count = record.failures.len();
        if count < limits.failures.max(1) as usize {
            return;
        }
        let back = self.back_since.swap(0, Ordering::Relaxed);
        if back == 0 {
            record.outages = 0;
        }
        let time = self.leave_out(&mut record, now, limits);
        print(format_args!(
            "{} is left out for {time:?}: {count} requests have failed within {:?}; the last: {why}",
            self.name, limits.failure_window
        ));
    }

    /// Leaves it out, longer each time.
    fn leave_out(&self, record: &mut Record, now: u64, limits: &UpstreamLimits) -> Duration {
        let doubled = 1_u32.checked_shl(record.outages).unwrap_or(u32::MAX);
        let time = limits
            .out_time
            .saturating_mul(doubled)
            .min(UpstreamLimits::OUT_TIME_MAX.max(limits.out_time));
        record.outages = record.outages.saturating_add(1);
        record.failures.clear();
        let until = now.saturating_add(millis(time).max(1));
        self.out_until.store(until, Ordering::Relaxed);
        time
    }

    /// Whether the caller is to make the check that is due. Only one of several callers is.
    pub(crate) fn claim_check(&self, now: u64, limits: &UpstreamLimits) -> bool {
        let due = self.next_check.load(Ordering::Relaxed);
        // A little early, so that timers that end at the same moment do not miss a turn.
        let interval = millis(limits.health_interval);
        due <= now
            && self
                .next_check
                .compare_exchange(
                    due,
                    now + interval - interval / 10,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    /// Notes the result of a check.
    pub(crate) fn checked(&self, now: u64, result: Result<(), String>) {
        let mut record = self.record();
        match result {
            Ok(()) => {
                record.failed_checks = 0;
                record.passed_checks = record.passed_checks.saturating_add(1);
                if record.passed_checks >= UpstreamLimits::CHECKS
                    && self.fails_checks.swap(false, Ordering::Relaxed)
                {
                    record.failures.clear();
                    self.out_until.store(0, Ordering::Relaxed);
                    self.back_since.store(now, Ordering::Relaxed);
                    print(format_args!("{} passes its checks again", self.name));
                }
            }
            Err(why) => {
                record.passed_checks = 0;
                record.failed_checks = record.failed_checks.saturating_add(1);
                if record.failed_checks >= UpstreamLimits::CHECKS
                    && !self.fails_checks.swap(true, Ordering::Relaxed)
                {
                    print(format_args!(
                        "{} fails its checks and gets no requests, unless it is the only upstream: {why}",
                        self.name
                    ));
                }
            }
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UpstreamGauge for Health {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_in_use(&self) -> bool {
        Health::is_in_use(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> UpstreamLimits {
        UpstreamLimits {
            failures: 3,
            failure_window: Duration::from_secs(10),
            out_time: Duration::from_secs(5),
            slow_start: Duration::from_secs(10),
            ..UpstreamLimits::default()
        }
    }

    #[test]
    fn several_failures_in_a_window_leave_an_upstream_out() {
        let (health, limits) = (Health::new("a"), limits());
        for at in [1_000, 2_000, 12_500, 13_000] {
            health.failed(at, &limits, "refused");
        }
        assert!(health.is_in_use());
        health.failed(14_000, &limits, "refused");
        assert!(!health.is_in_use() && !health.is_due(18_999) && health.is_due(19_000));
        // One request tries it; the others see it as out.
        assert!(health.try_again(19_000, &limits) && !health.try_again(19_000, &limits));
        assert!(!health.is_due(20_000));
        // Each failed trial doubles the time.
        health.failed(19_500, &limits, "refused");
        assert!(!health.is_due(29_499) && health.is_due(29_500));
        assert!(health.try_again(29_500, &limits));
        health.failed(30_000, &limits, "refused");
        assert!(!health.is_due(49_999) && health.is_due(50_000));
        assert!(health.try_again(50_000, &limits));
        health.succeeded(50_100);
        assert!(health.is_in_use());
    }

    #[test]
    fn the_time_is_limited_and_starts_again_after_a_long_success() {
        let (health, limits) = (Health::new("a"), limits());
        let mut at = 1_000;
        let fail = |at: u64| (0..3).for_each(|_| health.failed(at, &limits, "refused"));
        fail(at);
        for _ in 0..40 {
            at += 60_000;
            assert!(health.try_again(at, &limits));
            health.failed(at, &limits, "refused");
        }
        assert!(health.is_due(at + 60_000));
        assert!(health.try_again(at + 60_000, &limits));
        health.succeeded(at + 60_000);
        // It fails again while it starts slowly: the time is still long.
        fail(at + 61_000);
        assert!(!health.is_due(at + 120_999));
        assert!(health.try_again(at + 121_000, &limits));
        health.succeeded(at + 121_000);
        assert!(health.weight(1, at + 200_000, &limits) >= 1.0);
        fail(at + 200_000);
        assert!(health.is_due(at + 205_000));
    }

    #[test]
    fn answers_to_older_requests_end_no_outage() {
        let (health, limits) = (Health::new("a"), limits());
        (0..3).for_each(|_| health.failed(1_000, &limits, "refused"));
        health.succeeded(1_100);
        assert!(!health.is_in_use());
        health.try_anyway();
        health.succeeded(1_200);
        assert!(health.is_in_use());
    }

    #[test]
    fn the_weight_grows_after_an_outage() {
        let (health, limits) = (Health::new("a"), limits());
        let weight = |now| health.weight(4, now, &limits);
        assert!((weight(1) - 4.0).abs() < 1e-9);
        (0..3).for_each(|_| health.failed(1_000, &limits, "refused"));
        assert!(health.try_again(6_000, &limits));
        health.succeeded(6_000);
        for (now, expected) in [(6_000, 0.4), (11_000, 2.0), (16_000, 4.0), (17_000, 4.0)] {
            assert!((weight(now) - expected).abs() < 1e-9, "{now}");
        }
    }

    #[test]
    fn checks_need_two_results_that_agree() {
        let (health, limits) = (Health::new("a"), limits());
        assert!(health.claim_check(10_000, &limits) && !health.claim_check(10_001, &limits));
        let fail = |at| health.checked(at, Err("status 500".to_owned()));
        fail(1_000);
        health.checked(2_000, Ok(()));
        fail(3_000);
        assert!(health.is_in_use());
        fail(4_000);
        assert!(!health.is_in_use() && !health.is_due(100_000));
        health.checked(5_000, Ok(()));
        assert!(!health.is_in_use());
        health.checked(6_000, Ok(()));
        assert!(health.is_in_use() && health.weight(1, 6_000, &limits) < 1.0);
    }
}
