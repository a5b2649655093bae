//! `laio bench lazy-share`: the fraction of potentially blocking calls that do not block, and the time that
//! lazy attempts save on these.

use super::files::Work;
use super::{Progress, Settings};
use crate::caches;
use crate::calls::{self, CallVariant, Row};
use crate::error::{Error, While};
use crate::plot::{Axis, Bar, Bars, Group, Scale};
use crate::record::{Cache, Case, Record};
use crate::round_robin::{Figures, RoundRobin};
use crate::sheet::{Finding, Picture, Sheet, Table, caption, cell, number};
use crate::stop::Stop;
use crate::strategy::Strategy;
use crate::trace::{Preset, make};
use laio::{BackendKind, Stats};
use std::time::Duration;

const WORKLOAD: &str = "open-stat-read";
/// The name of all calls together.
const ALL: &str = "all";
const PUBLISHED: (f64, f64) = (73.0, 86.0);
const PUBLISHED_RATIO: f64 = 3.2;
/// The number of requests in flight.
const IN_FLIGHT: usize = 100;
/// Calls that never block on a local file system: they are not counted.
const INSTANT: [&str; 3] = ["close", "lseek", "fcntl"];
/// Calls that do not block, and the asynchronous back ends that are compared with `lazy`.
const ROWS: [&str; 3] = ["pread4k", "recv-64", "pipe-write-64"];
const EAGER: [BackendKind; 4] = [
    BackendKind::PosixAio,
    BackendKind::LinuxAio,
    BackendKind::Uring,
    BackendKind::Threads,
];

pub(super) fn run(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    let rounds = settings.rounds(3, 5);
    let (mut record, directory) = settings.begin("lazy-share", rounds)?;
    let own = tempfile::Builder::new()
        .prefix("laio-bench-")
        .tempdir_in(&directory.path);
    let own = own.doing("cannot make a directory")?;
    let traces = [
        ("Rice", Preset::Rice, 1.0),
        ("Berkeley", Preset::Berkeley, 0.2),
    ];
    for (name, preset, part) in traces {
        let scale = settings.scale(0.02) * part;
        let trace = preset.trace(1, scale);
        let set = own.path().join(name);
        make(&trace, &set, true, stop, progress)?;
        let work = Work::of(&trace, &set, true);
        let words = format!(
            "{WORKLOAD}, {} requests, {} MiB of files, {IN_FLIGHT} in flight",
            work.requests(),
            trace.set_bytes() >> 20
        );
        record.settings.insert(name.to_owned(), words);
        for cache in caches::possible(&settings.caches(), directory.place, &mut record) {
            let case = (name, cache);
            count(
                &work,
                own.path(),
                case,
                (rounds, stop),
                progress,
                &mut record,
            )?;
        }
        std::fs::remove_dir_all(&set).doing("cannot remove a set of files")?;
    }
    // Short messages, as in the publication's own micro-benchmark.
    micro(settings, progress, &mut record)?;
    Ok(record)
}

/// One subject for each call, and one for all of them; they share turns.
fn count(
    work: &Work,
    directory: &std::path::Path,
    (name, cache): (&str, Cache),
    (rounds, stop): (u32, &Stop),
    progress: Progress<'_>,
    record: &mut Record,
) -> Result<(), Error> {
    if cache == Cache::Warm {
        work.plainly(1).doing("cannot read the files")?;
    }
    let lazy = Strategy::Backend(CallVariant::Backend(BackendKind::Lazy));
    let mut found: Vec<Vec<(String, Figures)>> = Vec::new();
    for round in 0..rounds {
        progress(&format!(
            "{name}, {}, round {} of {rounds}",
            cache.name(),
            round + 1
        ));
        stop.check()?;
        caches::settle(directory, cache)?;
        let options = lazy.options(IN_FLIGHT).expect("lazy has a context");
        let done = work.through(options, IN_FLIGHT);
        let stats = done.doing("cannot read the files")?.stats;
        let stats = stats.expect("there is a context");
        found.push(shares(&stats));
    }
    let names: Vec<String> = found[0].iter().map(|(name, _)| name.clone()).collect();
    let subjects: Vec<_> = names.iter().map(|name| (None, name.as_str())).collect();
    let round_robin = RoundRobin {
        workload: name,
        cache,
        subjects: &subjects,
        rounds,
        stop,
    };
    let cells = round_robin.run(&mut |index, round| {
        let shares = &found[round as usize];
        let share = shares.iter().find(|(name, _)| *name == names[index]);
        share
            .map(|(_, figures)| figures.clone())
            .ok_or_else(|| "it was not called".to_owned())
    })?;
    record.cells.extend(cells);
    Ok(())
}

