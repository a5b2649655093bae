//! The report as text.

use crate::report::{Entry, Key, Means, Report};
use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

/// How many entries the text has.
const ROWS: usize = 20;

/// How many functions are named for each.
const FRAMES: usize = 6;

/// How to get the functions of a program of Node.js.
const NODE_FUNCTIONS: &str = "Node.js shows functions of JavaScript and their lines if it is started by \
    `laio stalls --node-functions -- node …`.";

/// Why a wait of a Go program may hold up nothing.
const GO_THREADS: &str = "Go gives the work of a thread that waits in a call to another thread: \
    such a wait holds up one goroutine.";

/// Returns the report as text.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let loops: usize = report.loops.iter().map(|(_, count)| count).sum();
    let names: Vec<&str> = report
        .loops
        .iter()
        .map(|(name, _)| name.as_str())
        .take(8)
        .collect();
    let _ = writeln!(
        text,
        "{loops} thread{} with an event loop{}{}, watched for {}.",
        if loops == 1 { "" } else { "s" },
        if names.is_empty() { "" } else { ": " },
        names.join(", "),
        length(report.lasted)
    );
    if report.entries.is_empty() {
        let _ = writeln!(
            text,
            "No wait of {} or more, apart from idle waits.",
            length(report.over)
        );
    } else {
        rows(&mut text, report);
    }
    for line in means(&report.means) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn rows(text: &mut String, report: &Report) {
    let _ = writeln!(
        text,
        "Waits of {} or more, apart from idle waits:\n",
        length(report.over)
    );
    let _ = writeln!(
        text,
        "  {:>9}  {:>7}  {:>9}  wait",
        "longest", "times", "total"
    );
    let mut shown = HashSet::new();
    for (key, entry) in report.entries.iter().take(ROWS) {
        row(text, key, entry);
        // The same place with another file needs no repetition.
        let names = entry.stack.iter().map(|frame| frame.name.as_str());
        let place: Vec<&str> = names.take(FRAMES).chain([key.call]).collect();
        if shown.insert(place) {
            place_of(text, entry);
        }
    }
    if report.entries.len() > ROWS {
        let _ = writeln!(
            text,
            "  … and {} more kinds of waits",
            report.entries.len() - ROWS
        );
    }
    text.push('\n');
}

fn row(text: &mut String, key: &Key, entry: &Entry) {
    let _ = write!(
        text,
        "  {:>9}  {:>7}  {:>9}  {}",
        length(entry.longest),
        entry.count,
        length(entry.total),
        format!("{} {}", key.call, key.subject).trim_end()
    );
    let unfinished = if entry.unfinished > 0 {
        ", still waiting"
    } else {
        ""
    };
    let _ = writeln!(text, "  [{}{unfinished}]", key.thread);
}

/// The functions in which an entry waits, and what laio would do.
fn place_of(text: &mut String, entry: &Entry) {
    let indent = " ".repeat(33);
    for frame in entry.stack.iter().take(FRAMES) {
        let _ = writeln!(text, "{indent}{}", frame.name);
    }
    if !entry.remedy.is_empty() {
        let _ = writeln!(text, "{indent}→ {}", entry.remedy);
    }
}

/// By which means the watch was made, and what it can have missed: a sentence in each line.
pub fn means(means: &Means) -> Vec<String> {
    let mut lines = Vec::new();
    let periods = means
        .periods
        .map_or_else(String::new, |(shortest, longest)| {
            format!(" every {} to {}", length(shortest), length(longest))
        });
    if means.with_records > 0 {
        lines.push(format!(
            "Means: context switches recorded by perf for {} thread(s), and looks at /proc{periods}.",
            means.with_records
        ));
    }
    if means.without_records > 0 || means.with_records == 0 {
        let why = means
            .refusal
            .as_ref()
            .map_or_else(String::new, |why| format!(" ({why})"));
        lines.push(format!(
            "Means: looks at /proc{periods}, without perf{why}. \
             Shorter waits are not seen; lengths are right to a look."
        ));
    }
    lines.push(format!(
        "The longest time between two looks was {}.",
        length(means.longest_gap)
    ));
    if means.missed > 0 {
        lines.push(format!(
            "{} wait(s) of {} together ended before a look: their calls are not known.",
            means.missed,
            length(means.missed_total)
        ));
    }
    let counted = [
        (means.lost, "records were dropped by the kernel"),
        (
            means.paused,
            "time(s) perf was off for a second, for a thread that got a processor 5000 times in a second",
        ),
        (
            means.unwatched,
            "threads or processes beyond the limits were not watched",
        ),
        (means.denied, "threads may not be examined by this user"),
    ];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    lines.extend(counted.map(|(count, what)| format!("{count} {what}.")));
    let notes = [
        (means.lacks_node_functions, NODE_FUNCTIONS),
        (means.has_go, GO_THREADS),
    ];
    let notes = notes.iter().filter(|(is_there, _)| *is_there);
    lines.extend(notes.map(|(_, note)| (*note).to_owned()));
    lines
}

/// A time in the unit that has three digits.
pub fn length(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    let (value, unit) = match nanoseconds {
        ..1e3 => return format!("{nanoseconds} ns"),
        ..1e6 => (nanoseconds / 1e3, "µs"),
        ..1e9 => (nanoseconds / 1e6, "ms"),
        _ => (nanoseconds / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let text = |nanoseconds| length(Duration::from_nanos(nanoseconds));
        assert_eq!(text(12), "12 ns");
        assert_eq!(text(1500), "1.50 µs");
        assert_eq!(text(14_000_000), "14.0 ms");
        assert_eq!(text(2_345_000_000), "2.35 s");
    }
}
