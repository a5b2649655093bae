//! `laio bench lighttpd`: the published measurements of asynchronous I/O in lighttpd 1.5 (2006, 2007).

use super::super::{Progress, Settings};
use super::accelerator::Socket;
use super::curves::{self, MEGABYTES, RATE, RESPONSE};
use super::{Server, ServerRun, ServerWorkspace};
use crate::error::Error;
use crate::load::Pace;
use crate::plot::{Series, Style};
use crate::record::{Cache, Case, Record};
use crate::sheet::{Finding, Sheet, Table, cell, number};
use crate::stop::Stop;
use crate::trace::Preset;

const SMALL: &str = "files of 100 KiB, 100 parallel";
const LARGE: &str = "files of 10 MB, by chunk";
const ONE: &str = "one large file, by clients";
const STAT: &str = "stat acceleration, 100 parallel";

const SENDFILE: &str = "lighttpd-sendfile";
const AIO: &str = "lighttpd-linux-aio";
const ASYNCHRONOUS: [&str; 3] = [AIO, "lighttpd-posix-aio", "lighttpd-gthread-aio"];
const PARALLEL: usize = 100;
/// KiB, and MB/s in 2006; plain sendfile had 30.
const CHUNKS: [(usize, f64); 5] = [
    (256, 21.0),
    (384, 54.0),
    (512, 58.0),
    (768, 55.0),
    (1024, 52.0),
];
const CHUNKS_SENDFILE: f64 = 30.0;
/// Clients, and MB/s in 2006: sendfile, chunks of 512 KiB, of 1 MiB.
const ONE_FILE: [(usize, [Option<f64>; 3]); 4] = [
    (1, [Some(52.38), Some(89.85), Some(107.5)]),
    (2, [Some(39.94), Some(94.52), Some(92.74)]),
    (5, [Some(35.45), Some(31.81), Some(72.84)]),
    (10, [None, Some(25.22), Some(32.87)]),
];
const BY_512: &str = "linux-aio, 512 KiB";
const BY_1024: &str = "linux-aio, 1 MiB";
/// MB/s in 2007.
const STATS: [(&str, f64); 4] = [
    ("no acceleration", 12.07),
    ("FastCGI, tcp", 13.64),
    ("FastCGI, unix", 13.86),
    ("threads", 14.32),
];

pub(in crate::published) fn run(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    let rounds = settings.rounds(3, 5);
    let (workspace, mut record) = ServerWorkspace::open("lighttpd", settings, rounds, stop)?;
    let scale = settings.scale(0.02);
    small(&workspace, scale, &mut record, progress)?;
    large(&workspace, scale, &mut record, progress)?;
    one(&workspace, scale, &mut record, progress)?;
    Ok(record)
}

/// A case with one number on the axis: the number of parallel clients.
fn at(parallel: usize, pace: Pace, servers: &[Server]) -> Vec<(usize, Server, Pace)> {
    servers
        .iter()
        .map(|server| (parallel, server.clone(), pace))
        .collect()
}

fn small(
    workspace: &ServerWorkspace<'_>,
    scale: f64,
    record: &mut Record,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let trace = Preset::LighttpdSmall.trace(1, scale);
    let root = workspace.make(SMALL, &trace, record, progress)?;
    let mut servers = vec![Server::preset(SENDFILE)];
    servers.extend(ASYNCHRONOUS.map(Server::preset));
    servers.push(Server::backend("lazy"));
    servers.extend(Server::peers());
    let servers = workspace.servers(servers, record);
    let threads = [
        "--preset",
        SENDFILE,
        "--policy",
        "open=threads,stat=threads",
        "--stat-threads",
        "4",
    ];
    let accelerated = vec![
        Server::preset(SENDFILE).called(STATS[0].0),
        Server::accelerated(STATS[1].0, SENDFILE, Socket::Tcp),
        Server::accelerated(STATS[2].0, SENDFILE, Socket::Unix),
        Server::laio(STATS[3].0, &threads),
        Server::backend("lazy"),
    ];
    let accelerated = workspace.servers(accelerated, record);
    for cache in workspace.caches(record) {
        for (workload, servers) in [(SMALL, &servers), (STAT, &accelerated)] {
            // stat blocks only on a name that must be looked up on the disk.
            if servers.is_empty() || (workload == STAT && cache == Cache::Warm) {
                continue;
            }
            let run = ServerRun {
                workload,
                cache,
                trace: &trace,
                root: &root,
                subjects: at(PARALLEL, Pace::Random(PARALLEL), servers),
                close: true,
            };
            run.take(workspace, record, progress)?;
        }
    }
    workspace.remove(&root)
}