/// The fractions of each call, and of all together.
fn shares(stats: &Stats) -> Vec<(String, Figures)> {
    let (mut inline, mut total) = (0, 0);
    let mut shares = Vec::new();
    let figures = |inline: u64, total: u64| {
        vec![
            ("share", 100.0 * inline as f64 / total.max(1) as f64),
            ("calls", total as f64),
        ]
    };
    for (name, counts) in stats.calls() {
        if INSTANT.contains(&name) {
            continue;
        }
        inline += counts.inline;
        total += counts.total();
        shares.push((name.to_owned(), figures(counts.inline, counts.total())));
    }
    shares.push((ALL.to_owned(), figures(inline, total)));
    shares
}

/// The cost of calls that do not block, through `lazy` and through back ends without attempts.
fn micro(settings: &Settings, progress: Progress<'_>, record: &mut Record) -> Result<(), Error> {
    let seconds = if settings.quick { 0.5 } else { 5.0 };
    let variants: Vec<_> = std::iter::once(BackendKind::Lazy)
        .chain(EAGER)
        .map(CallVariant::Backend)
        .collect();
    let calls = calls::Settings {
        rows: Row::all().filter(|row| ROWS.contains(&row.name)).collect(),
        variants,
        time: Duration::from_secs_f64(seconds),
        directory: settings.directory.clone(),
        ..calls::Settings::default()
    };
    let report = calls::run(&calls, progress)?;
    for measurement in report.measurements() {
        let measured = |value| crate::record::Measured::of(vec![value]).expect("one round");
        record.cells.push(crate::record::Cell {
            workload: measurement.call.clone(),
            cache: Cache::Warm,
            at: None,
            subject: measurement.backend.clone(),
            command: Vec::new(),
            left_out: None,
            verified: true,
            measured: [
                ("ns".to_owned(), measured(measurement.median_ns)),
                ("ratio".to_owned(), measured(measurement.ratio)),
            ]
            .into(),
        });
    }
    Ok(())
}

pub(super) fn show(record: &Record) -> Sheet {
    let mut sheet = Sheet::of(record, "lazy-share: why be lazy (LAIO, 2004)");
    sheet.tables = vec![share_table(record), micro_table(record)];
    sheet.pictures.push(picture(record));
    sheet.findings = vec![most_do_not_block(record), slower(record)];
    sheet
}

/// Returns the cases of traces, with readable names.
fn cases(record: &Record) -> Vec<(String, Case)> {
    let mut cases = record.cases();
    cases.retain(|case| !ROWS.contains(&case.workload.as_str()));
    let named = |case: Case| (format!("{}, {}", case.workload, case.cache.name()), case);
    cases.into_iter().map(named).collect()
}

fn share_table(record: &Record) -> Table {
    let cases = cases(record);
    let mut head = vec!["% that did not block".to_owned()];
    head.extend(cases.iter().map(|(name, _)| name.clone()));
    let line = |call: &str| -> Option<Vec<String>> {
        let shares: Vec<_> = cases
            .iter()
            .map(|(_, case)| record.median(case, call, "share"))
            .collect();
        shares.iter().any(Option::is_some).then(|| {
            std::iter::once(call.to_owned())
                .chain(shares.into_iter().map(cell))
                .collect()
        })
    };
    let (low, high) = PUBLISHED;
    Table {
        title: "Potentially blocking calls that did not block, in %".to_owned(),
        head,
        lines: record.subjects().into_iter().filter_map(line).collect(),
        foot: format!(
            "2004: {low} to {high} % in the Flash web server, Rice and Berkeley workloads, FreeBSD 5.2. {} are not counted",
            INSTANT.join(", ")
        ),
    }
}

