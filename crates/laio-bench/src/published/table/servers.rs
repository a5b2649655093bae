//! The comparisons of servers.

use super::{all, no_reference, not_dashed, published, table};
use crate::plot::Scale;
use crate::published::claim::{Claim, Holds::*, Why, case, named, relative};
use crate::published::figure::{Draw::*, Figure, Layout::*, Plot, Presentation, Quantity, Section};
use crate::published::reasons::{self, CPU, GROUP, IDLE, MEGABYTES, SERVER_SWITCHES};
use crate::published::servers::USUAL;
use crate::published::servers::clients;
use crate::published::servers::lighttpd::{
    AIO, BY_1024, BY_TCP, BY_THREADS, BY_UNIX, GTHREAD_AIO, LARGE, ONE, PARALLEL,
};
use crate::published::servers::lighttpd::{POSIX_AIO, SENDFILE, SMALL, STAT, UNACCELERATED};
use crate::record::Cache::Cold;

const REQUESTS: Quantity = Quantity::value("rate", "requests each second");
const RESPONSE: Quantity = Quantity::value("response_ms", "mean response time, ms");

/// A table of servers.
const fn servers(axis: &'static str, quantities: &'static [Quantity]) -> Figure {
    table("{group}: {quantity}", axis, quantities)
}

/// A plot of servers.
#[rustfmt::skip]
const fn curves(axis: &'static str, quantities: &'static [Quantity], scale: Scale, dashed: fn(&str) -> bool) -> Figure {
    Figure {
        title: "{group}", layout: SubjectsByCase, quantities,
        draw: Curves(Plot { file: "{name}-{workload}-{cache}-{quantity}", axis, scale, reference: no_reference, dashed, ticks: &[] }),
    }
}

/// The peak of one server is at least that of another in each group, for a reason.
#[rustfmt::skip]
const fn ahead(of: &'static [&'static str], with: &'static str, least: fn(f64) -> bool, claim: &'static str, why: &'static str) -> Claim {
    Claim {
        claim, of, with, values: reasons::over_peaks, holds: Lowest(least),
        today: "peak of {of} over that of {with}: {}; {why}", why: Why::Unless(why, reasons::why_behind),
    }
}

fn more(ratio: f64) -> bool {
    ratio >= 1.05
}

/// 5 % are the usual difference between servers on a shared machine.
fn alike(ratio: f64) -> bool {
    ratio >= 0.95
}

#[rustfmt::skip]
pub(in crate::published) const CLIENTS: Presentation = Presentation {
    published: &[],
    sections: &[Section {
        only: all, group: GROUP, case: "{at}",
        figures: &[
            servers("clients", &[MEGABYTES]),
            servers("clients", &[RESPONSE]),
            servers("clients", &[CPU]),
            servers("clients", &[SERVER_SWITCHES]),
            // In a plot with back ends, presets are dashed.
            curves("clients", &[MEGABYTES], Scale::Linear, clients::is_preset),
            curves("clients", &[RESPONSE], Scale::Log, clients::is_preset),
        ],
        foot: "2005: curves only; FreeBSD 5.3 and Linux 2.6.10, gigabit network, 245,820 requests, up to more than 1,000 clients",
    }],
    claims: &[
        ahead(&["thttpd-laio"], "thttpd-nb-b", more,
            "thttpd with LAIO has a higher throughput than thttpd with blocking disk I/O (figure 6)",
            "what waits for the disk no longer keeps other clients waiting; from memory nothing waits, and what is left is the cost \
             of looking"),
        ahead(&["ohttpd-networkonly"], "ohttpd-all", more,
            "ohttpd is faster if open and stat are made plainly (figure 8, anticipatory scheduler)",
            "open and stat rarely wait, and a helper costs two switches each time"),
        ahead(&["thttpd-laiogen"], "thttpd-laio", alike,
            "with light threads the eager thttpd-laiogen is as fast as thttpd-laio, or faster (figure 12)",
            "threads have become lighter, and what they are compared with does without them"),
        ahead(&[USUAL], "nginx", alike,
            "laio serve with one worker is not behind nginx with one worker (aim)",
            "while laio waits for the disk it serves other clients, which nginx's sendfile does not"),
        // Ten times the clients, ten times the response time: the server works at its limit, with no overhead for
        // more clients.
        Claim {
            claim: "response times grow in proportion to the clients (figures 7 to 13; eager servers did not)",
            of: &["lazy"], with: "",
            values: |claim, record| reasons::by_group(record, |cases| {
                let response = |clients| record.median(&cases[0].clone().at(clients), claim.of[0], RESPONSE.name);
                Some(response(1000)? / response(100)?)
            }),
            holds: Highest(|growth| growth <= 20.0),
            today: "{of}, times as long with 1000 clients as with 100: {}",
            why: Why::None,
        },
    ],
};

