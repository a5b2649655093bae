//! The comparison of files in tokio programs.

use super::{at_one, not_dashed};
use crate::plot::Scale;
use crate::published::claim::{Claim, Holds::*, Values, Why, relative};
use crate::published::figure::{
    Draw::*, Figure, Layout::*, Plot, Presentation, Quantity, Section, Shown::*,
};
use crate::published::tokio_fs::{COLD, STD};
use crate::record::{Cache, Case, Record};

const EACH: Quantity = Quantity::value("each_us", "time of each, us");
const CPU: Quantity = Quantity::value("cpu_us", "processor time of each, us");
const TIMES: Quantity = Quantity::new("each_us", "times as long as std", Times(STD, STD));
const HALF: Quantity = Quantity::new(
    "each_us",
    "time of each, us, the middle half of the rounds",
    MiddleHalf,
);

/// The subjects in both runtimes.
const LAIO: &[&str] = &["laio-tokio current-thread", "laio-tokio multi-thread"];
const TOKIO: &[&str] = &["tokio current-thread", "tokio multi-thread"];

/// A table of cases.
const fn cases(quantities: &'static [Quantity]) -> Figure {
    Figure::table("{group}: {quantity}", "", CasesBySubject, quantities)
}

#[rustfmt::skip]
pub(super) const TOKIO_FS: Presentation = Presentation {
    published: &[],
    sections: &[
        Section {
            only: |case| case.cache == Cache::Warm, group: "Files in a tokio program, {cache} cache", case: "{workload}",
            figures: &[
                cases(&[TIMES]), cases(&[EACH]), cases(&[HALF]), cases(&[CPU]),
                Figure {
                    title: "{group}", layout: CasesBySubject, quantities: &[TIMES],
                    draw: Bars(Plot { file: "{name}-{cache}", axis: TIMES.label, scale: Scale::Log,
                        ticks: &[0.5, 1.0, 2.0, 5.0, 10.0, 100.0], reference: at_one, dashed: not_dashed }),
                },
            ],
            foot: "All on one processor. tokio::fs has no positioned reads and writes: pread and pwrite are spawn_blocking there",
        },
        Section {
            only: |case| case.cache == Cache::Cold, group: "Files in a tokio program, {cache} cache", case: "{workload}, {at} in flight",
            figures: &[
                cases(&[TIMES]), cases(&[EACH]), cases(&[HALF]), cases(&[CPU]),
                Figure {
                    title: "{group}", layout: CasesBySubject, quantities: &[EACH],
                    draw: Bars(Plot { file: "{name}-{cache}", axis: EACH.label, scale: Scale::Linear, ticks: &[],
                        reference: |record, cases| record.median(cases.first()?, STD, EACH.name), dashed: not_dashed }),
                },
            ],
            foot: "All on one processor. std reads one range after the other, laio-tokio by read_ranges, tokio by spawn_blocking, one \
                for each range",
        },
    ],
    claims: &[
        Claim {
            claim: "a cached pread of 64 KiB by laio-tokio takes at most 1.2 times as long as plainly (aim)",
            of: LAIO, with: "pread 64 KiB", values: times_std, holds: Highest(|ratio| ratio <= 1.2),
            today: "times as long as std: {}: a read that does not block is made by the thread that polls",
            why: Why::None,
        },
        Claim {
            claim: "a cached pread of 64 KiB by spawn_blocking takes at least twice as long as plainly",
            of: TOKIO, with: "pread 64 KiB", values: times_std, holds: Lowest(|ratio| ratio >= 2.0),
            today: "times as long as std: {}: each call costs a hand-over to a thread and back",
            why: Why::None,
        },
        Claim {
            claim: "a pwrite of 4 KiB by laio-tokio takes at most as long as by spawn_blocking (aim; 5 % are noise)",
            of: LAIO, with: TOKIO[0],
            values: |claim, record| relative(record, EACH.name, &Case::new("pwrite 4 KiB", Cache::Warm), claim.of, claim.with),
            holds: Highest(|ratio| ratio <= 1.05),
            today: "times as long as {with}: {}{why}",
            why: Why::Either("", ": a write that is not attempted, as on ext4, passes a driver and a helper, and spawn_blocking \
                has one thread fewer on the way"),
        },
        Claim {
            claim: "scattered cold ranges by read_ranges take at most as much processor time as by spawn_blocking (aim)",
            of: LAIO, with: TOKIO[0], values: cold_processor_time, holds: Highest(|ratio| ratio <= 1.0),
            today: "processor time, times that of {with}: {}: the ranges are one submission and one wakeup, and not a thread for each",
            why: Why::None,
        },
    ],
};

/// Returns the times of a work relative to those of plain calls.
fn times_std(claim: &Claim, record: &Record) -> Values {
    let case = Case::new(claim.with, Cache::Warm);
    relative(record, EACH.name, &case, claim.of, STD)
}

/// Returns the processor time relative to another subject's, with the most ranges in flight.
fn cold_processor_time(claim: &Claim, record: &Record) -> Values {
    let mut cases = record.cases();
    cases.retain(|case| case.workload == COLD);
    let most = cases.last();
    most.map_or(Values::new(), |case| {
        relative(record, CPU.name, case, claim.of, claim.with)
    })
}
