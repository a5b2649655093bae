//! Figures and reasons of claims that follow from several cases.

use super::claim::{Claim, Values, case, named, peak};
use super::figure::{Quantity, groups};
use super::servers::lighttpd::{PARALLEL, SENDFILE, SMALL};
use crate::record::{Cache, Case, Record};
use crate::sheet::{cell, number};
use crate::strategy::PLAIN;

pub(super) const RATE: Quantity = Quantity::value("rate", "iterations each second");
pub(super) const SWITCHES: Quantity =
    Quantity::value("switches", "context switches for each iteration");
pub(super) const MEGABYTES: Quantity = Quantity::value("mb_s", "throughput, MB/s");
pub(super) const CPU: Quantity = Quantity::value(
    "cpu_us",
    "processor time of the server for each request, us",
);
pub(super) const SERVER_SWITCHES: Quantity = Quantity::value(
    "switches",
    "context switches of the server for each request",
);
pub(super) const IDLE: Quantity = Quantity::value("idle_percent", "idle, %");
/// The title of cases of a server workload.
pub(super) const GROUP: &str = "{workload}, {cache} cache";

/// The strategy of `rmw` with which others are compared.
const LIBRARY: &str = "threads";

/// Returns the ratio of times of `open-stat-read` in two cases, both cold.
pub(super) fn cold(record: &Record, over: (&str, usize), under: (&str, usize)) -> Option<f64> {
    let case = |in_flight| case("open-stat-read", Cache::Cold, in_flight);
    let (first, second) = (case(over.1), case(under.1));
    let ratio = record.ratio((&first, over.0), (&second, under.0), "each_us")?;
    Some(ratio.median)
}

pub(super) fn switches_of_reads(_: &Claim, record: &Record, _: &[f64]) -> String {
    let case = case("open-stat-read", Cache::Cold, 100);
    let switches = |subject| record.median(&case, subject, "switches").map(number);
    let both = switches("lazy").zip(switches(PLAIN));
    both.map_or(String::new(), |(lazy, plain)| {
        format!("; context switches for each request {lazy} and {plain}")
    })
}

/// Returns the context switches of the library over those of others, in the last workload of application A.
pub(super) fn fewer_switches(claim: &Claim, record: &Record) -> Values {
    let last = workloads(record)
        .into_iter()
        .rfind(|one| one.0.starts_with('A'));
    last.map_or(Values::new(), |(_, cases)| {
        let of = |name: &str| record.median(crowded(&cases), name, SWITCHES.name);
        named(claim.of, |name| Some(of(claim.with)? / of(name)?))
    })
}

/// Returns the peak and the context switches of a strategy in each workload, relative to those of the library.
pub(super) fn peaks_and_switches(claim: &Claim, record: &Record) -> Values {
    let of = |(workload, cases): (String, Vec<Case>)| {
        let [peak, switches] = parts(record, &cases, claim.of[0])?;
        let name = |what| format!("{workload}: {what}");
        Some([(name("peak"), peak), (name("switches"), switches)])
    };
    let values = workloads(record).into_iter().filter_map(of);
    values.flatten().collect()
}

/// Whether the aim is missed: 10 % more rate with a quarter of the switches.
pub(super) fn misses(peak: f64, switches: f64) -> bool {
    peak < 1.1 || switches > 0.25
}

/// If the disk limits all strategies, the difference is in processor time.
pub(super) fn why_not_everywhere(claim: &Claim, record: &Record, _: &[f64]) -> String {
    let missed = workloads(record).into_iter().find(|(_, cases)| {
        let parts = parts(record, cases, claim.of[0]);
        parts.is_some_and(|[peak, switches]| misses(peak, switches))
    });
    let why = missed.and_then(|(workload, cases)| {
        let case = crowded(&cases);
        let of = |name: &str, quantity| record.median(case, name, quantity);
        let subjects = record.subjects().into_iter();
        Some(format!(
            ". Why not everywhere: with {} clients ({workload}) it takes {} us of processor time for each iteration, \
             threads {}; the fastest of all does {} each second, it {}, plain threads {}: where rates are alike the disk \
             is the limit for both",
            case.at?,
            number(of(claim.of[0], "cpu_us")?),
            number(of(LIBRARY, "cpu_us")?),
            cell(subjects.filter_map(|name| of(name, RATE.name)).reduce(f64::max)),
            cell(of(claim.of[0], RATE.name)),
            cell(of(PLAIN, RATE.name)),
        ))
    });
    why.unwrap_or_default()
}