fn large(
    workspace: &ServerWorkspace<'_>,
    scale: f64,
    record: &mut Record,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let trace = Preset::LighttpdLarge.trace(1, scale);
    let root = workspace.make(LARGE, &trace, record, progress)?;
    let by_chunk = |&(kib, _): &(usize, f64)| {
        let bytes = (kib << 10).to_string();
        let aio = Server::laio(AIO, &["--preset", AIO, "--chunk", &bytes]);
        [aio, Server::preset(SENDFILE)].map(|server| (kib, server, Pace::Random(PARALLEL)))
    };
    let mut subjects: Vec<_> = CHUNKS.iter().flat_map(by_chunk).collect();
    subjects.retain(|entrant| workspace.settings.takes(&entrant.1.name));
    for cache in workspace.caches(record) {
        let run = ServerRun {
            workload: LARGE,
            cache,
            trace: &trace,
            root: &root,
            subjects: subjects.clone(),
            close: true,
        };
        run.take(workspace, record, progress)?;
    }
    workspace.remove(&root)
}

fn one(
    workspace: &ServerWorkspace<'_>,
    scale: f64,
    record: &mut Record,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let mut trace = Preset::LighttpdOne.trace(1, scale.max(0.1));
    let root = workspace.make(ONE, &trace, record, progress)?;
    let chunked = |name: &str, kib: usize| {
        let bytes = (kib << 10).to_string();
        Server::laio(name, &["--preset", AIO, "--chunk", &bytes])
    };
    let mut servers = vec![
        Server::preset(SENDFILE),
        chunked(BY_512, 512),
        chunked(BY_1024, 1024),
        Server::backend("lazy"),
    ];
    servers.extend(Server::peers());
    let servers = workspace.servers(servers, record);
    for cache in workspace.caches(record) {
        for (clients, _) in ONE_FILE {
            // Each client sends one request, as siege was configured.
            trace.requests.resize(clients, trace.requests[0]);
            let run = ServerRun {
                workload: ONE,
                cache,
                trace: &trace,
                root: &root,
                subjects: at(clients, Pace::Clients(clients), &servers),
                close: true,
            };
            run.take(workspace, record, progress)?;
        }
    }
    workspace.remove(&root)
}

pub(in crate::published) fn show(record: &Record) -> Sheet {
    let mut sheet = Sheet::of(
        record,
        "lighttpd: asynchronous bodies, chunks, and stat (lighttpd 1.5, 2006 and 2007)",
    );
    for group in curves::groups(record) {
        match group.workload.as_str() {
            LARGE => {
                sheet.tables.push(with_then(
                    curves::table(record, &group, "KiB", MEGABYTES),
                    &chunks_then(),
                ));
                sheet.pictures.push(curves::picture(
                    record,
                    &group,
                    "chunk, KiB",
                    MEGABYTES,
                    chunk_curves(),
                ));
            }
            ONE => {
                sheet.tables.push(with_then(
                    curves::table(record, &group, "clients", MEGABYTES),
                    &one_then(),
                ));
                sheet.pictures.push(curves::picture(
                    record,
                    &group,
                    "clients",
                    MEGABYTES,
                    Vec::new(),
                ));
            }
            SMALL => sheet.tables.push(single(record, &group, &SMALL_THEN)),
            _ => sheet.tables.push(single(record, &group, &STATS)),
        }
    }
    if let Some(last) = sheet.tables.last_mut() {
        last.foot = "2006, 2007: two ATA disks of 30 MB/s in a mirror, 1 GB of memory, 10 GB of files; Linux 2.6.16".to_owned();
    }
    sheet.findings = vec![
        small_found(record),
        chunk_found(record),
        one_found(record),
        stat_found(record),
    ];
    sheet
}

/// Fetches per second in 2006.
const SMALL_THEN: [(&str, f64); 2] = [(SENDFILE, 40.5), (AIO, 72.7)];

