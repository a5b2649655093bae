//! The common plots of the server comparisons: throughput and response time over an axis.

use crate::plot::{Axis, Lines, Scale, Series, Style};
use crate::record::{Case, Cell, Record};
use crate::sheet::{Picture, Table, caption, cell, number, series};

/// A quantity, and its name with the unit.
pub(super) type Quantity = (&'static str, &'static str);

pub(super) const MEGABYTES: Quantity = ("mb_s", "throughput, MB/s");
pub(super) const RATE: Quantity = ("rate", "requests each second");
pub(super) const RESPONSE: Quantity = ("response_ms", "mean response time, ms");
pub(super) const CPU: Quantity = (
    "cpu_us",
    "processor time of the server for each request, us",
);
pub(super) const SWITCHES: Quantity = (
    "switches",
    "context switches of the server for each request",
);

/// Returns workloads and caches, in the order in which they were measured.
pub(super) fn groups(record: &Record) -> Vec<Case> {
    let mut groups: Vec<Case> = Vec::new();
    for case in record.cases() {
        let group = Case { at: None, ..case };
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

pub(super) fn title(group: &Case) -> String {
    format!("{}, {} cache", group.workload, group.cache.name())
}

pub(super) fn cases(record: &Record, group: &Case) -> Vec<Case> {
    let mut cases = record.cases();
    cases.retain(|case| case.workload == group.workload && case.cache == group.cache);
    cases
}

fn names<'a>(record: &'a Record, group: &Case) -> Vec<&'a str> {
    let takes_part = |name: &&str| {
        let there = |cell: &&Cell| {
            cell.subject == **name && cell.workload == group.workload && cell.cache == group.cache
        };
        record.cells.iter().any(|cell| there(&cell))
    };
    record.subjects().into_iter().filter(takes_part).collect()
}

/// Returns the highest value over the axis.
pub(super) fn peak(record: &Record, group: &Case, name: &str, quantity: &str) -> Option<f64> {
    let values = cases(record, group).into_iter();
    values
        .filter_map(|case| record.median(&case, name, quantity))
        .reduce(f64::max)
}

/// Returns why one is behind another in a group, from the cost of a request in both with the most clients.
pub(super) fn why_behind(record: &Record, group: &Case, one: &str, other: &str) -> Option<String> {
    let case = cases(record, group).pop()?;
    let of = |name, quantity: Quantity| record.median(&case, name, quantity.0);
    let (own, theirs) = (of(one, CPU)?, of(other, CPU)?);
    let (switches, fewer) = (of(one, SWITCHES)?, of(other, SWITCHES)?);
    let idle = record.median(&case, one, "idle_percent")?;
    let why = if own > 1.1 * theirs {
        "its processor time for each request is what it is behind by"
    } else if idle > 20.0 {
        "it computes no more, the processors are idle: the disk is the limit, and turns differ by what it does meanwhile"
    } else {
        "it computes no more, and no processor is idle: it is for the client, and whatever else runs there, to decide"
    };
    let at = case
        .at
        .map_or_else(String::new, |at| format!(" with {at} clients"));
    Some(format!(
        "; {}{at}: {} and {} us of processor time, {} and {} context switches for each request, the machine idle {} %; {why}",
        title(group),
        number(own),
        number(theirs),
        number(switches),
        number(fewer),
        number(idle),
    ))
}

/// As [`why_behind`], in the group with the largest difference.
pub(super) fn why_behind_most(
    record: &Record,
    ratios: &[(Case, f64)],
    one: &str,
    other: &str,
) -> String {
    let worst = ratios.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let found = worst.and_then(|(group, _)| why_behind(record, group, one, other));
    found.unwrap_or_default()
}

pub(super) fn table(
    record: &Record,
    group: &Case,
    axis: &str,
    (quantity, label): Quantity,
) -> Table {
    let cases = cases(record, group);
    let mut head = vec![axis.to_owned()];
    head.extend(
        cases
            .iter()
            .map(|case| case.at.map_or_else(String::new, |at| at.to_string())),
    );
    let line = |name: &str| {
        let cells = cases
            .iter()
            .map(|case| cell(record.median(case, name, quantity)));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    Table {
        title: format!("{}: {label}", title(group)),
        head,
        lines: names(record, group).into_iter().map(line).collect(),
        foot: String::new(),
    }
}

/// If back ends and presets are in one plot, presets are dashed lines.
fn style(record: &Record, name: &str) -> Style {
    let is_preset = super::clients::PRESETS.contains(&name);
    match is_preset && record.benchmark == "clients" {
        true => Style::Dashed,
        false => Style::Line,
    }
}

pub(super) fn picture(
    record: &Record,
    group: &Case,
    axis: &str,
    (quantity, label): Quantity,
    then: Vec<Series>,
) -> Picture {
    let cases = cases(record, group);
    let series = names(record, group)
        .into_iter()
        .map(|name| series(record, &cases, name, quantity, style(record, name)));
    let ticks: Vec<f64> = cases.iter().filter_map(|case| case.at).collect();
    let scale = if quantity == RESPONSE.0 {
        Scale::Log
    } else {
        Scale::Linear
    };
    let plot = Lines {
        title: title(group),
        caption: caption(record),
        x: Axis::new(axis, Scale::Log).at(&ticks),
        y: Axis::new(label, scale),
        series: series
            .chain(then)
            .filter(|series| !series.points.is_empty())
            .collect(),
        reference: None,
    };
    let words = format!(
        "{}-{}-{}-{quantity}",
        record.benchmark,
        group.workload,
        group.cache.name()
    );
    Picture {
        name: words
            .replace(", ", "-")
            .replace([' ', '/'], "-")
            .to_lowercase(),
        svg: plot.svg(),
    }
}
