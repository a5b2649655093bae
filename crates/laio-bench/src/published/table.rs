//! The table of the published comparisons: what each runs, the published values, what is shown, and the claims.
//!
//! A case is a workload with a cache state and a position on an axis (calls in flight, clients). In templates
//! `{workload}`, `{cache}` and `{at}` stand for the parts of a case.

mod growth;
mod servers;
mod tokio;

use super::claim::{
    Claim, Holds::*, Why, all_named, case, geometric_mean, medians, named, peak, relative,
};
use super::figure::{
    Draw::*, Figure, Layout::*, Line, Plot, Presentation, Quantity, Section, Shown::*, filled,
};
use super::reasons::{self, RATE, SWITCHES};
use super::run::Run;
use super::servers::{clients, flash, lighttpd};
use super::{Comparison, copies, files, getpid, growth as growing, rmw, share, tokio_fs};
use crate::error::Error;
use crate::plot::Scale;
use crate::record::Cache::{Cold, Warm};
use crate::record::{Cache, Case, Record};
use crate::strategy::{PLAIN, TRUSTING};

/// All comparisons, in the order of the publications.
#[rustfmt::skip]
pub(super) const COMPARISONS: &[Comparison] = &[
    comparison("getpid", "a million getpid, plainly and through every back end (thesis, table 2)", (7, 21), getpid::run, GETPID),
    comparison("open-stat", "open and stat of the files of a trace (thesis, table 3)", (3, 5), files::run, OPEN_STAT),
    comparison("open-stat-read", "open, stat and read of the files of a trace (thesis, table 4)", (3, 5), files::run, OPEN_STAT_READ),
    comparison("rmw", "read, modify and write back blocks of a file with O_DIRECT (Yoo, figures 3 to 6)", (3, 5), rmw::run, RMW),
    comparison("lazy-share", "the share of potentially blocking calls that do not block (LAIO, why be lazy)", (3, 5), share::run,
        LAZY_SHARE),
    comparison("clients", "servers by the number of their clients (thesis, figures 6 to 13)", (1, 3), clients::run, servers::CLIENTS),
    comparison("flash", "one server with four kinds of disk I/O (LAIO, large and small workload)", (2, 5), flash::run, servers::FLASH),
    comparison("lighttpd", "asynchronous bodies, chunks, and stat (lighttpd 1.5)", (3, 5), lighttpd::run, servers::LIGHTTPD),
    Comparison {
        view: copies::view,
        ..comparison("cp", "recursive copies (Parikh and Surendran, table 1)", (3, 5), copies::run, CP)
    },
    comparison("tokio", "files in a tokio program: laio-tokio, tokio::fs, and plain calls in the task (aims)", (5, 15), tokio_fs::run,
        tokio::TOKIO_FS),
    comparison("growth", "what each request, entry, file and operation costs as their number grows (aims)", (1, 3), growing::run,
        growth::GROWTH),
];

