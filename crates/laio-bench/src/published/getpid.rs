//! `laio bench getpid`: table 2 of the thesis.

use super::{Progress, Settings};
use crate::calls::CallVariant;
use crate::error::Error;
use crate::pin::Pinned;
use crate::plot::{Axis, Bar, Bars, Group, Scale};
use crate::record::{Cache, Record};
use crate::round_robin::{Figures, RoundRobin};
use crate::sheet::{Finding, Picture, Sheet, Table, caption, number};
use crate::statistics::Quartiles;
use crate::stop::Stop;
use laio::{BackendKind, Context};
use laio_measure::{Getpids, Subject, Via};

const SOURCE: &str = "2005: liblaiogen on Linux 2.6.10, Pentium 4 Xeon of 2.4 GHz; its helpers are one for each call in flight";
const WORKLOAD: &str = "getpid";
const DIRECT: &str = "direct";
/// The number of helpers, and the seconds for a million calls.
const PUBLISHED: [(&str, f64); 4] = [
    (DIRECT, 0.80),
    ("threads, 1 helper", 6.12),
    ("threads, 10 helpers", 6.10),
    ("threads, 100 helpers", 6.12),
];
const CALLS: f64 = 1e6;
/// The number of blocks of plain calls, each followed by one of the subject's, in each turn.
const BLOCKS: usize = 10;

/// A subject, and the number of calls in flight.
type Entrant = (String, CallVariant, usize);

fn subjects(settings: &Settings) -> Vec<Entrant> {
    let mut subjects = Vec::new();
    for &variant in CallVariant::USUAL {
        if variant == CallVariant::BareRing || !settings.takes(variant.name()) {
            continue;
        }
        match variant {
            CallVariant::Backend(BackendKind::Threads) => {
                subjects.extend(settings.at(&[1, 10, 100]).into_iter().map(|helpers| {
                    let plural = if helpers == 1 { "" } else { "s" };
                    (
                        format!("threads, {helpers} helper{plural}"),
                        variant,
                        helpers,
                    )
                }));
            }
            // No other back end passes this call to another thread, so the number in flight has no effect.
            _ => subjects.push((variant.name().to_owned(), variant, 1)),
        }
    }
    subjects
}

pub(super) fn run(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    let rounds = settings.rounds(7, 21);
    let (mut record, _) = settings.begin("getpid", rounds)?;
    let calls = (CALLS * settings.scale(0.1) / f64::from(rounds)) as usize;
    let block = (calls / BLOCKS).max(10);
    let description = format!(
        "{block} calls at a time, in turns with as many plain ones, {BLOCKS} times each round"
    );
    record.settings.insert("calls".to_owned(), description);
    let subjects = subjects(settings);
    let mut names = vec![(None, DIRECT)];
    names.extend(subjects.iter().map(|one| (None, one.0.as_str())));
    let round_robin = RoundRobin {
        workload: WORKLOAD,
        cache: Cache::Warm,
        subjects: &names,
        rounds,
        stop,
    };
    record.cells = round_robin.run(&mut |index, round| {
        progress(&format!(
            "{}, round {} of {rounds}",
            names[index].1,
            round + 1
        ));
        let entrant = index.checked_sub(1).map(|index| &subjects[index]);
        // In a thread of its own, because some back ends change their calling thread.
        let turn = std::thread::scope(|scope| scope.spawn(|| turn(entrant, block)).join());
        turn.map_err(|_| "it panicked".to_owned())?
    })?;
    Ok(record)
}

fn turn(entrant: Option<&Entrant>, block: usize) -> Result<Figures, String> {
    let message = |errno: laio::Errno| errno.to_string();
    let delegates = matches!(
        entrant,
        Some((_, CallVariant::Backend(BackendKind::Threads), _))
    );
    let _pinned = if delegates { None } else { Pinned::here() };
    let mut context = match entrant {
        None => None,
        Some((_, variant, in_flight)) => {
            let options = variant.options(false).ok_or("it has no context")?;
            Some(Context::new(options.helpers(*in_flight as u32)).map_err(message)?)
        }
    };
    let mut calls = Getpids::new(entrant.map_or(1, |entrant| entrant.2));
    let (mut own, mut ratios) = (0, Vec::new());
    for number in 0..=BLOCKS {
        let plain = calls.run(&mut Via::Plain, block).map_err(message)?;
        let spent = match &mut context {
            None => plain,
            Some(context) => calls
                .run(&mut Via::Context(context), block)
                .map_err(message)?,
        };
        // The first block starts threads, and warms the caches.
        if number > 0 {
            own += spent;
            ratios.push(spent as f64 / plain as f64);
        }
    }
    let seconds = own as f64 * 1e-9 * CALLS / (BLOCKS * block) as f64;
    let ratio = Quartiles::of(&ratios).map_or(1.0, |ratio| ratio.median);
    Ok(vec![("million_s", seconds), ("ratio", ratio)])
}

