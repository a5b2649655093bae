//! The final question of the thesis: would a kernel with lightweight threads, a fast scheduler and scheduler
//! activations do even better? Compares activations with other back ends, on the same work.

use crate::plot::{Axis, Bar, Bars, Group, Scale};
use crate::record::{Cache, Case, Record};
use crate::sheet::{Finding, Picture, Sheet, Table, caption, cell, number};

const QUESTION: &str = "“Would it be possible to achieve even better performance with a kernel that would provide those features \
     [light threads, a fast scheduler, a good I/O scheduler] and also scheduler activations?”";
const ACTIVATIONS: &str = "activations";
/// The back ends with which activations are compared.
const OTHERS: [&str; 3] = ["lazy", "uring", "threads"];
/// Smaller differences are within those of rounds.
const NOISE: f64 = 1.05;

/// A workload, and the time of each strategy for it.
struct Work {
    name: String,
    /// The times of activations, then of the others.
    times: Vec<Option<f64>>,
}

impl Work {
    /// Returns the time relative to the first of the others.
    fn relative(&self, index: usize) -> Option<f64> {
        Some(self.times[index]? / self.times[1]?)
    }
}

pub(super) fn sheet(records: &[Record]) -> Sheet {
    let works = works(records);
    let mut sheet = Sheet {
        title: "The question that the thesis ends with".to_owned(),
        about: vec![
            "Figures are those of the comparisons below. Activations are the back end of this name: the call itself is \
             made, and a kernel thread carries the program on if it blocks, noticed by perf events or by an idle processor."
                .to_owned(),
        ],
        ..Sheet::default()
    };
    sheet.findings.push(answer(&works));
    if !works.is_empty() {
        sheet.tables.push(table(&works));
        sheet
            .pictures
            .extend(records.first().map(|record| picture(record, &works)));
    }
    sheet
}

fn strategies() -> impl Iterator<Item = &'static str> {
    std::iter::once(ACTIVATIONS).chain(OTHERS)
}

/// Returns all workloads with times for activations and lazy.
fn works(records: &[Record]) -> Vec<Work> {
    let mut works = Vec::new();
    for record in records {
        for (case, quantity, is_rate) in chosen(record) {
            let time = |strategy: &str| {
                let value = record.median(&case, strategy, quantity).or_else(|| {
                    // `threads` occurs several times, by the number of helpers.
                    record.median(&case, &format!("{strategy}, 10 helpers"), quantity)
                })?;
                Some(if is_rate { 1.0 / value } else { value })
            };
            let work = Work {
                name: name(record, &case),
                times: strategies().map(time).collect(),
            };
            if work.relative(0).is_some() {
                works.push(work);
            }
        }
    }
    works
}

/// Returns the cases of a comparison, their quantity, and whether more of it is better.
fn chosen(record: &Record) -> Vec<(Case, &'static str, bool)> {
    let name = record.benchmark.as_str();
    let mut cases = record.cases();
    match name {
        "getpid" => cases
            .into_iter()
            .map(|case| (case, "million_s", false))
            .collect(),
        "open-stat" | "open-stat-read" => {
            cases.retain(|case| {
                let at = case.at.unwrap_or(0.0) as usize;
                matches!(
                    (case.cache, at),
                    (Cache::Warm, 1 | 100) | (Cache::Cold, 100)
                )
            });
            cases
                .into_iter()
                .map(|case| (case, "each_us", false))
                .collect()
        }
        "rmw" => {
            cases.retain(|case| matches!(case.at, Some(30.0 | 100.0)));
            cases.into_iter().map(|case| (case, "rate", true)).collect()
        }
        "clients" => {
            cases.retain(|case| matches!(case.at, Some(10.0 | 100.0 | 1000.0)));
            cases.into_iter().map(|case| (case, "rate", true)).collect()
        }
        _ => Vec::new(),
    }
}

fn name(record: &Record, case: &Case) -> String {
    let at = case.at.map_or(String::new(), |at| format!(", {at}"));
    match record.benchmark.as_str() {
        "getpid" => "getpid".to_owned(),
        "rmw" => format!("rmw {}{at}", case.workload),
        "clients" => format!("clients, {}{at}", case.cache.name()),
        name => format!("{name}, {}{at}", case.cache.name()),
    }
}

fn table(works: &[Work]) -> Table {
    let mut head = vec!["times as long as lazy".to_owned()];
    head.extend(strategies().map(str::to_owned));
    let line = |work: &Work| {
        let cells = (0..work.times.len()).map(|index| cell(work.relative(index)));
        std::iter::once(work.name.clone()).chain(cells).collect()
    };
    Table {
        title: "The same work, time relative to lazy (less is better)".to_owned(),
        head,
        lines: works.iter().map(line).collect(),
        foot: "The number behind a name is that of calls in flight, or clients.".to_owned(),
    }
}

fn picture(record: &Record, works: &[Work]) -> Picture {
    let groups = works.iter().map(|work| Group {
        name: work.name.clone(),
        bars: (0..work.times.len())
            .filter_map(|series| {
                let value = work.relative(series)?;
                Some(Bar {
                    series,
                    value,
                    range: None,
                })
            })
            .collect(),
    });
    let plot = Bars {
        title: "Activations compared with lazy, io_uring and helper threads".to_owned(),
        caption: caption(record),
        x: Axis::new("time relative to lazy", Scale::Log)
            .at(&[0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0]),
        series: strategies().map(str::to_owned).collect(),
        groups: groups.collect(),
        reference: Some(1.0),
    };
    Picture {
        name: "closing-question".to_owned(),
        svg: plot.svg(),
    }
}

/// Returns the answer, from all workloads.
fn answer(works: &[Work]) -> Finding {
    if works.is_empty() {
        return Finding::new(QUESTION, None);
    }
    let ratios: Vec<f64> = works.iter().filter_map(|work| work.relative(0)).collect();
    let faster = ratios.iter().filter(|ratio| **ratio < 1.0 / NOISE).count();
    let slower = ratios.iter().filter(|ratio| **ratio > NOISE).count();
    let mean = mean(&ratios);
    let mut words = vec![format!(
        "On {} kinds of work, activations are faster than lazy in {faster}, slower in {slower}, as fast in the rest; in the \
         geometric mean they take {} times as long",
        works.len(),
        number(mean),
    )];
    for (index, other) in OTHERS.iter().enumerate().skip(1) {
        let relative: Vec<f64> = works
            .iter()
            .filter_map(|work| Some(work.times[0]? / work.times[index + 1]?))
            .collect();
        if !relative.is_empty() {
            words.push(format!(
                "{} times as long as {other}",
                number(self::mean(&relative))
            ));
        }
    }
    let verdict = match mean {
        fast if fast < 1.0 / NOISE => "Yes: with activations the same kernel does better.",
        slow if slow > NOISE => {
            "No, not on a kernel that can say beforehand that a call would block: what activations save, a non-blocking \
             attempt saves too, and what they add is a hand-off to another kernel thread for each call that blocks."
        }
        _ => {
            "It would do as well, and no better: a non-blocking attempt and io_uring have taken the place of activations."
        }
    };
    let held = mean < 1.0 / NOISE;
    Finding::new(
        QUESTION,
        Some((held, format!("{verdict} {}.", words.join(", ")))),
    )
}

/// Formats ratios.
fn mean(ratios: &[f64]) -> f64 {
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (logs / ratios.len() as f64).exp()
}