const fn comparison(
    name: &'static str,
    what: &'static str,
    rounds: (u32, u32),
    run: fn(&mut Run<'_>) -> Result<(), Error>,
    shown: Presentation,
) -> Comparison {
    Comparison {
        name,
        what,
        rounds,
        run,
        view: Record::clone,
        shown,
    }
}

const fn all(_: &Case) -> bool {
    true
}

fn at_one(_: &Record, _: &[Case]) -> Option<f64> {
    Some(1.0)
}

fn no_reference(_: &Record, _: &[Case]) -> Option<f64> {
    None
}

const fn not_dashed(_: &str) -> bool {
    false
}

/// Published values, for every cache state.
const fn published(
    subject: &'static str,
    workload: Option<&'static str>,
    quantity: &'static str,
    values: &'static [(f64, f64)],
) -> Line {
    Line {
        subject,
        workload,
        cache: None,
        quantity,
        values,
    }
}

/// Published values for one cache state.
const fn published_with(
    cache: Cache,
    subject: &'static str,
    workload: Option<&'static str>,
    quantity: &'static str,
    values: &'static [(f64, f64)],
) -> Line {
    Line {
        cache: Some(cache),
        ..published(subject, workload, quantity, values)
    }
}

/// A table of subjects by case.
const fn table(title: &'static str, head: &'static str, quantities: &'static [Quantity]) -> Figure {
    Figure::table(title, head, SubjectsByCase, quantities)
}

#[rustfmt::skip]
const GETPID: Presentation = Presentation {
    published: &[
        published("direct", None, "then_s", &[(0.0, 0.80)]),
        published("threads, 1 helper", None, "then_s", &[(0.0, 6.12)]),
        published("threads, 10 helpers", None, "then_s", &[(0.0, 6.10)]),
        published("threads, 100 helpers", None, "then_s", &[(0.0, 6.12)]),
    ],
    sections: &[Section {
        only: all, group: "", case: "{workload}",
        figures: &[
            Figure::table("A million getpid, seconds, and times as long as plainly", "a million calls", SubjectsByQuantity, &[
                Quantity::value("then_s", "2005, s"),
                Quantity::new("then_s", "x direct", Times("direct", "direct")),
                Quantity::value("million_s", "today, s"),
                Quantity::value("ratio", "x direct"),
            ]),
            Figure {
                title: "getpid through each back end", layout: SubjectsByQuantity,
                quantities: &[Quantity::value("ratio", "today"), Quantity::new("then_s", "2005", Times("direct", "direct"))],
                draw: Bars(Plot { file: "{name}", axis: "times as long as the plain call", scale: Scale::Log,
                    ticks: &[0.5, 1.0, 10.0, 100.0, 1000.0], reference: at_one, dashed: not_dashed }),
            },
        ],
        foot: "2005: liblaiogen on Linux 2.6.10, Pentium 4 Xeon of 2.4 GHz; its helpers are one for each call in flight",
    }],
    // The ratios were measured in each turn, with plain calls in between.
    claims: &[
        Claim {
            claim: "eager helpers take 7.6 times as long as the plain call, however many there are",
            of: &["threads, 1 helper", "threads, 10 helpers", "threads, 100 helpers"], with: "direct",
            values: |claim, record| medians(record, &Case::new("getpid", Warm), claim.of, "ratio"),
            holds: Lowest(|ratio| ratio >= 2.0),
            today: "times as long as the plain call: {}: handing a call to another thread and back costs two switches and, where \
                the other processor sleeps, waking it; the call itself has become faster than that has",
            why: Why::None,
        },
        Claim {
            claim: "lazy takes at most 1.05 times as long as the plain call",
            of: &["lazy", "uring", "hybrid", "activations"], with: "direct",
            values: |claim, record| medians(record, &Case::new("getpid", Warm), claim.of, "ratio"),
            holds: First(|ratio| ratio <= 1.05),
            today: "times as long as the plain call: {}: a call that cannot block is made at once, and only looked up in the table \
                before",
            why: Why::None,
        },
    ],
};

const EACH: Quantity = Quantity::value("each_us", "time for each request, us");

/// Returns the microseconds for each of the published requests.
const fn us(seconds: f64) -> f64 {
    seconds * 1e6 / 245_820.0
}

/// Seconds with 1, 10 and 100 threads or helpers.
macro_rules! seconds {
    ($cache:expr, $subject:expr, $one:literal, $ten:literal, $hundred:literal) => {
        published_with(
            $cache,
            $subject,
            None,
            "each_us",
            &[(1.0, us($one)), (10.0, us($ten)), (100.0, us($hundred))],
        )
    };
}

#[rustfmt::skip]
const FILES: &[Section] = &[
    Section {
        only: all, group: "", case: "{cache} {at}",
        figures: &[
            table("Microseconds for each request, by cache and threads or requests in flight", "", &[EACH]),
            table("Times as long as plain threads, as many of them", "", &[
                Quantity::new("each_us", "", Times(PLAIN, "2005: threads")),
            ]),
            table("Context switches for each request", "", &[Quantity::value("switches", "")]),
        ],
        foot: "2005: 245,820 requests for 1.1 GB of files, Linux 2.6.10 with the anticipatory scheduler, Pentium 4 Xeon, ATA disk, \
            1 GB of memory",
    },
    Section {
        only: all, group: "{cache} cache", case: "{at} in flight",
        figures: &[Figure {
            title: "{name}, {group}", layout: SubjectsByCase, quantities: &[EACH],
            draw: Bars(Plot { file: "{name}-{cache}", axis: EACH.label, scale: Scale::Linear, ticks: &[],
                reference: |record, cases| record.median(cases.first()?, PLAIN, EACH.name), dashed: not_dashed }),
        }],
        foot: "",
    },
];

#[rustfmt::skip]
const OPEN_STAT: Presentation = Presentation {
    published: &[
        seconds!(Cold, "2005: threads", 6.12, 5.54, 5.06),
        seconds!(Cold, "2005: liblaiogen", 12.47, 11.66, 11.03),
        seconds!(Warm, "2005: threads", 2.09, 1.88, 1.92),
        seconds!(Warm, "2005: liblaiogen", 8.41, 6.0, 7.94),
    ],
    sections: FILES,
    claims: &[
        Claim {
            claim: "warm, with one in flight, liblaiogen takes 4.0 times as long as a plain thread (8.41 and 2.09 s)",
            of: &["1", "10", "100"], with: PLAIN,
            values: |claim, record| named(claim.of, |at| {
                let case = case("open-stat", Warm, at.parse().ok()?);
                Some(record.ratio((&case, "threads"), (&case, PLAIN), EACH.name)?.median)
            }),
            holds: First(|ratio| ratio >= 2.0),
            today: "threads, times as long as plain threads, by the number in flight: {}: each call still costs two switches, \
                whether it would have blocked or not",
            why: Why::None,
        },
        Claim {
            claim: "warm, with one in flight, lazy takes at most 1.15 times as long as a plain thread (aim)",
            of: &["lazy", TRUSTING], with: PLAIN,
            values: |claim, record| {
                let case = case("open-stat", Warm, 1);
                relative(record, EACH.name, &case, claim.of, PLAIN)
            },
            holds: Lowest(|ratio| ratio <= 1.15),
            today: "times as long as a plain thread: {}: open makes two calls more, which exclude that a FIFO makes it wait; the \
                promise that no name leads to a FIFO (lazy-trusting) spares them",
            why: Why::None,
        },
    ],
};

#[rustfmt::skip]
const OPEN_STAT_READ: Presentation = Presentation {
    published: &[
        seconds!(Cold, "2005: threads", 117.5, 125.9, 111.9),
        seconds!(Cold, "2005: liblaiogen", 126.9, 102.1, 82.21),
        seconds!(Warm, "2005: threads", 49.41, 46.82, 54.08),
        seconds!(Warm, "2005: liblaiogen", 62.83, 50.81, 38.88),
    ],
    sections: FILES,
    claims: &[
        Claim {
            claim: "cold, liblaiogen gains from 1 to 100 helpers (126.9 to 82.2 s), plain threads do not (117.5 to 111.9 s)",
            of: &["threads", PLAIN], with: "",
            values: |claim, record| all_named(claim.of, |subject| reasons::cold(record, (subject, 1), (subject, 100))),
            holds: Of(|gains| gains[0] >= 1.2 && gains[1] < 1.2),
            today: "times as fast with 100 in flight as with 1: {}: {why}",
            why: Why::Of(|_, _, gains| if gains.last().is_some_and(|plain| *plain >= 1.2) {
                "today's disk does many requests at a time, and plain threads keep it busy as well as helpers do"
            } else {
                "more in flight help only a program that does not wait for one after the other"
            }.to_owned()),
        },
        Claim {
            claim: "cold, lazy with 100 in flight is at least 1.5 times as fast as one plain thread (aim)",
            of: &["lazy", "uring", "threads", "linux-aio", "activations"], with: PLAIN,
            values: |claim, record| named(claim.of, |subject| reasons::cold(record, (PLAIN, 1), (subject, 100))),
            holds: First(|gain| gain >= 1.5),
            today: "times as fast: {}: what waits for the disk is in flight together",
            why: Why::None,
        },
        Claim {
            claim: "cold, lazy with 100 in flight is not behind 100 plain threads (aim; 5 % are noise)",
            of: &["lazy"], with: PLAIN,
            values: |claim, record| named(claim.of, |subject| reasons::cold(record, (subject, 100), (PLAIN, 100))),
            // The time of a disk differs more from turn to turn.
            holds: First(|ratio| ratio <= 1.05),
            today: "times as long as 100 plain threads: {}{why}",
            why: Why::Of(reasons::switches_of_reads),
        },
    ],
};

#[rustfmt::skip]
const RMW: Presentation = Presentation {
    published: &[],
    sections: &[Section {
        only: all, group: "Application {workload}", case: "{at}",
        figures: &[
            Figure::table("{group}: peaks", "", SubjectsByQuantity, &[
                Quantity::value("rate", "peak, each s"),
                Quantity::new("rate", "clients", Position),
                Quantity::new("rate", "x threads", TimesPeak("threads")),
                Quantity::value("switches", "switches each"),
                Quantity::value("cpu_us", "CPU us each"),
            ]),
            table("{group}: {quantity}, by clients", "", &[RATE]),
            table("{group}: {quantity}, by clients", "", &[SWITCHES]),
            blocks(&[RATE], Scale::Linear),
            // Values from some hundredths to some tens need a logarithmic axis.
            blocks(&[SWITCHES], Scale::Log),
        ],
        foot: "1995: Solaris 2, two commercial programs; the library approach is libaio with up to 50 kernel threads, \
            the kernel approach kaio. The source gives ratios only: peak 10 % (one processor) and 12 % (two) higher for A, 6 % \
            (two) to 30 % (14) for B; context switches 4 : 1",
    }],
    claims: &[
        ahead_of_threads("A, 1 processor", "A, one processor: the kernel's peak is 10 % above the library's"),
        ahead_of_threads("A, 2 processors", "A, two processors: the kernel's peak is 12 % above the library's"),
        ahead_of_threads("B, 2 processors", "B, two processors: the kernel's peak is 6 % above the library's"),
        Claim {
            claim: "context switches of the library's and the kernel's way are 4 : 1",
            of: KERNEL, with: "threads", values: reasons::fewer_switches, holds: Lowest(|ratio| ratio >= 4.0),
            today: "those of threads over those of others, application A on all processors, with 30 clients or the most: {}: what the \
                kernel keeps in flight wakes one thread for many completions; a helper sleeps in each call and wakes the caller",
            why: Why::None,
        },
        aim(&["linux-aio"], "linux-aio is at least 10 % ahead of threads, with at most a quarter of the context switches (aim)"),
        aim(&["uring"], "uring is at least 10 % ahead of threads, with at most a quarter of the context switches (aim)"),
        aim(&["lazy"], "lazy is at least 10 % ahead of threads, with at most a quarter of the context switches (aim)"),
    ],
};

/// The kernel-based strategies of today.
const KERNEL: &[&str] = &["linux-aio", "uring", "lazy"];

#[rustfmt::skip]
const fn blocks(quantities: &'static [Quantity], scale: Scale) -> Figure {
    Figure {
        title: "Read, modify, write back: application {workload}", layout: SubjectsByCase, quantities,
        draw: Curves(Plot { file: "{name}-{workload}-{quantity}", axis: "clients", scale, reference: no_reference,
            dashed: |subject| subject.starts_with("fio"), ticks: &[] }),
    }
}

/// The best of the kernel's strategies compared with the library: peaks in one workload.
#[rustfmt::skip]
const fn ahead_of_threads(workload: &'static str, claim: &'static str) -> Claim {
    Claim {
        claim, of: KERNEL, with: workload,
        values: |claim, record| {
            let mut cases = record.cases();
            cases.retain(|case| case.workload == claim.with);
            let rate = |subject: &str| Some(peak(record, &cases, subject, RATE.name)?.1);
            named(claim.of, |subject| Some(rate(subject)? / rate("threads")?))
        },
        holds: Highest(|ratio| ratio > 1.02), today: "peaks over that of threads: {}", why: Why::None,
    }
}

/// Peaks and context switches in each workload, both relative to those of the library.
#[rustfmt::skip]
const fn aim(of: &'static [&'static str], claim: &'static str) -> Claim {
    Claim {
        claim, of, with: "threads", values: reasons::peaks_and_switches,
        holds: Of(|parts| parts.chunks(2).all(|part| !reasons::misses(part[0], part[1]))),
        today: "times those of threads: {}{why}", why: Why::Of(reasons::why_not_everywhere),
    }
}