/// A table with one number on the axis: quantities are the columns.
fn single(record: &Record, group: &Case, then: &[(&str, f64)]) -> Table {
    let quantities = [RATE, MEGABYTES, RESPONSE, ("idle_percent", "idle, %")];
    let mut head = vec![
        String::new(),
        if group.workload == STAT {
            "2007, MB/s"
        } else {
            "2006, each s"
        }
        .to_owned(),
    ];
    head.extend(quantities.map(|(_, label)| label.to_owned()));
    let case = curves::cases(record, group).swap_remove(0);
    let mut names: Vec<&str> = then.iter().map(|row| row.0).collect();
    names.extend(
        record
            .subjects()
            .into_iter()
            .filter(|name| !then.iter().any(|row| row.0 == *name)),
    );
    let line = |name: &str| {
        let then = then.iter().find(|row| row.0 == name).map(|row| row.1);
        if then.is_none() && record.cell(&case, name).is_none() {
            return None;
        }
        let cells = quantities
            .iter()
            .map(|(quantity, _)| cell(record.median(&case, name, quantity)));
        Some(
            [name.to_owned(), cell(then)]
                .into_iter()
                .chain(cells)
                .collect(),
        )
    };
    Table {
        title: curves::title(group),
        head,
        lines: names.into_iter().filter_map(line).collect(),
        foot: String::new(),
    }
}

