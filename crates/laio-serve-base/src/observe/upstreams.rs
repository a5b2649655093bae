//! Counts of each upstream.

use super::gauges::UpstreamGauge;
use super::{LOCAL, OBSERVATION, Observation, Seen};
use std::sync::Arc;

/// The counts of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamCounts {
    /// Requests given to it, including repeated ones.
    pub requests: u64,
    /// Requests that it has failed to answer.
    pub failures: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Whether a running worker leaves it out.
    pub left_out: bool,
}

/// The counts of the cache of responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyCacheCounts {
    /// Requests answered with a fresh stored response.
    pub hits: u64,
    /// Requests answered with a stale one, while it is fetched again or because the upstream failed.
    pub stale: u64,
    /// Requests answered with a stored response that the upstream has confirmed.
    pub revalidated: u64,
    /// Requests answered by an upstream, although a stored response would have been allowed.
    pub misses: u64,
}

/// What the cache of responses did for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// A fresh response was stored.
    Hit,
    /// A stale response was stored, and was sent.
    Stale,
    /// The upstream has confirmed the stored response.
    Revalidated,
    /// An upstream has answered.
    Miss,
}

/// Counts what the cache of responses did.
pub fn cached(result: CacheResult) {
    if OBSERVATION.get() == Observation::Off {
        return;
    }
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local else { return };
        let counts = &mut local.seen.proxy_cache;
        *match result {
            CacheResult::Hit => &mut counts.hits,
            CacheResult::Stale => &mut counts.stale,
            CacheResult::Revalidated => &mut counts.revalidated,
            CacheResult::Miss => &mut counts.misses,
        } += 1;
    });
}

/// Makes the calling worker publish which of its upstreams are in use.
pub fn watch(gauges: impl Iterator<Item = Arc<dyn UpstreamGauge>>) {
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local else { return };
        for gauge in gauges {
            let name = gauge.name().to_owned();
            local.seen.upstreams.entry(name).or_default();
            local.upstreams.push(gauge);
        }
        // Readers see all upstreams from the start.
        local.publish();
    });
}

/// Counts a request to an upstream.
pub fn asked(name: &str) {
    count(name, |counts| {
        counts.requests += 1;
        counts.in_flight += 1;
    });
}

/// Counts a request that an upstream has failed to answer.
pub fn failed(name: &str) {
    count(name, |counts| counts.failures += 1);
}

/// Counts the end of a request to an upstream.
pub fn ended(name: &str) {
    count(name, |counts| {
        counts.in_flight = counts.in_flight.saturating_sub(1)
    });
}

fn count(name: &str, change: impl FnOnce(&mut UpstreamCounts)) {
    if OBSERVATION.get() == Observation::Off {
        return;
    }
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local else { return };
        let upstreams = &mut local.seen.upstreams;
        match upstreams.get_mut(name) {
            Some(counts) => change(counts),
            None => change(upstreams.entry(name.to_owned()).or_default()),
        }
    });
}

impl Seen {
    /// Notes which upstreams are in use.
    pub(super) fn take_gauges(&mut self, gauges: &[Arc<dyn UpstreamGauge>]) {
        for counts in self.upstreams.values_mut() {
            counts.left_out = false;
        }
        for gauge in gauges {
            if let Some(counts) = self.upstreams.get_mut(gauge.name()) {
                counts.left_out |= !gauge.is_in_use();
            }
        }
    }

    /// Forgets what holds only while the worker runs.
    pub(super) fn end_upstreams(&mut self) {
        for counts in self.upstreams.values_mut() {
            (counts.in_flight, counts.left_out) = (0, false);
        }
    }

    pub(super) fn add_upstreams(&mut self, other: &Seen) {
        let (sum, counts) = (&mut self.proxy_cache, &other.proxy_cache);
        sum.hits += counts.hits;
        sum.stale += counts.stale;
        sum.revalidated += counts.revalidated;
        sum.misses += counts.misses;
        for (name, counts) in &other.upstreams {
            let sum = self.upstreams.entry(name.clone()).or_default();
            sum.requests += counts.requests;
            sum.failures += counts.failures;
            sum.in_flight += counts.in_flight;
            sum.left_out |= counts.left_out;
        }
    }
}
