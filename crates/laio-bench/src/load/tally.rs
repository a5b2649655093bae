//! The counters of a load.

use super::client::{Failure, Fetched};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The maximum of the histograms in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// The significant digits of the histograms.
const DIGITS: u8 = 3;

pub(super) struct Tally {
    pub(super) began: Instant,
    /// The resource usage of this process before the load.
    pub(super) used: Duration,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) in_flight: usize,
    pub(super) most_in_flight: usize,
    pub(super) reopened: u64,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) connect: Histogram<u64>,
    /// Handshakes of TLS, full and resumed.
    pub(super) handshake: Histogram<u64>,
    pub(super) resumed: u64,
    pub(super) first_byte: Histogram<u64>,
    /// Times from the actual start of a request.
    pub(super) service: Histogram<u64>,
    /// Times from the scheduled start, in open loops.
    pub(super) response: Histogram<u64>,
    /// The latencies of first requests for a target, and of repeated ones.
    pub(super) first: Histogram<u64>,
    pub(super) again: Histogram<u64>,
    /// The delays of this program itself: how much later than scheduled it acted.
    pub(super) lag: Histogram<u64>,
    pub(super) seconds: Vec<Interval>,
}

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the warm-up: its times are not recorded.
    WarmUp,
    /// The first request for its target.
    First,
    Again,
}

/// The counters of one second.
pub(super) struct Interval {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    pub(super) in_flight: usize,
    pub(super) latency: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are valid")
}

/// A histogram for each second: coarser, and growing on demand.
fn small_histogram() -> Histogram<u64> {
    Histogram::new(2).expect("two digits are valid")
}

pub(super) fn record(histogram: &mut Histogram<u64>, time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(LONGEST);
    // The value is within the bounds. A small histogram has none: it grows, which saturating would prevent.
    let _ = histogram.record(nanoseconds.clamp(1, LONGEST));
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            began: Instant::now(),
            used: laio::measure::Usage::of_process().processor,
            requests: 0,
            bytes: 0,
            in_flight: 0,
            most_in_flight: 0,
            reopened: 0,
            errors: BTreeMap::new(),
            connect: histogram(),
            handshake: histogram(),
            resumed: 0,
            first_byte: histogram(),
            service: histogram(),
            response: histogram(),
            first: histogram(),
            again: histogram(),
            lag: histogram(),
            seconds: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self) {
        self.in_flight += 1;
        self.most_in_flight = self.most_in_flight.max(self.in_flight);
    }

    /// Records a finished request. `intended` is its scheduled start, in open loops.
    pub(super) fn end(
        &mut self,
        result: Result<Fetched, Failure>,
        intended: Option<Instant>,
        kind: Kind,
    ) {
        self.in_flight -= 1;
        match result {
            Ok(fetched) => self.count(fetched, intended, kind),
            Err(failure) => self.fail(failure),
        }
    }

    fn count(&mut self, fetched: Fetched, intended: Option<Instant>, kind: Kind) {
        self.requests += 1;
        self.bytes += fetched.bytes;
        let response = intended.map(|intended| intended.elapsed());
        let latency = response.unwrap_or(fetched.total);
        let interval = self.interval();
        interval.requests += 1;
        interval.bytes += fetched.bytes;
        record(&mut interval.latency, latency);
        match kind {
            Kind::WarmUp => return,
            Kind::First => record(&mut self.first, latency),
            Kind::Again => record(&mut self.again, latency),
        }
        if let Some(made) = fetched.made {
            record(&mut self.connect, made.connect);
            if let Some((time, resumed)) = made.handshake {
                record(&mut self.handshake, time);
                self.resumed += u64::from(resumed);
            }
        }
        record(&mut self.first_byte, fetched.first_byte);
        record(&mut self.service, fetched.total);
        if let Some(response) = response {
            record(&mut self.response, response);
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        match self.errors.get_mut(failure.as_ref()) {
            Some(count) => *count += 1,
            None => drop(self.errors.insert(failure.into_owned(), 1)),
        }
        self.interval().errors += 1;
    }

    fn interval(&mut self) -> &mut Interval {
        let second = self.began.elapsed().as_secs() as usize;
        while self.seconds.len() <= second {
            self.seconds.push(Interval {
                requests: 0,
                bytes: 0,
                errors: 0,
                in_flight: 0,
                latency: small_histogram(),
            });
        }
        let in_flight = self.in_flight;
        let interval = &mut self.seconds[second];
        interval.in_flight = interval.in_flight.max(in_flight);
        interval
    }

    pub(super) fn errors(&self) -> u64 {
        self.errors.values().sum()
    }
}
