//! The results as text: today's figures next to the published ones.

use super::subject::REFERENCE;
use super::workload::{DEPTHS, SIZES};
use super::{Workload, published};
use crate::record::{Cache, Case, Cell, Record};
use crate::statistics::Quartiles;
use crate::text::{Align, columns};

/// Returns all results as tables.
pub fn table(record: &Record) -> String {
    let mut text = format!("{}\n", record.machine.line());
    for (name, what) in &record.settings {
        text.push_str(&format!("{name}: {what}\n"));
    }
    for cache in [Cache::Cold, Cache::Warm] {
        for (depth, _) in DEPTHS {
            text.push_str(&published_trees(record, depth, cache));
        }
    }
    let mut seen = Vec::new();
    for cell in &record.cells {
        let case = (&cell.workload, cell.cache);
        if !seen.contains(&case) && !is_published(&cell.workload) {
            seen.push(case);
            text.push_str(&tree(record, &cell.workload, cell.cache));
        }
    }
    for note in &record.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    if !record.notes.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns the speed relative to GNU cp in the same rounds.
pub(super) fn speed(record: &Record, cell: &Cell) -> Option<Quartiles> {
    let reference = find(record, &cell.workload, cell.cache, REFERENCE)?;
    let wall = |cell: &Cell| cell.measured.get("wall_s").map(|wall| wall.rounds.clone());
    Quartiles::of_ratios(&wall(reference)?, &wall(cell)?)
}

/// Returns the processor time relative to GNU cp in the same rounds.
fn work(record: &Record, cell: &Cell) -> Option<f64> {
    let reference = find(record, &cell.workload, cell.cache, REFERENCE)?;
    let spent = |cell: &Cell| cell.measured.get("cpu_s").map(|cpu| cpu.rounds.clone());
    Some(Quartiles::of_ratios(&spent(cell)?, &spent(reference)?)?.median)
}

pub(super) fn find<'a>(
    record: &'a Record,
    workload: &str,
    cache: Cache,
    subject: &str,
) -> Option<&'a Cell> {
    record.cell(&Case::new(workload, cache), subject)
}

pub(crate) fn is_published(workload: &str) -> bool {
    let trees = Workload::table1(&SIZES);
    trees.iter().any(|tree| tree.name() == workload)
}

/// A part of table 1: the published seconds, today's seconds, and the speed relative to GNU cp.
fn published_trees(record: &Record, depth: u32, cache: Cache) -> String {
    let names = record.subjects();
    let name = |kib| Workload::Published { depth, kib }.name();
    let sizes = SIZES.iter().filter(|kib| {
        let cells = record.cells.iter();
        cells
            .into_iter()
            .any(|cell| cell.workload == name(**kib) && cell.cache == cache)
    });
    let sizes: Vec<u64> = sizes.copied().collect();
    let Some(first) = sizes.first() else {
        return String::new();
    };
    let shape = Workload::Published { depth, kib: *first }.shape();
    let shape = shape.expect("these trees are made");
    let mut text = format!(
        "\nTable 1, depth {depth}, {}: {} files in {} directories\n",
        cache.name(),
        shape.files(),
        shape.directories()
    );
    let short = names
        .iter()
        .map(|name| name.trim_start_matches("laio ").to_owned());
    let short: Vec<String> = short.collect();
    let published = |word: &str| published::PROGRAMS.map(|program| format!("{program} {word}"));
    for (what, seconds) in [("seconds", true), ("times as fast as cp", false)] {
        let mut head = vec![format!("KiB, {what}")];
        if cache == Cache::Cold {
            head.extend(published("2014"));
        }
        head.extend(short.iter().cloned());
        let mut lines = vec![head];
        for kib in &sizes {
            let mut line = vec![kib.to_string()];
            if let (Cache::Cold, Some(then)) = (cache, published::seconds(depth, *kib)) {
                line.extend(then.map(|time| match seconds {
                    true => format!("{time:.3}"),
                    false => format!("{:.2}", then[0] / time),
                }));
            }
            line.extend(names.iter().map(|subject| {
                let cell = find(record, &name(*kib), cache, subject);
                let value = cell.and_then(|cell| match seconds {
                    true => Some(format!("{:.4}", cell.measured.get("wall_s")?.median)),
                    false => Some(format!("{:.2}", speed(record, cell)?.median)),
                });
                value.unwrap_or_else(|| "-".to_owned())
            }));
            lines.push(line);
        }
        let align = vec![Align::Right; lines[0].len()];
        text.push_str(&columns(&align, &lines));
    }
    if cache == Cache::Cold {
        text.push_str(&format!("2014: {}\n", published::SOURCE));
    }
    text
}

/// The table of one tree, with a line for each subject.
fn tree(record: &Record, workload: &str, cache: Cache) -> String {
    let mut text = format!("\n{workload}, {}", cache.name());
    if let Some(what) = record.settings.get(workload) {
        text.push_str(&format!(": {what}"));
    }
    text.push('\n');
    let head = [
        "",
        "seconds",
        "middle half",
        "x cp",
        "CPU s",
        "CPU / cp",
        "memory MiB",
        "disk MiB",
        "",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for subject in record.subjects() {
        let Some(cell) = find(record, workload, cache, subject) else {
            continue;
        };
        lines.push(line(record, cell));
    }
    let mut align = vec![Align::Right; head.len()];
    (align[0], align[8]) = (Align::Left, Align::Left);
    text + &columns(&align, &lines)
}

fn line(record: &Record, cell: &Cell) -> Vec<String> {
    let median = |name: &str, digits: usize| {
        let found = cell.measured.get(name);
        found.map_or(String::new(), |found| format!("{:.digits$}", found.median))
    };
    let middle = cell.measured.get("wall_s").map_or(String::new(), |wall| {
        format!("{:.3} to {:.3}", wall.low_quartile, wall.high_quartile)
    });
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    vec![
        cell.subject.clone(),
        median("wall_s", 3),
        middle,
        ratio(speed(record, cell).map(|speed| speed.median)),
        median("cpu_s", 3),
        ratio(work(record, cell)),
        median("memory_mib", 1),
        median("disk_mib", 0),
        cell.left_out.clone().unwrap_or_default(),
    ]
}
