//! Patience: how long a thread looks for what it waits for before it sleeps.
//!
//! To wake a processor takes longer than most calls of a helper. So a helper that has just finished
//! a call looks for the next one, and a context that is about to sleep looks for the result of a
//! helper, both for at most [`Limits::spin_us`]. They do so only while
//! recent waits were short, and spins that find nothing take at most a twentieth of the time.

use crate::Limits;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The patience of a context, or of its helpers together.
#[derive(Debug)]
pub(crate) struct Patience {
    /// How long one spin may last.
    limit: Duration,
    /// How long further spins may last that find nothing.
    credit: Duration,
    /// When credit was last added.
    since: Instant,
    /// Whether the last wait was short.
    expects_soon: bool,
}

/// How the helpers of a pool look for their next job, and how long the last call took, by which the thread
/// that waits for a result decides whether to look for it.
#[derive(Debug)]
pub(crate) struct PoolPatience {
    /// See [`Limits::spin_us`].
    wanted: u32,
    /// 0 on a single processor. Whether there are others is asked before the first helper needs it.
    spin_us: OnceLock<u32>,
    /// That of the helper that spins.
    patience: Mutex<Patience>,
    last_call_ns: AtomicU64,
}

impl PoolPatience {
    pub(crate) fn new(spin_us: u32) -> PoolPatience {
        PoolPatience {
            wanted: spin_us,
            spin_us: OnceLock::new(),
            patience: Mutex::new(Patience::new(spin_us)),
            last_call_ns: AtomicU64::new(u64::MAX),
        }
    }

    /// How long a thread may spin.
    pub(crate) fn spin_us(&self) -> u32 {
        *self.spin_us.get_or_init(|| {
            if self.wanted > 0 && has_processors() {
                self.wanted
            } else {
                0
            }
        })
    }

    /// A helper looks for a job, if the last one was queued soon after helpers had nothing to do.
    pub(crate) fn spin(&self, gap: Duration, found: impl FnMut() -> bool) {
        if self.spin_us() > 0 {
            let patience = self.patience.lock();
            let mut patience = patience.unwrap_or_else(|poisoned| poisoned.into_inner());
            patience.note_wait(gap);
            patience.spin(Duration::MAX, found);
        }
    }

    /// Records how long a call took.
    pub(crate) fn note_call(&self, took: Duration) {
        self.last_call_ns.store(took.as_nanos() as u64, Relaxed);
    }

    /// How long the last call took.
    pub(crate) fn last_call(&self) -> Duration {
        Duration::from_nanos(self.last_call_ns.load(Relaxed))
    }
}

/// Time that gives one unit of credit: spins that find nothing take a twentieth of a processor.
const TIME_PER_CREDIT: u32 = 20;
/// The most credit, in spins.
const SPINS_IN_CREDIT: u32 = 10;
/// How often a spin looks before it reads the clock.
const LOOKS_PER_CLOCK: u32 = 16;

impl Patience {
    /// `spin_us`: the limit; 0 for one that never spins.
    pub(crate) fn new(spin_us: u32) -> Patience {
        let limit = Duration::from_micros(spin_us.min(Limits::SPIN_US_MAX).into());
        Patience {
            limit,
            credit: limit * SPINS_IN_CREDIT,
            since: Instant::now(),
            expects_soon: false,
        }
    }

    /// Whether the last wait was short.
    pub(crate) fn expects_soon(&self) -> bool {
        self.expects_soon
    }

    /// Looks for something, at most `most` long, if it is expected soon. Returns whether `found` returned
    /// true.
    pub(crate) fn spin(&mut self, most: Duration, mut found: impl FnMut() -> bool) -> bool {
        if !self.expects_soon {
            return false;
        }
        let begin = Instant::now();
        let most = self.allowed(begin).min(most);
        while begin.elapsed() < most {
            for _ in 0..LOOKS_PER_CLOCK {
                if found() {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        self.charge(begin.elapsed());
        found()
    }

    /// Records how long the last wait would have lasted without wakeups.
    pub(crate) fn note_wait(&mut self, length: Duration) {
        self.expects_soon = length <= self.limit && !self.limit.is_zero();
    }

    /// How long a spin may last that begins now.
    fn allowed(&mut self, now: Instant) -> Duration {
        let earned = now.saturating_duration_since(self.since) / TIME_PER_CREDIT;
        self.since = now;
        self.credit = (self.credit + earned).min(self.limit * SPINS_IN_CREDIT);
        // A shorter spin would rarely find something.
        if self.credit >= self.limit {
            self.limit
        } else {
            Duration::ZERO
        }
    }

    /// Accounts for a spin that found nothing.
    fn charge(&mut self, spent: Duration) {
        self.credit = self.credit.saturating_sub(spent);
    }
}

/// Whether the calling thread may run on more than one processor, by its affinity and the quotas of its
/// control groups. On a single one, what a spin looks for cannot happen meanwhile.
fn has_processors() -> bool {
    std::thread::available_parallelism().is_ok_and(|count| count.get() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(50);

    #[test]
    fn spins_follow_short_waits_only() {
        let mut patience = Patience::new(50);
        let finds = |patience: &mut Patience| patience.spin(Duration::MAX, || true);
        assert!(!finds(&mut patience), "before the first wait");
        for (wait, spins) in [(SPIN, true), (SPIN * 2, false), (Duration::ZERO, true)] {
            patience.note_wait(wait);
            assert_eq!(finds(&mut patience), spins, "{wait:?}");
        }
        let mut never = Patience::new(0);
        never.note_wait(Duration::ZERO);
        assert!(!finds(&mut never));
    }

    #[test]
    fn fruitless_spins_take_a_twentieth_of_the_time() {
        let mut patience = Patience::new(50);
        let mut now = patience.since;
        for _ in 0..SPINS_IN_CREDIT {
            assert_eq!(patience.allowed(now), SPIN);
            patience.charge(SPIN);
        }
        assert_eq!(patience.allowed(now), Duration::ZERO);
        now += SPIN * TIME_PER_CREDIT / 2;
        assert_eq!(patience.allowed(now), Duration::ZERO);
        now += SPIN * TIME_PER_CREDIT / 2;
        assert_eq!(patience.allowed(now), SPIN);
        now += Duration::from_secs(1);
        patience.allowed(now);
        assert_eq!(patience.credit, SPIN * SPINS_IN_CREDIT);
    }

    #[test]
    fn a_spin_without_credit_or_time_looks_once() {
        let mut patience = Patience::new(50);
        patience.note_wait(SPIN);
        let looks = std::cell::Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            false
        };
        assert!(!patience.spin(Duration::ZERO, look));
        assert_eq!(looks.get(), 1);
    }
}
