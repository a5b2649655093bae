//! `laio bench lazy-share`: the fraction of potentially blocking calls that do not block, and the time that
//! lazy attempts save on these.

use super::figure::filled;
use super::files::Work;
use super::run::Run;
use crate::caches;
use crate::calls::{self, CallVariant, Row};
use crate::error::{Error, While};
use crate::record::{Cache, Case, Cell};
use crate::strategy::Strategy;
use crate::trace::Preset;
use laio::{BackendKind, Stats};
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of requests in flight.
const IN_FLIGHT: usize = 100;
/// Calls that never block on a local file system: they are not counted.
const INSTANT: [&str; 3] = ["close", "lseek", "fcntl"];
/// Calls that do not block, and the back ends that are compared for them.
pub(super) const ROWS: [&str; 3] = ["pread4k", "recv-64", "pipe-write-64"];
const KINDS: [BackendKind; 5] = [
    BackendKind::Lazy,
    BackendKind::PosixAio,
    BackendKind::LinuxAio,
    BackendKind::Uring,
    BackendKind::Threads,
];
pub(super) fn is_trace(case: &Case) -> bool {
    !ROWS.contains(&case.workload.as_str())
}

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let settings = run.settings;
    run.set("in flight", IN_FLIGHT.to_string());
    let traces = [
        ("Rice", Preset::Rice, 1.0),
        ("Berkeley", Preset::Berkeley, 0.2),
    ];
    for (name, preset, part) in traces {
        let trace = preset.trace(1, settings.scale(0.02) * part);
        let set = run.make(name, &trace)?;
        let work = Work::from_trace(&trace, &set, true);
        for cache in run.caches() {
            count(run, &work, &Case::new(name, cache))?;
        }
        run.remove(&set)?;
    }
    // Short messages, as in the publication's own micro-benchmark.
    micro(run)
}

/// Adds a subject for each call, and one for all of them, which share turns.
fn count(run: &mut Run<'_>, work: &Work, case: &Case) -> Result<(), Error> {
    if case.cache == Cache::Warm {
        work.plainly(1).doing("cannot read the files")?;
    }
    let lazy = Strategy::Backend(CallVariant::Backend(BackendKind::Lazy));
    let mut found: Vec<(String, BTreeMap<&str, Vec<f64>>)> = Vec::new();
    for round in 0..run.rounds {
        run.progress(&format!(
            "{}, round {}",
            filled("{workload}, {cache}", case),
            round + 1
        ));
        run.stop.check()?;
        caches::settle(run.directory(), case.cache)?;
        let options = lazy.options(IN_FLIGHT).expect("lazy has a context");
        let done = work.through(options, IN_FLIGHT);
        let stats = done.doing("cannot read the files")?.stats;
        for (call, inline, total) in counts(&stats.expect("there is a context")) {
            let known = found.iter().position(|one| one.0 == call);
            let index = known.unwrap_or_else(|| {
                found.push((call, BTreeMap::new()));
                found.len() - 1
            });
            let share = 100.0 * inline as f64 / total.max(1) as f64;
            for (name, value) in [("share", share), ("calls", total as f64)] {
                found[index].1.entry(name).or_default().push(value);
            }
        }
    }
    for (call, rounds) in found {
        run.record.cells.push(Cell::new(case, &call, Ok(rounds)));
    }
    Ok(())
}

/// Returns the number of inline calls and of all, for each call and for all together.
fn counts(stats: &Stats) -> Vec<(String, u64, u64)> {
    let calls = stats.calls().filter(|(name, _)| !INSTANT.contains(name));
    let mut counts: Vec<_> = calls
        .map(|(name, counts)| (name.to_owned(), counts.inline, counts.total()))
        .collect();
    let inline = counts.iter().map(|one| one.1).sum();
    let total = counts.iter().map(|one| one.2).sum();
    counts.push(("all".to_owned(), inline, total));
    counts
}

/// The cost of calls that do not block, through `lazy` and through back ends without attempts.
fn micro(run: &mut Run<'_>) -> Result<(), Error> {
    let seconds = if run.settings.quick { 0.5 } else { 5.0 };
    let calls = calls::Settings {
        rows: Row::all().filter(|row| ROWS.contains(&row.name)).collect(),
        variants: KINDS.map(CallVariant::Backend).into(),
        time: Duration::from_secs_f64(seconds),
        directory: run.settings.directory.clone(),
        ..calls::Settings::default()
    };
    let report = calls::run(&calls, &mut |text| run.progress(text))?;
    for one in report.measurements() {
        let case = Case::new(&one.call, Cache::Warm);
        let rounds = [("ns", vec![one.median_ns]), ("ratio", vec![one.ratio])];
        let cell = Cell::new(&case, &one.backend, Ok(rounds.into()));
        run.record.cells.push(cell);
    }
    Ok(())
}
