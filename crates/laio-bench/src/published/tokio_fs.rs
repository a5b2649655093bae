//! `laio bench tokio`: files in a tokio program, with `laio-tokio`, with `tokio::fs` and with plain calls in the task.
//!
//! Each turn has a thread and a runtime of its own, on one processor: so a hand-over to another thread is a switch,
//! and never waits until an idle processor wakes.

mod files;
mod work;

pub(super) use work::{COLD, STD};

use super::run::Run;
use crate::caches;
use crate::error::Error;
use crate::pin;
use crate::record::Cache;
use crate::round_robin::Outcome;
use files::Files;
use std::io;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use work::{Kind, Spent, Way, Work};

/// A way to make the calls, in a runtime.
struct Entrant {
    name: &'static str,
    way: Way,
    is_multi: bool,
}

const fn entrant(name: &'static str, way: Way, is_multi: bool) -> Entrant {
    Entrant {
        name,
        way,
        is_multi,
    }
}

const ENTRANTS: [Entrant; 5] = [
    entrant(STD, Way::Std, false),
    entrant("laio-tokio current-thread", Way::Laio, false),
    entrant("laio-tokio multi-thread", Way::Laio, true),
    entrant("tokio current-thread", Way::Tokio, false),
    entrant("tokio multi-thread", Way::Tokio, true),
];

/// The number of ranges in flight.
const IN_FLIGHT: usize = 64;

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let settings = run.settings;
    let scale = settings.scale(0.25);
    let files = Arc::new(Files::make(run.directory(), scale)?);
    let takes = |one: &&Entrant| one.way == Way::Std || settings.takes(one.name);
    let entrants: Vec<_> = ENTRANTS.iter().filter(takes).collect();
    let caches = run.caches();
    for work in Work::ALL
        .iter()
        .filter(|work| caches.contains(&work.cache()))
    {
        let count = work.count(scale);
        let all: Vec<_> = match work.kind {
            Kind::Ranges => settings
                .at(&[IN_FLIGHT])
                .into_iter()
                .flat_map(|at| entrants.iter().map(move |one| (Some(at), *one)))
                .collect(),
            _ => entrants.iter().map(|one| (None, *one)).collect(),
        };
        run.set(work.name, format!("{count} in each turn"));
        let subjects: Vec<_> = all.iter().map(|(at, one)| (*at, one.name)).collect();
        let directory = run.directory().to_owned();
        run.measure(work.name, work.cache(), &subjects, &mut |index| {
            let (at, entrant) = all[index];
            if work.cache() == Cache::Cold {
                caches::settle(&directory, Cache::Cold).map_err(|error| error.to_string())?;
            }
            turn(work, entrant, &files, count, at.unwrap_or(1))
        })?;
    }
    Ok(())
}

fn turn(
    work: &'static Work,
    entrant: &Entrant,
    files: &Arc<Files>,
    count: usize,
    in_flight: usize,
) -> Outcome {
    let (way, files) = (entrant.way, files.clone());
    let calls = async move { work.run(way, &files, count, in_flight).await };
    let spent = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin::to_first(1)?;
            let runtime = runtime(entrant.is_multi)?;
            // A task of the multi-thread runtime runs on a worker, as those of a server do.
            let task = runtime.spawn(calls);
            runtime.block_on(task).map_err(io::Error::other)?
        });
        thread.join()
    });
    let spent: io::Result<Spent> = spent.map_err(|_| "it panicked".to_owned())?;
    let Spent { wall, processor } = spent.map_err(|error| error.to_string())?;
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / count as f64;
    Ok(vec![("each_us", each(wall)), ("cpu_us", each(processor))])
}

fn runtime(is_multi: bool) -> io::Result<Runtime> {
    if is_multi {
        Builder::new_multi_thread().worker_threads(1).build()
    } else {
        Builder::new_current_thread().build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_does_each_work_in_both_runtimes() {
        let directory = tempfile::tempdir().unwrap();
        let files = Arc::new(Files::make(directory.path(), 0.001).unwrap());
        for work in Work::ALL {
            for entrant in &ENTRANTS {
                let figures = turn(work, entrant, &files, work.count(0.001), 3).unwrap();
                assert!(figures[0].1 > 0.0, "{} by {}", work.name, entrant.name);
            }
        }
    }
}
