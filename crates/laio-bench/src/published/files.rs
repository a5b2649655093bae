//! `laio bench open-stat` and `open-stat-read`: tables 3 and 4 of the thesis.
//!
//! The requests of a trace are executed in order: open the file, stat it, and in the second variant read all
//! of it. Either threads execute one request after the other with plain calls, or one thread with a back end, or
//! two, have as many requests in flight.

mod work;

pub(crate) use work::Work;

use super::run::Run;
use crate::caches;
use crate::error::{Error, While};
use crate::record::Cache;
use crate::round_robin::Outcome;
use crate::strategy::Strategy;
use crate::trace::Preset;
use laio::measure::Usage;
use std::time::Duration;

/// The numbers of threads, or of requests in flight, as published.
const IN_FLIGHT: [usize; 3] = [1, 10, 100];

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let (settings, name) = (run.settings, run.record.benchmark.clone());
    let trace = Preset::Rice.trace(1, settings.scale(0.02));
    let set = run.make("trace", &trace)?;
    let work = Work::from_trace(&trace, &set, name == "open-stat-read").together();
    let strategies: Vec<_> = Strategy::ALL
        .into_iter()
        .filter(|strategy| *strategy == Strategy::Plain || settings.takes(strategy.name()))
        .collect();
    let each = |count: usize| strategies.iter().map(move |strategy| (count, *strategy));
    let all: Vec<_> = settings.at(&IN_FLIGHT).into_iter().flat_map(each).collect();
    let subjects: Vec<_> = all
        .iter()
        .map(|(count, strategy)| (Some(*count), strategy.name()))
        .collect();
    for cache in run.caches() {
        if cache == Cache::Warm {
            work.plainly(1).doing("cannot read the files")?;
        }
        run.measure(&name, cache, &subjects, &mut |index| {
            let (count, strategy) = all[index];
            caches::settle(&set, cache).map_err(|error| error.to_string())?;
            turn(&work, strategy, cache, count)
        })?;
    }
    Ok(())
}

/// The minimum of requests in a turn with a warm cache: with a few, the turn would end before all threads are
/// awake.
const REQUESTS_MIN: usize = 50_000;

/// Executes all requests with one strategy: once with a cold cache, otherwise repeatedly.
fn turn(work: &Work, strategy: Strategy, cache: Cache, in_flight: usize) -> Outcome {
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
            Some(options) => work.through_threads(strategy.threads(), &options, in_flight),
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
