//! The final question of the thesis: would a kernel with lightweight threads, a fast scheduler and scheduler
//! activations do even better? Compares activations with other back ends, on the same work.

use crate::plot::Scale;
use crate::published::claim::{Claim, Holds, Why, geometric_mean, named};
use crate::published::figure::{Draw::Bars, Figure, Layout::CasesBySubject, Plot, Presentation};
use crate::published::figure::{Quantity, Section, filled};
use crate::record::{Cache, Case, Cell, Record};
use crate::sheet::{Finding, Sheet};

const ACTIVATIONS: &str = "activations";
const LAZY: &str = "lazy";
/// `threads` occurs several times in some records, by the number of helpers.
const THREADS: [&str; 2] = ["threads", "threads, 10 helpers"];
/// Smaller differences are within those of rounds.
const NOISE: f64 = 1.05;
const RELATIVE: Quantity = Quantity::value("relative", "time relative to lazy");

/// The cases of a comparison that are used: its name, the quantity, whether more of it is better, and the name of a
/// case.
type Used = (
    &'static str,
    &'static str,
    bool,
    &'static str,
    fn(&Case) -> bool,
);

#[rustfmt::skip]
const USED: [Used; 5] = [
    ("getpid", "million_s", false, "getpid", |_| true),
    ("open-stat", "each_us", false, "open-stat, {cache}, {at}", is_shown),
    ("open-stat-read", "each_us", false, "open-stat-read, {cache}, {at}", is_shown),
    ("rmw", "rate", true, "rmw {workload}, {at}", |case| matches!(case.at, Some(30.0 | 100.0))),
    ("clients", "rate", true, "clients, {cache}, {at}", |case| matches!(case.at, Some(10.0 | 100.0 | 1000.0))),
];

fn is_shown(case: &Case) -> bool {
    case.at == Some(100.0) || (case.cache == Cache::Warm && case.at == Some(1.0))
}

#[rustfmt::skip]
const SHOWN: Presentation = Presentation {
    published: &[],
    sections: &[Section {
        only: |_| true, group: "", case: "{workload}",
        figures: &[
            Figure::table(
                "The same work, time relative to lazy (less is better)", "times as long as lazy", CasesBySubject, &[RELATIVE]),
            Figure {
                title: "Activations compared with lazy, io_uring and helper threads",
                layout: CasesBySubject, quantities: &[RELATIVE],
                draw: Bars(Plot { file: "{name}", axis: RELATIVE.label, scale: Scale::Log,
                    ticks: &[0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0], reference: |_, _| Some(1.0), dashed: |_| false }),
            },
        ],
        foot: "The number behind a name is that of calls in flight, or clients.",
    }],
    claims: &[QUESTION],
};

const QUESTION: Claim = Claim {
    claim: "“Would it be possible to achieve even better performance with a kernel that would provide those features \
            [light threads, a fast scheduler, a good I/O scheduler] and also scheduler activations?”",
    of: &[LAZY, "uring", THREADS[0]],
    with: ACTIVATIONS,
    values: |claim, record| named(claim.of, |other| geometric_mean(&ratios(record, other))),
    holds: Holds::First(|mean| mean < 1.0 / NOISE),
    today: "{why}; in the geometric mean they take as long as others, times: {}.",
    why: Why::Of(|_, record, means| {
        let verdict = match means[0] {
            fast if fast < 1.0 / NOISE => "Yes: with activations the same kernel does better.",
            slow if slow > NOISE => {
                "No, not on a kernel that can say beforehand that a call would block: what activations save, a non-blocking \
                 attempt saves too, and what they add is a hand-off to another kernel thread for each call that blocks."
            }
            _ => {
                "It would do as well, and no better: a non-blocking attempt and io_uring have taken the place of activations."
            }
        };
        let ratios = ratios(record, LAZY);
        let faster = ratios.iter().filter(|ratio| **ratio < 1.0 / NOISE).count();
        let slower = ratios.iter().filter(|ratio| **ratio > NOISE).count();
        format!(
            "{verdict} On {} kinds of work, activations are faster than lazy in {faster}, slower in {slower}, as fast in the rest",
            ratios.len()
        )
    }),
};

/// Returns the times of activations relative to another strategy.
fn ratios(record: &Record, other: &str) -> Vec<f64> {
    let time = |case: &Case, name| record.median(case, name, RELATIVE.name);
    let cases = record.cases();
    let ratios = cases.iter();
    ratios
        .filter_map(|case| Some(time(case, ACTIVATIONS)? / time(case, other)?))
        .collect()
}

pub(super) fn sheet(records: &[Record]) -> Sheet {
    let title = "The question that the thesis ends with";
    let Some(first) = records.first() else {
        return Sheet {
            title: title.to_owned(),
            findings: vec![Finding::new(QUESTION.claim, None)],
            ..Sheet::default()
        };
    };
    let mut all = Record {
        benchmark: "closing-question".to_owned(),
        cells: Vec::new(),
        notes: Vec::new(),
        ..first.clone()
    };
    for record in records {
        for used in USED.iter().filter(|used| used.0 == record.benchmark) {
            all.cells.extend(relative_times(record, used));
        }
    }
    let mut sheet = Sheet {
        title: title.to_owned(),
        about: vec![
            "Figures are those of the comparisons below. Activations are the back end of this name: the call itself is \
             made, and a kernel thread carries the program on if it blocks, noticed by perf events or by an idle processor."
                .to_owned(),
        ],
        ..Sheet::default()
    };
    SHOWN.show(&mut sheet, &all);
    sheet
}

/// Returns the times of all strategies, for each case that has one for activations.
fn relative_times(record: &Record, &(_, quantity, is_rate, name, is_used): &Used) -> Vec<Cell> {
    let mut cells = Vec::new();
    for case in record.cases().into_iter().filter(is_used) {
        let time = |strategy: &str| {
            let value = record.median(&case, strategy, quantity)?;
            Some(if is_rate { 1.0 / value } else { value })
        };
        let threads = THREADS.iter().find_map(|name| time(name));
        let (Some(activations), Some(lazy)) = (time(ACTIVATIONS), time(LAZY)) else {
            continue;
        };
        let work = Case::new(&filled(name, &case), Cache::Warm);
        for (strategy, time) in [
            (ACTIVATIONS, Some(activations)),
            (LAZY, Some(lazy)),
            ("uring", time("uring")),
            (THREADS[0], threads),
        ] {
            let rounds = |time: f64| Ok([(RELATIVE.name, vec![time / lazy])].into());
            cells.extend(time.map(|time| Cell::new(&work, strategy, rounds(time))));
        }
    }
    cells
}