const SHARE: Quantity = Quantity::value("share", "share of the calls, %");

#[rustfmt::skip]
const LAZY_SHARE: Presentation = Presentation {
    published: &[],
    sections: &[
        Section {
            only: share::is_trace, group: "", case: "{workload}, {cache}",
            figures: &[
                table("Potentially blocking calls that did not block, in %", "% that did not block", &[SHARE]),
                Figure {
                    title: "Potentially blocking calls that did not block", layout: SubjectsByCase, quantities: &[SHARE],
                    draw: Bars(Plot { file: "{name}", axis: SHARE.label, scale: Scale::Linear,
                        ticks: &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0], reference: |_, _| Some(73.0), dashed: not_dashed }),
                },
            ],
            foot: "2004: 73 to 86 % in the Flash web server, Rice and Berkeley workloads, FreeBSD 5.2. close, lseek, fcntl are not \
                counted",
        },
        Section {
            only: |case| !share::is_trace(case), group: "Calls that do not block", case: "{workload}",
            figures: &[
                Figure::table("{group}: ns each", "", CasesBySubject, &[Quantity::value("ns", "")]),
                Figure::table("{group}: times as long as lazy", "", CasesBySubject, &[
                    Quantity::new("ns", "", Times("lazy", "lazy")),
                ]),
            ],
            foot: "2004: asynchronous I/O (AIO) takes 3.2 times as long as LAIO. posix-aio, linux-aio: streams are tried first, and \
                so are not slower",
        },
    ],
    claims: &[
        Claim {
            claim: "73 to 86 % of the potentially blocking operations do not block",
            of: &["all"], with: "",
            values: |claim, record| {
                let share = |case: &Case| record.median(case, claim.of[0], SHARE.name);
                let cases = record.cases().into_iter().filter(share::is_trace);
                cases.filter_map(|case| Some((filled("{workload}, {cache}", &case), share(&case)?))).collect()
            },
            holds: Lowest(|share| share >= 50.0),
            today: "%: {}: with all in memory nothing blocks; from a cold cache each file's first open and read do, later ones of \
                the same file do not",
            why: Why::None,
        },
        Claim {
            claim: "AIO takes 3.2 times as long as LAIO for operations that do not block",
            of: &["posix-aio", "linux-aio", "uring", "threads"], with: "lazy",
            values: |claim, record| {
                let case = Case::new(share::ROWS[0], Warm);
                relative(record, "ns", &case, claim.of, claim.with)
            },
            holds: First(|ratio| ratio >= 2.0),
            today: "a read of 4 KiB from memory, times as long as lazy: {}; io_uring also tries first, in the kernel, but its round \
                costs more than the read",
            why: Why::None,
        },
    ],
};