fn parts(record: &Record, cases: &[Case], strategy: &str) -> Option<[f64; 2]> {
    let rate = |name: &str| Some(peak(record, cases, name, RATE.name)?.1);
    let switches = |name: &str| record.median(crowded(cases), name, SWITCHES.name);
    Some([
        rate(strategy)? / rate(LIBRARY)?,
        switches(strategy)? / switches(LIBRARY)?,
    ])
}

/// Returns the case with as many clients as the published peak, or with the most.
fn crowded(cases: &[Case]) -> &Case {
    let thirty = cases.iter().find(|case| case.at == Some(30.0));
    thirty.unwrap_or(&cases[cases.len() - 1])
}

fn workloads(record: &Record) -> Vec<(String, Vec<Case>)> {
    groups(record, "{workload}")
}

/// Returns a value for each group of server cases that has one.
pub(super) fn by_group(record: &Record, value: impl Fn(&[Case]) -> Option<f64>) -> Values {
    let groups = groups(record, GROUP).into_iter();
    groups
        .filter_map(|(title, cases)| Some((title, value(&cases)?)))
        .collect()
}

/// Returns the peak of a server over that of another, in each group.
pub(super) fn over_peaks(claim: &Claim, record: &Record) -> Values {
    by_group(record, |cases| over_peak(claim, record, cases))
}

fn over_peak(claim: &Claim, record: &Record, cases: &[Case]) -> Option<f64> {
    let peak = |name| Some(peak(record, cases, name, MEGABYTES.name)?.1);
    Some(peak(claim.of[0])? / peak(claim.with)?)
}

/// Returns why one server is behind the other in the group with the largest difference, from the cost of a request in
/// both with the most clients.
pub(super) fn why_behind(claim: &Claim, record: &Record) -> String {
    let groups = groups(record, GROUP).into_iter();
    let ratios = groups.filter_map(|group| Some((over_peak(claim, record, &group.1)?, group)));
    let most = ratios.min_by(|one, other| one.0.total_cmp(&other.0));
    let why = most.and_then(|(_, (title, cases))| {
        let case = cases.last()?;
        let of = |name, quantity: Quantity| record.median(case, name, quantity.name);
        let (one, other) = (claim.of[0], claim.with);
        let (own, theirs, idle) = (of(one, CPU)?, of(other, CPU)?, of(one, IDLE)?);
        let why = if own > 1.1 * theirs {
            "its processor time for each request is what it is behind by"
        } else if idle > 20.0 {
            "it computes no more, the processors are idle: the disk is the limit, and turns differ by what it does meanwhile"
        } else {
            "it computes no more, and no processor is idle: the client and other programs of the machine decide"
        };
        Some(format!(
            "{title} with {} clients: {} and {} us of processor time, {} and {} context switches for each request, the \
             machine idle {} %; {why}",
            case.at?,
            number(own),
            number(theirs),
            cell(of(one, SERVER_SWITCHES)),
            cell(of(other, SERVER_SWITCHES)),
            number(idle),
        ))
    });
    why.unwrap_or_else(|| "the record does not show why".to_owned())
}

/// Returns why asynchronous bodies gain or do not: from the idle time.
pub(super) fn idle_or_not(claim: &Claim, record: &Record, gains: &[f64]) -> String {
    let case = case(SMALL, Cache::Cold, PARALLEL);
    let idle = |name| record.median(&case, name, IDLE.name);
    let words = idle(SENDFILE).zip(idle(claim.of[0]));
    let words = words.map_or(String::new(), |(sendfile, aio)| {
        let (sendfile, aio) = (number(sendfile), number(aio));
        format!("; the machine, with its client, is idle {sendfile} and {aio} % of the time")
    });
    let is_idle = idle(SENDFILE).is_some_and(|idle| idle > 20.0);
    let why = match (gains[0] >= 1.2, is_idle) {
        (true, _) => {
            "one thread that sleeps in sendfile has one request at the disk, asynchronous reads have many"
        }
        (false, true) => {
            "the disk gives as much to one request at a time, read ahead, as to many: it is the limit for both"
        }
        (false, false) => "the processors are busy with sendfile too, so the disk is not the limit",
    };
    format!("{words}: {why}")
}
