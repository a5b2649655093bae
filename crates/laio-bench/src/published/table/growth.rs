//! How cost grows with numbers.

use super::{no_reference, not_dashed};
use crate::plot::Scale;
use crate::published::claim::{Claim, Holds::*, Values, Why};
use crate::published::figure::{Draw::*, Figure, Layout::*, Plot, Presentation, Quantity, Section};
use crate::published::growth::{CONNECTIONS, COPY, FILES, FLIGHT, LISTING};
use crate::published::servers::USUAL;
use crate::record::{Cache, Record};

const CPU: Quantity = Quantity::value("cpu_us", "processor time of each, us");
const PER_CPU: Quantity = Quantity::value("per_cpu_s", "each processor second");

/// Two tables and a plot over this axis.
#[rustfmt::skip]
const fn figures(axis: &'static str) -> [Figure; 3] {
    [
        Figure::table("{group}: {quantity}", axis, SubjectsByCase, &[CPU]),
        Figure::table("{group}: number {quantity}", axis, SubjectsByCase, &[PER_CPU]),
        Figure {
            title: "{group}", layout: SubjectsByCase, quantities: &[CPU],
            draw: Curves(Plot { file: "{name}-{workload}", axis, scale: Scale::Log, reference: no_reference, dashed: not_dashed, ticks: &[] }),
        },
    ]
}

/// The cost of each at the largest number is at most a multiple of the least.
#[rustfmt::skip]
const fn flat(subject: &'static [&'static str], workload: &'static str, claim: &'static str) -> Claim {
    Claim {
        claim, of: subject, with: workload, values: over_least, holds: Highest(|ratio| ratio <= 2.0),
        today: "the cost at the largest number over the least: {}", why: Why::None,
    }
}

#[rustfmt::skip]
pub(super) const GROWTH: Presentation = Presentation {
    published: &[],
    sections: &[
        Section {
            only: |case| case.workload == CONNECTIONS, group: "A request for 1 KiB, by connections", case: "{at}",
            figures: &figures("connections, all of them active"), foot: "",
        },
        Section {
            only: |case| case.workload == FILES, group: "A request for 1 KiB, by distinct files", case: "{at}",
            figures: &figures("files, requested at random"), foot: "64 connections",
        },
        Section {
            only: |case| case.workload == LISTING, group: "A listed entry, by entries of the directory", case: "{at}",
            figures: &figures("entries of the directory"), foot: "",
        },
        Section {
            only: |case| case.workload == COPY, group: "A copied file of 1 KiB, by files", case: "{at}",
            figures: &figures("files of the tree"), foot: "1000 files in each directory",
        },
        Section {
            only: |case| case.workload == FLIGHT, group: "A completion, by operations in flight", case: "{at}",
            figures: &figures("operations in flight"), foot: "Reads of an eventfd. More than 10,000 share descriptors, and queue there",
        },
    ],
    claims: &[
        flat(&[USUAL], CONNECTIONS, "a request over the most connections takes at most twice the least processor time (aim)"),
        flat(&[USUAL], FILES, "a request for one of the most files takes at most twice the least processor time (aim)"),
        flat(&[USUAL], LISTING, "an entry of the largest directory takes at most twice the least processor time: n log n (aim)"),
        flat(&["laio cp -r"], COPY, "a file of the largest tree takes at most twice the least processor time (aim)"),
        flat(&["lazy", "lazy-epoll", "uring"], FLIGHT, "a completion among the most operations takes at most twice the least processor time (aim)"),
    ],
};

/// Returns the cost at the largest number, relative to the least cost.
fn over_least(claim: &Claim, record: &Record) -> Values {
    let ratio = |subject: &&str| {
        let mut costs = Vec::new();
        for case in record.cases() {
            if case.workload == claim.with && case.cache == Cache::Warm {
                costs.extend(record.median(&case, subject, CPU.name));
            }
        }
        let least = costs.iter().copied().reduce(f64::min)?;
        Some(((*subject).to_owned(), costs.last()? / least))
    };
    claim.of.iter().filter_map(ratio).collect()
}