type Then = Vec<(&'static str, Vec<Option<f64>>)>;

fn chunks_then() -> Then {
    vec![
        (
            "2006: linux-aio-sendfile",
            CHUNKS.iter().map(|row| Some(row.1)).collect(),
        ),
        (
            "2006: linux-sendfile",
            CHUNKS.iter().map(|_| Some(CHUNKS_SENDFILE)).collect(),
        ),
    ]
}

fn one_then() -> Then {
    let column = |index: usize| ONE_FILE.iter().map(|row| row.1[index]).collect();
    vec![
        ("2006: linux-sendfile", column(0)),
        ("2006: 512 KiB", column(1)),
        ("2006: 1 MiB", column(2)),
    ]
}

fn with_then(mut table: Table, then: &Then) -> Table {
    let columns = table.head.len() - 1;
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (name, values) in then {
        if values.len() == columns {
            lines.push(
                std::iter::once((*name).to_owned())
                    .chain(values.iter().map(|value| cell(*value)))
                    .collect(),
            );
        }
    }
    lines.append(&mut table.lines);
    table.lines = lines;
    table
}

fn chunk_curves() -> Vec<Series> {
    let points = |value: &dyn Fn(&(usize, f64)) -> f64| {
        CHUNKS
            .iter()
            .map(|row| (row.0 as f64, value(row)))
            .collect()
    };
    let series = |name: &str, points| Series {
        name: name.to_owned(),
        points,
        ranges: Vec::new(),
        style: Style::Dashed,
    };
    vec![
        series("2006: linux-aio-sendfile", points(&|row| row.1)),
        series("2006: linux-sendfile", points(&|_| CHUNKS_SENDFILE)),
    ]
}

fn cold(workload: &str, at: usize) -> Case {
    Case::new(workload, Cache::Cold).at(at)
}

fn ratio(record: &Record, case: &Case, one: &str, other: &str) -> Option<f64> {
    Some(
        record
            .ratio((case, one), (case, other), MEGABYTES.0)?
            .median,
    )
}

fn small_found(record: &Record) -> Finding {
    let case = cold(SMALL, PARALLEL);
    let found = ratio(record, &case, AIO, SENDFILE).map(|gain| {
        let others: Vec<_> = [ASYNCHRONOUS[1], ASYNCHRONOUS[2], "lazy"]
            .iter()
            .filter_map(|name| Some(format!("{name} {}", number(ratio(record, &case, name, SENDFILE)?))))
            .collect();
        let idle = |name| record.median(&case, name, "idle_percent");
        let words = idle(SENDFILE).zip(idle(AIO)).map_or(String::new(), |(sendfile, aio)| {
            format!("; the machine, with its client, is idle {} and {} % of the time", number(sendfile), number(aio))
        });
        let held = gain >= 1.2;
        let is_idle = idle(SENDFILE).is_some_and(|idle| idle > 20.0);
        let why = match (held, is_idle) {
            (true, _) => "one thread that sleeps in sendfile has one request at the disk, asynchronous reads have many",
            (false, true) => "the disk gives as much to one request at a time, read ahead, as to many: it is the limit for both",
            (false, false) => "the processors are busy with sendfile too, so the disk is not what is waited for",
        };
        (held, format!("linux-aio {} times as fast as sendfile ({}){words}: {why}", number(gain), others.join(", ")))
    });
    Finding::new(
        "files of 100 KiB, cold, 100 parallel: linux-aio-sendfile is 80 % faster than sendfile (72.7 and 40.5 each second)",
        found,
    )
}

fn chunk_found(record: &Record) -> Finding {
    let speeds: Vec<_> = CHUNKS
        .iter()
        .filter_map(|(kib, _)| Some((*kib, record.median(&cold(LARGE, *kib), AIO, MEGABYTES.0)?)))
        .collect();
    let best = speeds
        .iter()
        .copied()
        .reduce(|one, other| if other.1 > one.1 { other } else { one });
    let found = best
        .zip(speeds.first().copied())
        .map(|((kib, speed), (least, lowest))| {
            let beside = ratio(record, &cold(LARGE, kib), AIO, SENDFILE)
                .map_or(String::new(), |beside| {
                    format!(", {} times sendfile", number(beside))
                });
            let held = kib == 512 && lowest < 0.7 * speed;
            let why = if held {
                ""
            } else {
                ": a disk without heads to move does not mind in which pieces it is read"
            };
            (
                held,
                format!(
                    "the best chunk has {kib} KiB ({} MB/s{beside}), {least} KiB {} MB/s{why}",
                    number(speed),
                    number(lowest)
                ),
            )
        });
    Finding::new(
        "files of 10 MB: chunks of 512 KiB are the best (58 MB/s), 256 KiB far behind (21), sendfile 30",
        found,
    )
}

fn one_found(record: &Record) -> Finding {
    let fall = |name: &str| {
        let speed = |clients| record.median(&cold(ONE, clients), name, MEGABYTES.0);
        Some(speed(10)? / speed(1)?)
    };
    let found = fall(BY_1024).map(|aio| {
        let sendfile = fall(SENDFILE).map_or(String::new(), |sendfile| format!(", sendfile {}", number(sendfile)));
        let lazy = fall("lazy").map_or(String::new(), |lazy| format!(", lazy {}", number(lazy)));
        let held = aio < 0.7;
        let why = match held {
            true => "direct reads fetch the file once for each client, reads through the page cache fetch it once for all",
            false => "there are no heads to move between the places that clients have come to",
        };
        (held, format!("10 clients beside one: linux-aio with 1 MiB {} times{sendfile}{lazy}; {why}", number(aio)))
    });
    Finding::new(
        "one large file: throughput falls with the clients (linux-aio 107 to 33 MB/s from 1 to 10)",
        found,
    )
}

fn stat_found(record: &Record) -> Finding {
    let case = cold(STAT, PARALLEL);
    let gains: Vec<_> = STATS[1..]
        .iter()
        .map(|row| row.0)
        .chain(["lazy"])
        .filter_map(|name| Some((name, ratio(record, &case, name, STATS[0].0)?)))
        .collect();
    let best = gains.iter().map(|gain| gain.1).reduce(f64::max);
    let found = best.map(|best| {
        let held = gains.iter().all(|gain| gain.1 >= 1.05);
        let words: Vec<_> = gains
            .iter()
            .map(|(name, gain)| format!("{name} {}", number(*gain)))
            .collect();
        let why = match (held, best >= 1.05) {
            (true, _) => {
                "open and stat of names that are not in memory wait for the disk, and several wait at once"
            }
            (false, true) => {
                "several looks at the disk at once gain, but a program beside the server costs a message there and back \
                 for each request, on processors that the server needs itself"
            }
            (false, false) => {
                "a look at the disk takes a fraction of a millisecond today, no longer than the message to somebody \
                 who looks instead"
            }
        };
        (
            held,
            format!("beside no acceleration: {}; {why}", words.join(", ")),
        )
    });
    Finding::new(
        "stat outside the main thread gains 13 to 19 % (12.07 MB/s without, 13.64 to 14.32 with)",
        found,
    )
}