fn found(record: &Record, name: &str, quantity: &str) -> Option<f64> {
    let case = crate::record::Case::new(WORKLOAD, Cache::Warm);
    record.median(&case, name, quantity)
}

pub(super) fn show(record: &Record) -> Sheet {
    let mut sheet = Sheet::of(
        record,
        "getpid: what asking in the background costs (thesis, table 2)",
    );
    sheet.tables.push(table(record));
    sheet.pictures.push(picture(record));
    sheet.findings = vec![eager(record), lazy(record)];
    sheet
}

fn table(record: &Record) -> Table {
    let line = |name: &str| {
        let then = PUBLISHED.iter().find(|row| row.0 == name).map(|row| row.1);
        let text = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        vec![
            name.to_owned(),
            text(then),
            text(then.map(|seconds| seconds / PUBLISHED[0].1)),
            text(found(record, name, "million_s")),
            text(found(record, name, "ratio")),
        ]
    };
    let head = [
        "a million calls",
        "2005, s",
        "x direct",
        "today, s",
        "x direct",
    ];
    Table {
        title: "A million getpid, seconds, and times as long as plainly".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        lines: record.subjects().into_iter().map(line).collect(),
        foot: SOURCE.to_owned(),
    }
}

fn picture(record: &Record) -> Picture {
    let group = |cell: &crate::record::Cell| {
        let ratio = cell.measured.get("ratio")?;
        let then = PUBLISHED.iter().find(|row| row.0 == cell.subject);
        let then = then.map(|row| Bar {
            series: 1,
            value: row.1 / PUBLISHED[0].1,
            range: None,
        });
        let today = Bar {
            series: 0,
            value: ratio.median,
            range: Some((ratio.low_quartile, ratio.high_quartile)),
        };
        Some(Group {
            name: cell.subject.clone(),
            bars: std::iter::once(today).chain(then).collect(),
        })
    };
    let plot = Bars {
        title: "getpid through each back end".to_owned(),
        caption: caption(record),
        x: Axis::new("times as long as the plain call", Scale::Log)
            .at(&[0.5, 1.0, 10.0, 100.0, 1000.0]),
        series: vec!["today".to_owned(), "2005".to_owned()],
        groups: record.cells.iter().filter_map(group).collect(),
        reference: Some(1.0),
    };
    Picture {
        name: "getpid".to_owned(),
        svg: plot.svg(),
    }
}

fn eager(record: &Record) -> Finding {
    let ratios: Vec<f64> = PUBLISHED[1..]
        .iter()
        .filter_map(|(name, _)| found(record, name, "ratio"))
        .collect();
    let least = ratios.iter().copied().reduce(f64::min);
    let found = least.map(|least| {
        let all: Vec<_> = ratios.iter().map(|ratio| number(*ratio)).collect();
        let held = least >= 2.0;
        let why = "handing a call to another thread and back costs two switches and, where the other processor sleeps, \
             waking it; the call itself has become faster than that has";
        (held, format!("{} times with 1, 10 and 100 helpers: {why}", all.join(", ")))
    });
    Finding::new(
        "eager helpers take 7.6 times as long as the plain call, however many there are",
        found,
    )
}

fn lazy(record: &Record) -> Finding {
    let found = found(record, "lazy", "ratio").map(|ratio| {
        let others: Vec<_> = ["uring", "hybrid", "activations"]
            .iter()
            .filter_map(|name| Some(format!("{name} {}", number(found(record, name, "ratio")?))))
            .collect();
        let why =
            "a call that cannot block is made at once, and only looked up in the table before";
        (
            ratio <= 1.05,
            format!("{} ({}): {why}", number(ratio), others.join(", ")),
        )
    });
    Finding::new(
        "lazy takes at most 1.05 times as long as the plain call",
        found,
    )
}