fn micro_table(record: &Record) -> Table {
    let strategies: Vec<_> = std::iter::once(BackendKind::Lazy)
        .chain(EAGER)
        .map(BackendKind::name)
        .collect();
    let mut head = vec!["ns each, and x lazy".to_owned(), "plain".to_owned()];
    head.extend(strategies.iter().map(|strategy| (*strategy).to_owned()));
    let line = |row: &&str| {
        let case = Case::new(row, Cache::Warm);
        let of = |strategy: &str| record.median(&case, strategy, "ns");
        let cells = strategies
            .iter()
            .map(|strategy| match (of(strategy), of("lazy")) {
                (Some(own), Some(lazy)) => format!("{} ({})", number(own), number(own / lazy)),
                _ => "-".to_owned(),
            });
        [(*row).to_owned(), cell(of("plain"))]
            .into_iter()
            .chain(cells)
            .collect()
    };
    Table {
        title: "Calls that do not block".to_owned(),
        head,
        lines: ROWS.iter().map(line).collect(),
        foot: format!(
            "2004: asynchronous I/O (AIO) takes {PUBLISHED_RATIO} times as long as LAIO. posix-aio, linux-aio: streams are tried first, and so are not slower"
        ),
    }
}

fn picture(record: &Record) -> Picture {
    let cases = cases(record);
    let calls: Vec<&str> = record
        .subjects()
        .into_iter()
        .filter(|call| {
            cases
                .iter()
                .any(|(_, case)| record.cell(case, call).is_some())
        })
        .collect();
    let groups = calls.iter().map(|call| Group {
        name: (*call).to_owned(),
        bars: cases
            .iter()
            .enumerate()
            .filter_map(|(series, (_, case))| {
                let share = record.cell(case, call)?.measured.get("share")?;
                Some(Bar {
                    series,
                    value: share.median,
                    range: Some((share.low_quartile, share.high_quartile)),
                })
            })
            .collect(),
    });
    let plot = Bars {
        title: "Potentially blocking calls that did not block".to_owned(),
        caption: caption(record),
        x: Axis::new("share of the calls, %", Scale::Linear)
            .at(&[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]),
        series: cases.iter().map(|(name, _)| name.clone()).collect(),
        groups: groups.collect(),
        reference: Some(PUBLISHED.0),
    };
    Picture {
        name: "lazy-share".to_owned(),
        svg: plot.svg(),
    }
}

fn most_do_not_block(record: &Record) -> Finding {
    let shares: Vec<_> = cases(record)
        .into_iter()
        .filter_map(|(name, case)| Some((name, record.median(&case, ALL, "share")?)))
        .collect();
    let least = shares.iter().map(|share| share.1).reduce(f64::min);
    let found = least.map(|least| {
        let words: Vec<_> = shares.iter().map(|(name, share)| format!("{name} {} %", number(*share))).collect();
        let why = "with all in memory nothing blocks; from a cold cache each file's first open and read do, later ones of the same file do not";
        (least >= 50.0, format!("{}: {why}", words.join(", ")))
    });
    Finding::new(
        "73 to 86 % of the potentially blocking operations do not block",
        found,
    )
}

fn slower(record: &Record) -> Finding {
    let case = Case::new(ROWS[0], Cache::Warm);
    let found = record.median(&case, "lazy", "ns").and_then(|lazy| {
        let ratios: Vec<_> = EAGER
            .iter()
            .filter_map(|kind| Some((kind.name(), record.median(&case, kind.name(), "ns")? / lazy)))
            .collect();
        let posix = ratios.iter().find(|ratio| ratio.0 == BackendKind::PosixAio.name())?.1;
        let words: Vec<_> = ratios.iter().map(|(strategy, ratio)| format!("{strategy} {}", number(*ratio))).collect();
        Some((posix >= 2.0, format!("a read of 4 KiB from memory, times as long as lazy: {}; io_uring also tries first, in the kernel, but its round costs more than the read", words.join(", "))))
    });
    Finding::new(
        "AIO takes 3.2 times as long as LAIO for operations that do not block",
        found,
    )
}