#[rustfmt::skip]
pub(in crate::published) const FLASH: Presentation = Presentation {
    published: &[],
    sections: &[Section {
        only: all, group: GROUP, case: "{at}",
        figures: &[
            servers("clients", &[MEGABYTES]),
            servers("clients", &[RESPONSE]),
            servers("clients", &[CPU]),
            curves("clients", &[MEGABYTES], Scale::Linear, not_dashed),
        ],
        foot: "2004: curves only; FreeBSD 5.2, Xeon of 2.4 GHz, 2 GB of memory, gigabit network",
    }],
    claims: &[
        ahead(&["flash-laio"], "flash-nb-b", alike, "flash-laio meets or exceeds flash-nb-b", "no client waits for another's disk"),
        ahead(&["flash-laio"], "flash-nb-aio", alike, "flash-laio meets or exceeds flash-nb-aio",
            "open and stat do not stall it either, and what is in memory is read at once"),
        ahead(&["flash-laio"], "flash-amped", alike, "flash-laio meets or exceeds flash-amped",
            "helpers are spared where nothing waits"),
    ],
};

#[rustfmt::skip]
pub(in crate::published) const LIGHTTPD: Presentation = Presentation {
    published: &[
        published(SENDFILE, Some(SMALL), "then", &[(100.0, 40.5)]),
        published(AIO, Some(SMALL), "then", &[(100.0, 72.7)]),
        published(UNACCELERATED, Some(STAT), "then", &[(100.0, 12.07)]),
        published(BY_TCP, Some(STAT), "then", &[(100.0, 13.64)]),
        published(BY_UNIX, Some(STAT), "then", &[(100.0, 13.86)]),
        published(BY_THREADS, Some(STAT), "then", &[(100.0, 14.32)]),
        published("2006: linux-aio-sendfile", Some(LARGE), "mb_s",
            &[(256.0, 21.0), (384.0, 54.0), (512.0, 58.0), (768.0, 55.0), (1024.0, 52.0)]),
        published("2006: linux-sendfile", Some(LARGE), "mb_s",
            &[(256.0, 30.0), (384.0, 30.0), (512.0, 30.0), (768.0, 30.0), (1024.0, 30.0)]),
        published("2006: linux-sendfile", Some(ONE), "mb_s", &[(1.0, 52.38), (2.0, 39.94), (5.0, 35.45)]),
        published("2006: 512 KiB", Some(ONE), "mb_s", &[(1.0, 89.85), (2.0, 94.52), (5.0, 31.81), (10.0, 25.22)]),
        published("2006: 1 MiB", Some(ONE), "mb_s", &[(1.0, 107.5), (2.0, 92.74), (5.0, 72.84), (10.0, 32.87)]),
    ],
    sections: &[
        Section {
            only: |case| case.workload == SMALL, group: GROUP, case: "{at}",
            figures: &[Figure::table("{group}", "", SubjectsByQuantity,
                &[Quantity::value("then", "2006, each s"), REQUESTS, MEGABYTES, RESPONSE, IDLE])],
            foot: "",
        },
        Section {
            only: |case| case.workload == STAT, group: GROUP, case: "{at}",
            figures: &[Figure::table("{group}", "", SubjectsByQuantity,
                &[Quantity::value("then", "2007, MB/s"), REQUESTS, MEGABYTES, RESPONSE, IDLE])],
            foot: "",
        },
        Section {
            only: |case| case.workload == LARGE, group: GROUP, case: "{at}",
            figures: &[servers("chunk, KiB", &[MEGABYTES]), curves("chunk, KiB", &[MEGABYTES], Scale::Linear, not_dashed)],
            foot: "",
        },
        Section {
            only: |case| case.workload == ONE, group: GROUP, case: "{at}",
            figures: &[servers("clients", &[MEGABYTES]), curves("clients", &[MEGABYTES], Scale::Linear, not_dashed)],
            foot: "2006, 2007: two ATA disks of 30 MB/s in a mirror, 1 GB of memory, 10 GB of files; Linux 2.6.16",
        },
    ],
    claims: &[
        Claim {
            claim: "files of 100 KiB, cold, 100 parallel: linux-aio-sendfile is 80 % faster than sendfile (72.7 and 40.5 each second)",
            of: &[AIO, POSIX_AIO, GTHREAD_AIO, "lazy"], with: SENDFILE,
            values: |claim, record| {
                let case = case(SMALL, Cold, PARALLEL);
                relative(record, MEGABYTES.name, &case, claim.of, claim.with)
            },
            holds: First(|gain| gain >= 1.2), today: "times as fast as {with}: {}{why}", why: Why::Of(reasons::idle_or_not),
        },
        Claim {
            claim: "files of 10 MB: chunks of 512 KiB are the best (58 MB/s), 256 KiB far behind (21), sendfile 30",
            of: &["256", "384", "512", "768", "1024"], with: AIO,
            values: |claim, record| named(claim.of, |kib| {
                record.median(&case(LARGE, Cold, kib.parse().ok()?), claim.with, MEGABYTES.name)
            }),
            holds: Of(|speeds| speeds.len() == 5 && speeds[0] < 0.7 * speeds[2] && speeds.iter().all(|one| *one <= speeds[2])),
            today: "MB/s by KiB in a chunk: {}{why}",
            why: Why::Either("", ": a disk without heads to move does not mind in which pieces it is read"),
        },
        Claim {
            claim: "one large file: throughput falls with the clients (linux-aio 107 to 33 MB/s from 1 to 10)",
            of: &[BY_1024, SENDFILE, "lazy"], with: "",
            values: |claim, record| named(claim.of, |name| {
                let speed = |clients| record.median(&case(ONE, Cold, clients), name, MEGABYTES.name);
                Some(speed(10)? / speed(1)?)
            }),
            holds: First(|fall| fall < 0.7),
            today: "MB/s with 10 clients over those with one: {}; {why}",
            why: Why::Either(
                "direct reads fetch the file once for each client, reads through the page cache fetch it once for all",
                "there are no heads to move between the places that clients have come to"),
        },
        Claim {
            claim: "stat outside the main thread gains 13 to 19 % (12.07 MB/s without, 13.64 to 14.32 with)",
            of: &[BY_TCP, BY_UNIX, BY_THREADS, "lazy"], with: UNACCELERATED,
            values: |claim, record| {
                let case = case(STAT, Cold, PARALLEL);
                relative(record, MEGABYTES.name, &case, claim.of, claim.with)
            },
            holds: Lowest(more), today: "times as fast as {with}: {}; {why}",
            why: Why::Of(|_, _, gains| match gains.iter().filter(|gain| more(**gain)).count() {
                all if all == gains.len() => {
                    "open and stat of names that are not in memory wait for the disk, and several wait at once"
                }
                0 => "a look at the disk takes a fraction of a millisecond today, no longer than a message to another program",
                _ => "several looks at the disk at once gain, but a program beside the server costs a message there and back for \
                    each request, on processors that the server needs itself",
            }.to_owned()),
        },
    ],
};
