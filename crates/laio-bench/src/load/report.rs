//! The results, as a table, JSON and CSV.

use super::tally::Tally;
use super::{Pace, Settings};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The results of loading a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// How requests were scheduled.
    pub pace: String,
    /// Whether each request used a new connection.
    pub close: bool,
    /// Whether every byte was checked.
    pub verified: bool,
    /// Seconds from the first request to the last response.
    pub seconds: f64,
    /// The number of successful responses.
    pub requests: u64,
    /// The size of their contents in bytes.
    pub bytes: u64,
    /// Successful responses per second.
    pub rate: f64,
    /// The number of failed requests, by reason.
    pub errors: BTreeMap<String, u64>,
    /// The maximum number of requests in flight.
    pub most_in_flight: usize,
    /// The number of connections that the server closed between two requests.
    pub reopened: u64,
    /// The times of connecting.
    pub connect: Option<Percentiles>,
    /// The times of TLS handshakes.
    pub handshake: Option<Percentiles>,
    /// The number of resumed handshakes.
    pub resumed: u64,
    /// The times from a request to the first byte of its response.
    pub first_byte: Option<Percentiles>,
    /// The times from the actual start of a request to the end of its response: not corrected for coordinated
    /// omission.
    pub service: Option<Percentiles>,
    /// The times from the scheduled start, in open loops: corrected for coordinated omission.
    pub response: Option<Percentiles>,
    /// The latency (from the scheduled start in open loops) of the first request for each target.
    pub first: Option<Percentiles>,
    /// The latency of all other requests.
    pub again: Option<Percentiles>,
    /// How late this program itself was.
    pub lag: Option<Percentiles>,
    /// The fraction of one processor that this program used.
    pub processor: f64,
    /// The results of each second.
    pub series: Vec<Second>,
}

/// Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The number of values.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

/// The results of one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// The number of the second, from 0.
    pub second: usize,
    /// Successful responses.
    pub requests: u64,
    /// The size of their contents in bytes.
    pub bytes: u64,
    /// Failed requests.
    pub errors: u64,
    /// The maximum number of requests in flight.
    pub in_flight: usize,
    /// The median latency in milliseconds.
    pub p50: f64,
    /// The 99th percentile of the latency in milliseconds.
    pub p99: f64,
}

const MILLI: f64 = 1e-6;

impl Percentiles {
    fn from_histogram(histogram: &Histogram<u64>) -> Option<Percentiles> {
        let at = |part| histogram.value_at_quantile(part) as f64 * MILLI;
        (!histogram.is_empty()).then(|| Percentiles {
            count: histogram.len(),
            mean: histogram.mean() * MILLI,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 * MILLI,
        })
    }
}

impl LoadResult {
    pub(super) fn from_tally(settings: &Settings, tally: &Tally) -> LoadResult {
        let seconds = tally.began.elapsed().as_secs_f64();
        let used = laio::measure::Usage::of_process().processor - tally.used;
        let series = tally
            .seconds
            .iter()
            .enumerate()
            .map(|(second, interval)| Second {
                second,
                requests: interval.requests,
                bytes: interval.bytes,
                errors: interval.errors,
                in_flight: interval.in_flight,
                p50: interval.latency.value_at_quantile(0.5) as f64 * MILLI,
                p99: interval.latency.value_at_quantile(0.99) as f64 * MILLI,
            });
        LoadResult {
            pace: match settings.pace {
                Pace::Clients(1) => "1 client, in order".to_owned(),
                Pace::Clients(clients) => format!("{clients} clients, in order"),
                Pace::Random(clients) => format!("{clients} in parallel, at random"),
                Pace::Rate(rate) => format!("{rate} requests each second"),
                Pace::Times(speed) => format!("at the trace's times, {speed} times as fast"),
            },
            close: settings.close,
            verified: settings.verify,
            seconds,
            requests: tally.requests,
            bytes: tally.bytes,
            rate: tally.requests as f64 / seconds,
            errors: tally.errors.clone(),
            most_in_flight: tally.most_in_flight,
            reopened: tally.reopened,
            connect: Percentiles::from_histogram(&tally.connect),
            handshake: Percentiles::from_histogram(&tally.handshake),
            resumed: tally.resumed,
            first_byte: Percentiles::from_histogram(&tally.first_byte),
            service: Percentiles::from_histogram(&tally.service),
            response: Percentiles::from_histogram(&tally.response),
            first: Percentiles::from_histogram(&tally.first),
            again: Percentiles::from_histogram(&tally.again),
            lag: Percentiles::from_histogram(&tally.lag),
            processor: used.as_secs_f64() / seconds,
            series: series.collect(),
        }
    }

