//! Shows tables 3 and 4, and conclusions.

use super::{IN_FLIGHT, OPEN_STAT, OPEN_STAT_READ, beside_plain, case};
use crate::plot::{Axis, Bar, Bars, Group, Scale};
use crate::record::{Cache, Record};
use crate::sheet::{Finding, Picture, Sheet, Table, caption, cell, number, state};
use crate::strategy::{PLAIN, TRUSTING};

const SOURCE: &str = "2005: 245,820 requests for 1.1 GB of files, Linux 2.6.10 with the anticipatory scheduler, Pentium 4 Xeon, ATA disk, 1 GB of memory";

/// The published requests.
const REQUESTS: f64 = 245_820.0;

/// Seconds with 1, 10 and 100 threads or helpers; plain threads, then liblaiogen.
struct Published {
    name: &'static str,
    cold: [[f64; 3]; 2],
    warm: [[f64; 3]; 2],
}

const PUBLISHED: [Published; 2] = [
    Published {
        name: OPEN_STAT,
        cold: [[6.12, 5.54, 5.06], [12.47, 11.66, 11.03]],
        warm: [[2.09, 1.88, 1.92], [8.41, 6.0, 7.94]],
    },
    Published {
        name: OPEN_STAT_READ,
        cold: [[117.5, 125.9, 111.9], [126.9, 102.1, 82.21]],
        warm: [[49.41, 46.82, 54.08], [62.83, 50.81, 38.88]],
    },
];

/// The names of the published lines.
const THEN: [&str; 2] = ["2005: threads", "2005: liblaiogen"];

impl Published {
    fn of(record: &Record) -> Option<&'static Published> {
        PUBLISHED.iter().find(|one| one.name == record.benchmark)
    }

    fn seconds(&self, line: usize, cache: Cache, in_flight: f64) -> Option<f64> {
        let column = IN_FLIGHT
            .iter()
            .position(|count| *count as f64 == in_flight)?;
        let lines = match cache {
            Cache::Cold => self.cold,
            Cache::Warm => self.warm,
        };
        Some(lines[line][column])
    }
}

pub(in crate::published) fn show(record: &Record) -> Sheet {
    let (number, what) = match record.benchmark == OPEN_STAT {
        true => (3, "open and stat"),
        false => (4, "open, stat and read"),
    };
    let mut sheet = Sheet::of(
        record,
        &format!(
            "{}: {what} of the files of a trace (thesis, table {number})",
            record.benchmark
        ),
    );
    sheet.tables = vec![
        times(record, number),
        ratios(record, number),
        switches(record),
    ];
    let caches = [Cache::Cold, Cache::Warm];
    sheet.pictures = caches
        .into_iter()
        .filter_map(|cache| picture(record, cache))
        .collect();
    sheet.findings = match record.benchmark == OPEN_STAT {
        true => vec![eager(record), lazy(record)],
        false => vec![
            concurrency(record),
            faster_than_one(record),
            not_behind(record),
        ],
    };
    sheet
}

/// A column: the cache state, and the number in flight.
type Column = (Cache, f64);

fn columns(record: &Record) -> Vec<Column> {
    let cases = record.cases();
    cases
        .iter()
        .filter_map(|case| Some((case.cache, case.at?)))
        .collect()
}