const SPEED: Quantity = Quantity::new(
    "wall_s",
    "times as fast as GNU cp",
    TimesAsFast("cp", "2014: cp"),
);

/// Seconds with files of 4, 8, 16, 32 and 64 KiB.
macro_rules! sizes {
    ($depth:literal, $subject:literal, $a:literal, $b:literal, $c:literal, $d:literal, $e:literal) => {
        published_with(
            Cold,
            $subject,
            Some($depth),
            "wall_s",
            &[(4.0, $a), (8.0, $b), (16.0, $c), (32.0, $d), (64.0, $e)],
        )
    };
}

#[rustfmt::skip]
const CP: Presentation = Presentation {
    // GNU cp; kernel AIO with O_DIRECT and without; POSIX AIO.
    published: &[
        sizes!("depth 2", "2014: cp",    0.194, 0.259, 0.406, 0.364, 0.377),
        sizes!("depth 2", "2014: k-D",   0.127, 0.267, 0.362, 0.527, 0.750),
        sizes!("depth 2", "2014: k-N",   0.181, 0.233, 0.332, 0.345, 0.4),
        sizes!("depth 2", "2014: posix", 0.171, 0.190, 0.205, 0.258, 0.267),
        sizes!("depth 4", "2014: cp",    0.253, 0.514, 0.441, 0.465, 0.632),
        sizes!("depth 4", "2014: k-D",   0.315, 0.599, 0.687, 0.889, 1.45),
        sizes!("depth 4", "2014: k-N",   0.266, 0.417, 0.502, 0.511, 0.677),
        sizes!("depth 4", "2014: posix", 0.265, 0.366, 0.329, 0.332, 0.440),
        sizes!("depth 8", "2014: cp",    1.14, 1.33, 1.78, 3.61, 3.72),
        sizes!("depth 8", "2014: k-D",   2.88, 3.12, 4.47, 7.74, 10.3),
        sizes!("depth 8", "2014: k-N",   0.798, 1.20, 1.31, 3.65, 3.59),
        sizes!("depth 8", "2014: posix", 0.878, 1.35, 1.14, 2.81, 3.39),
    ],
    sections: &[
        Section {
            only: |case| case.at.is_some(), group: "Table 1, {workload}, {cache}", case: "{at}",
            figures: &[
                Figure::table("{group}: seconds", "KiB", CasesBySubject, &[Quantity::value("wall_s", "seconds")]),
                Figure::table("{group}: {quantity}", "KiB", CasesBySubject, &[SPEED]),
                Figure {
                    title: "cp -r of small trees, {workload}, {cache} cache", layout: SubjectsByCase, quantities: &[SPEED],
                    draw: Curves(Plot { file: "{name}-table1-{workload}-{cache}", axis: "size of each file, KiB", scale: Scale::Log,
                        reference: at_one, dashed: not_dashed, ticks: &[] }),
                },
            ],
            foot: "2014: M. Parikh, S. Surendran: Implementing `cp -r` with Linux AIO; Linux 3.5, ext4 on a rotating disk, cold cache, \
                mean of three runs",
        },
        Section {
            only: |case| case.at.is_none(), group: "{workload}, {cache}", case: "{workload}",
            figures: &[Figure::table("{group}", "", SubjectsByQuantity, &[
                Quantity::value("wall_s", "seconds"),
                Quantity::new("wall_s", "middle half", MiddleHalf),
                Quantity::new("wall_s", "x cp", SPEED.shown),
                Quantity::value("cpu_s", "CPU s"),
                Quantity::new("cpu_s", "CPU / cp", Times("cp", "cp")),
                Quantity::value("memory_mib", "memory MiB"),
                Quantity::value("disk_mib", "disk MiB"),
            ])],
            foot: "",
        },
        Section {
            only: |case| case.at.is_none(), group: "Copying trees, {cache} cache", case: "{workload}",
            figures: &[Figure {
                title: "{group}", layout: CasesBySubject, quantities: &[SPEED],
                draw: Bars(Plot { file: "{name}-trees-{cache}", axis: SPEED.label, scale: Scale::Linear, ticks: &[],
                    reference: at_one, dashed: not_dashed }),
            }],
            foot: "",
        },
    ],
    claims: &[Claim {
        claim: "the best asynchronous copy is 8 to 23 % faster than cp; the one with O_DIRECT is the slowest",
        of: &["laio"], with: "cp",
        values: |claim, record| {
            let mut cases = record.cases();
            cases.retain(|case| case.cache == Cold && case.at.is_some());
            let mut ours = record.subjects();
            ours.retain(|name| name.starts_with(claim.of[0]));
            named(&ours, |name| {
                let speed = |case| Some(record.ratio((case, claim.with), (case, name), SPEED.name)?.median);
                geometric_mean(&cases.iter().filter_map(speed).collect::<Vec<_>>())
            })
        },
        holds: Highest(|speed| speed >= 1.08),
        today: "times as fast as GNU cp on the trees of table 1, cold, mean: {}: reads of many files are in flight together, and a \
            worker for each processor makes names and inodes, which GNU cp does one after the other",
        why: Why::None,
    }],
};
