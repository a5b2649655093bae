//! The stages of a request, and their durations.

use hdrhistogram::Histogram;
use std::time::Duration;

/// A span of time in a request that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From accepting a connection until its task starts.
    Accept,
    /// From the first byte of a request to the end of its head.
    Receive,
    /// From the target to a file name; for a cached file, to the file.
    Resolve,
    /// Opening the file.
    Open,
    /// Reading the file's metadata, if opening the file has not read it too.
    Stat,
    /// Reading a chunk of the file.
    Read,
    /// Sending a chunk of the response.
    Send,
    /// From the request to the head of an upstream's response.
    Upstream,
    /// Formatting the access log line.
    Log,
    /// From the first byte of the request to the last of the response.
    Total,
}

impl Stage {
    /// All stages, in the order of a request.
    pub const ALL: [Stage; 10] = [
        Stage::Accept,
        Stage::Receive,
        Stage::Resolve,
        Stage::Open,
        Stage::Stat,
        Stage::Read,
        Stage::Send,
        Stage::Upstream,
        Stage::Log,
        Stage::Total,
    ];

    /// Returns the name of the stage.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Accept => "accept",
            Stage::Receive => "receive",
            Stage::Resolve => "resolve",
            Stage::Open => "open",
            Stage::Stat => "stat",
            Stage::Read => "read",
            Stage::Send => "send",
            Stage::Upstream => "upstream",
            Stage::Log => "log",
            Stage::Total => "total",
        }
    }
}

/// The longest recorded time in nanoseconds; longer ones count as this.
const LONGEST: u64 = 3_600_000_000_000;

/// Histograms of the durations of each stage.
#[derive(Clone, Debug, Default)]
pub struct Stages([Option<Box<Histogram<u64>>>; Stage::ALL.len()]);

impl Stages {
    pub(super) fn record(&mut self, stage: Stage, time: Duration) {
        let histogram = self.0[stage as usize].get_or_insert_with(empty);
        let time = u64::try_from(time.as_nanos()).unwrap_or(LONGEST);
        histogram.saturating_record(time.clamp(1, LONGEST));
    }

    pub(super) fn add(&mut self, other: &Stages) {
        for (sum, other) in self.0.iter_mut().zip(&other.0) {
            if let Some(other) = other {
                // Cannot fail, because both have the same bounds.
                let _ = sum.get_or_insert_with(empty).add(&**other);
            }
        }
    }

    /// Returns the stages that occurred, with their durations in nanoseconds.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, &Histogram<u64>)> {
        Stage::ALL.into_iter().filter_map(|stage| {
            let histogram = self.0[stage as usize].as_deref()?;
            Some((stage, histogram))
        })
    }
}

/// Returns a histogram with a precision of two digits.
fn empty() -> Box<Histogram<u64>> {
    let histogram = Histogram::new_with_bounds(1, LONGEST, 2);
    Box::new(histogram.expect("the bounds make sense"))
}