/// Returns a table over the columns: published lines, then today's.
fn table(
    record: &Record,
    title: String,
    then: &dyn Fn(&Published, usize, Column) -> Option<f64>,
    today: &dyn Fn(&str, Column) -> Option<f64>,
) -> Table {
    let columns = columns(record);
    let mut head = vec![String::new()];
    head.extend(columns.iter().map(|(cache, at)| state(*cache, Some(*at))));
    let mut lines = Vec::new();
    if let Some(published) = Published::of(record) {
        for (line, name) in THEN.iter().enumerate() {
            let cells: Vec<_> = columns
                .iter()
                .map(|column| then(published, line, *column))
                .collect();
            if cells.iter().any(Option::is_some) {
                lines.push(
                    std::iter::once((*name).to_owned())
                        .chain(cells.into_iter().map(cell))
                        .collect(),
                );
            }
        }
    }
    for name in record.subjects() {
        let cells = columns.iter().map(|column| cell(today(name, *column)));
        lines.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    Table {
        title,
        head,
        lines,
        foot: String::new(),
    }
}

fn times(record: &Record, number: u32) -> Table {
    let mut table = table(
        record,
        format!(
            "Table {number}: microseconds for each request, by cache and threads or requests in flight"
        ),
        &|published, line, (cache, at)| Some(published.seconds(line, cache, at)? * 1e6 / REQUESTS),
        &|name, (cache, at)| {
            let case = case(&record.benchmark, cache, at as usize);
            record.median(&case, name, "each_us")
        },
    );
    table.foot = SOURCE.to_owned();
    table
}

fn ratios(record: &Record, number: u32) -> Table {
    table(
        record,
        format!("Table {number}: times as long as plain threads, as many of them"),
        &|published, line, (cache, at)| {
            let seconds = |line| published.seconds(line, cache, at);
            Some(seconds(line)? / seconds(0)?)
        },
        &|name, (cache, at)| beside_plain(record, cache, at as usize, name),
    )
}

fn switches(record: &Record) -> Table {
    table(
        record,
        "Context switches for each request".to_owned(),
        &|_, _, _| None,
        &|name, (cache, at)| {
            let case = case(&record.benchmark, cache, at as usize);
            record.median(&case, name, "switches")
        },
    )
}

fn picture(record: &Record, cache: Cache) -> Option<Picture> {
    let counts: Vec<f64> = columns(record)
        .into_iter()
        .filter(|column| column.0 == cache)
        .map(|column| column.1)
        .collect();
    let groups: Vec<Group> = record
        .subjects()
        .into_iter()
        .map(|name| Group {
            name: name.to_owned(),
            bars: counts
                .iter()
                .enumerate()
                .filter_map(|(series, at)| {
                    let case = case(&record.benchmark, cache, *at as usize);
                    let wall = record.cell(&case, name)?.measured.get("each_us")?;
                    Some(Bar {
                        series,
                        value: wall.median,
                        range: Some((wall.low_quartile, wall.high_quartile)),
                    })
                })
                .collect(),
        })
        .filter(|group| !group.bars.is_empty())
        .collect();
    let plot = Bars {
        title: format!("{}, {} cache", record.benchmark, cache.name()),
        caption: caption(record),
        x: Axis::new("time for each request, us", Scale::Linear),
        series: counts.iter().map(|at| format!("{at} in flight")).collect(),
        groups,
        reference: record.median(&case(&record.benchmark, cache, 1), PLAIN, "each_us"),
    };
    (!plot.groups.is_empty()).then(|| Picture {
        name: format!("{}-{}", record.benchmark, cache.name()),
        svg: plot.svg(),
    })
}

fn eager(record: &Record) -> Finding {
    let found = beside_plain(record, Cache::Warm, 1, "threads").map(|ratio| {
        let others: Vec<_> = [10, 100]
            .into_iter()
            .filter_map(|count| beside_plain(record, Cache::Warm, count, "threads"))
            .map(number)
            .collect();
        let why = "each call still costs two switches, whether it would have blocked or not";
        (
            ratio >= 2.0,
            format!(
                "threads {} times (with 10 and 100 in flight {}): {why}",
                number(ratio),
                others.join(" and ")
            ),
        )
    });
    Finding::new(
        "warm, with one in flight, liblaiogen takes 4.0 times as long as a plain thread (8.41 and 2.09 s)",
        found,
    )
}

fn lazy(record: &Record) -> Finding {
    let ratio = |strategy| beside_plain(record, Cache::Warm, 1, strategy);
    let found = ratio("lazy").map(|lazy| {
        let trusting = ratio(TRUSTING);
        let words = trusting.map_or(String::new(), |trusting| format!(", {} where names are promised to lead to no FIFO", number(trusting)));
        let why = "open makes two calls more, which exclude that a FIFO makes it wait; the promise spares them";
        (lazy.min(trusting.unwrap_or(lazy)) <= 1.15, format!("lazy {} times{words}: {why}", number(lazy)))
    });
    Finding::new(
        "warm, with one in flight, lazy takes at most 1.15 times as long as a plain thread (aim)",
        found,
    )
}

/// Returns the ratio of times in two cases, both cold.
fn cold(record: &Record, over: (&str, usize), under: (&str, usize)) -> Option<f64> {
    let case = |in_flight| case(&record.benchmark, Cache::Cold, in_flight);
    let (first, second) = (case(over.1), case(under.1));
    Some(
        record
            .ratio((&first, over.0), (&second, under.0), "each_us")?
            .median,
    )
}

fn concurrency(record: &Record) -> Finding {
    let gain = |strategy| cold(record, (strategy, 1), (strategy, 100));
    let found = gain("threads").zip(gain(PLAIN)).map(|(helpers, threads)| {
        let why = match threads >= 1.2 {
            true => "today's disk does many requests at a time, and plain threads keep it busy as well as helpers do",
            false => "more in flight help only who does not wait for one after the other",
        };
        let held = helpers >= 1.2 && threads < 1.2;
        (held, format!("from 1 to 100, helpers gain {} times, plain threads {} times: {why}", number(helpers), number(threads)))
    });
    Finding::new(
        "cold, liblaiogen gains from 1 to 100 helpers (126.9 to 82.2 s), plain threads do not (117.5 to 111.9 s)",
        found,
    )
}

fn faster_than_one(record: &Record) -> Finding {
    let found = cold(record, (PLAIN, 1), ("lazy", 100)).map(|gain| {
        let others: Vec<_> = ["uring", "threads", "linux-aio", "activations"]
            .iter()
            .filter_map(|strategy| {
                Some(format!(
                    "{strategy} {}",
                    number(cold(record, (PLAIN, 1), (strategy, 100))?)
                ))
            })
            .collect();
        (
            gain >= 1.5,
            format!(
                "lazy {} times as fast ({}): what waits for the disk is in flight together",
                number(gain),
                others.join(", ")
            ),
        )
    });
    Finding::new(
        "cold, lazy with 100 in flight is at least 1.5 times as fast as one plain thread (aim)",
        found,
    )
}

fn not_behind(record: &Record) -> Finding {
    let found = cold(record, ("lazy", 100), (PLAIN, 100)).map(|ratio| {
        let switches = |strategy| {
            record.median(
                &case(&record.benchmark, Cache::Cold, 100),
                strategy,
                "switches",
            )
        };
        let words = switches("lazy")
            .zip(switches(PLAIN))
            .map_or(String::new(), |(lazy, plain)| {
                format!(
                    "; context switches for each request {} and {}",
                    number(lazy),
                    number(plain)
                )
            });
        // The time of a disk differs more from turn to turn.
        (
            ratio <= 1.05,
            format!(
                "lazy takes {} times as long as 100 plain threads{words}",
                number(ratio)
            ),
        )
    });
    Finding::new(
        "cold, lazy with 100 in flight is not behind 100 plain threads (aim; 5 % are noise)",
        found,
    )
}