    /// Returns the number of failed requests.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns the results as JSON.
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("numbers and names have a form in JSON") + "\n"
    }

    /// Returns the results of each second as CSV.
    pub fn csv(&self) -> String {
        let mut text = "second,requests,bytes,errors,in_flight,p50_ms,p99_ms\n".to_owned();
        for one in &self.series {
            let Second {
                second,
                requests,
                bytes,
                errors,
                in_flight,
                p50,
                p99,
            } = one;
            text.push_str(&format!(
                "{second},{requests},{bytes},{errors},{in_flight},{p50:.3},{p99:.3}\n"
            ));
        }
        text
    }

    /// Returns the results as a table.
    pub fn table(&self) -> String {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        let connections = if self.close {
            ", a connection each"
        } else {
            ""
        };
        let checked = if self.verified {
            "checked"
        } else {
            "not checked"
        };
        let mut text = format!(
            "{}{connections}\n{} requests in {:.2} s, {mib:.1} MiB, bytes {checked}\n{:.1} requests/s, {:.2} MiB/s, at most {} in flight\n",
            self.pace,
            self.requests,
            self.seconds,
            self.rate,
            mib / self.seconds,
            self.most_in_flight,
        );
        text.push_str(
            "\nms                   mean       p50       p90       p99     p99.9       max\n",
        );
        let both = self.first.is_some() && self.again.is_some();
        for (name, times) in [
            ("connect", &self.connect),
            ("TLS handshake", &self.handshake),
            ("first byte", &self.first_byte),
            ("total", &self.service),
            ("from due time", &self.response),
            ("first asked", &self.first),
            ("asked again", &self.again),
            ("own lag", &self.lag),
        ] {
            let alike = !both && name.contains("asked");
            if let (Some(times), false) = (times, alike) {
                let Percentiles {
                    mean,
                    p50,
                    p90,
                    p99,
                    p999,
                    max,
                    ..
                } = times;
                text.push_str(&format!(
                    "{name:<15}{mean:>10.3}{p50:>10.3}{p90:>10.3}{p99:>10.3}{p999:>10.3}{max:>10.3}\n"
                ));
            }
        }
        text.push_str(&format!(
            "own processor time: {:.0} % of one\n",
            self.processor * 100.0
        ));
        if let Some(handshake) = &self.handshake {
            let (all, resumed) = (handshake.count, self.resumed);
            let whole = all - resumed;
            text.push_str(&format!(
                "TLS handshakes: {whole} whole, {resumed} resumed\n"
            ));
        }
        for (what, count) in &self.errors {
            text.push_str(&format!("errors: {count}, {what}\n"));
        }
        if self.reopened > 0 {
            text.push_str(&format!(
                "connections that the server had closed: {}\n",
                self.reopened
            ));
        }
        if self.is_late() {
            text.push_str("warning: this program was itself late or short of processor time: times are too long\n");
        }
        text
    }

    /// Whether the client was the bottleneck: its median delay is milliseconds, or it used nearly a whole
    /// processor.
    fn is_late(&self) -> bool {
        let late = self.lag.as_ref().is_some_and(|lag| lag.p50 > 5.0);
        late || self.processor > 0.95
    }
}
