//! `laio bench open-stat` and `open-stat-read`: tables 3 and 4 of the thesis.
//!
//! The requests of a trace are executed in order: open the file, stat it, and in the second variant read all
//! of it. Either threads execute one request after the other with plain calls, or one thread with a back end
//! has as many requests in flight.

mod show;
mod work;

pub(super) use show::show;
pub(crate) use work::Work;

use super::{Progress, Settings};
use crate::caches;
use crate::error::{Error, While};
use crate::record::{Cache, Record};
use crate::round_robin::{Figures, RoundRobin};
use crate::stop::Stop;
use crate::strategy::{PLAIN, Strategy};
use crate::trace::Preset;
use laio_measure::Usage;
use std::time::Duration;

pub(super) const OPEN_STAT: &str = "open-stat";
pub(super) const OPEN_STAT_READ: &str = "open-stat-read";
/// The numbers of threads, or of requests in flight, as published.
pub(super) const IN_FLIGHT: [usize; 3] = [1, 10, 100];

pub(super) fn run_open_stat(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    run(OPEN_STAT, settings, stop, progress)
}

pub(super) fn run_open_stat_read(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    run(OPEN_STAT_READ, settings, stop, progress)
}

fn run(
    name: &str,
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    let rounds = settings.rounds(3, 5);
    let (mut record, directory) = settings.begin(name, rounds)?;
    let own = tempfile::Builder::new()
        .prefix("laio-bench-")
        .tempdir_in(&directory.path);
    let own = own.doing("cannot make a directory")?;
    let trace = Preset::Rice.trace(1, settings.scale(0.02));
    record.settings.insert("trace".to_owned(), describe(&trace));
    crate::trace::make(&trace, &own.path().join("set"), true, stop, progress)?;
    let work = Work::of(&trace, &own.path().join("set"), name == OPEN_STAT_READ);
    let strategies: Vec<_> = Strategy::ALL
        .into_iter()
        .filter(|strategy| *strategy == Strategy::Plain || settings.takes(strategy.name()))
        .collect();
    let in_flight = settings.at(&IN_FLIGHT);
    let all: Vec<(usize, Strategy)> = in_flight
        .iter()
        .flat_map(|count| strategies.iter().map(|strategy| (*count, *strategy)))
        .collect();
    let subjects: Vec<_> = all
        .iter()
        .map(|(count, strategy)| (Some(*count as f64), strategy.name()))
        .collect();
    for cache in caches::possible(&settings.caches(), directory.place, &mut record) {
        if cache == Cache::Warm {
            work.plainly(1).doing("cannot read the files")?;
        }
        let round_robin = RoundRobin {
            workload: name,
            cache,
            subjects: &subjects,
            rounds,
            stop,
        };
        let cells = round_robin.run(&mut |index, round| {
            let (count, strategy) = all[index];
            let state = cache.name();
            progress(&format!(
                "{state}, {} with {count}, round {} of {rounds}",
                strategy.name(),
                round + 1
            ));
            caches::settle(own.path(), cache).map_err(|error| error.to_string())?;
            turn(&work, strategy, cache, count)
        })?;
        record.cells.extend(cells);
    }
    Ok(record)
}

fn describe(trace: &crate::trace::Trace) -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "{} like Rice's: {} requests for {} files, {} MiB of files, {} MiB in all answers",
        trace.about.last().map_or("", String::as_str),
        trace.requests.len(),
        trace.files.len(),
        mib(trace.set_bytes()),
        mib(trace.transferred()),
    )
}

/// The minimum of requests in a turn with a warm cache: with a few, the turn would end before all threads are
/// awake.
const REQUESTS_MIN: usize = 50_000;

/// Executes all requests with one strategy: once with a cold cache, otherwise repeatedly.
fn turn(
    work: &Work,
    strategy: Strategy,
    cache: Cache,
    in_flight: usize,
) -> Result<Figures, String> {
    let passes = match cache {
        Cache::Cold => 1,
        Cache::Warm => REQUESTS_MIN.div_ceil(work.requests()),
    };
    let requests = (passes * work.requests()) as f64;
    let usage = Usage::of_process();
    let mut wall = Duration::ZERO;
    for _ in 0..passes {
        let done = match strategy.options(in_flight) {
            None => work.plainly(in_flight),
            Some(options) => work.through(options, in_flight),
        };
        let done = done.map_err(|error| error.to_string())?;
        if done.bytes != work.bytes() {
            let (found, wanted) = (done.bytes, work.bytes());
            return Err(format!("{found} bytes were stated or read, not {wanted}"));
        }
        wall += done.wall;
    }
    let used = Usage::of_process().since(&usage);
    Ok(vec![
        ("each_us", wall.as_secs_f64() * 1e6 / requests),
        ("cpu_us", used.processor.as_secs_f64() * 1e6 / requests),
        ("switches", used.switches() as f64 / requests),
    ])
}

/// A case of one of the two comparisons.
fn case(name: &str, cache: Cache, in_flight: usize) -> crate::record::Case {
    crate::record::Case::new(name, cache).at(in_flight)
}

/// Returns the time relative to the same number of plain threads.
fn beside_plain(record: &Record, cache: Cache, in_flight: usize, strategy: &str) -> Option<f64> {
    let case = case(&record.benchmark, cache, in_flight);
    Some(
        record
            .ratio((&case, strategy), (&case, PLAIN), "each_us")?
            .median,
    )
}
