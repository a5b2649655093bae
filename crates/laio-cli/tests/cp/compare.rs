//! Runs a scenario with both programs and reports every difference.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use laio_testing::Skip;
use libtest_mimic::{Completion, Failed};

use crate::Verdict;
use crate::case::Case;
use crate::programs::{self, Side};
use crate::run::{self, Ran};
use crate::snapshot::{self, Entry, Read, Tree};
use crate::world::World;

/// The accepted difference in the disk space of a sparse copy: the programs look for zeros in
/// blocks of different sizes.
const SPARSE_TOLERANCE: u64 = 256 << 10;

static WORLDS: AtomicU32 = AtomicU32::new(0);

/// Runs one scenario and returns its verdict.
pub(crate) fn check(case: &Case) -> Verdict {
    match compare(case) {
        Ok(report) if report.is_empty() => Ok(Completion::Completed),
        Ok(report) => Err(Failed::from(report)),
        Err(skip) => skipped(&case.name, &skip),
    }
}

/// Reports a scenario that cannot run here: skipped, or failed if skips are failures.
pub(crate) fn skipped(test: &str, skip: &Skip) -> Verdict {
    match skip.record(test) {
        Err(message) => Err(Failed::from(message)),
        Ok(()) => Ok(Completion::ignored_with(skip)),
    }
}

/// A unique path for a world.
pub(crate) fn fresh(side: Side) -> std::path::PathBuf {
    let number = WORLDS.fetch_add(1, Ordering::Relaxed);
    programs::scratch().join(format!("world-{number}-{side:?}"))
}

/// Runs both programs and returns all differences.
fn compare(case: &Case) -> Result<String, Skip> {
    programs::gnu()?;
    case.need.map_or(Ok(()), Skip::unless_there)?;
    if case.user {
        programs::reached_by_user()?;
    }
    let (theirs, their_tree) = one_side(case, Side::Gnu)?;
    let (ours, our_tree) = one_side(case, Side::Ours)?;
    let mut report = differences((&theirs, &their_tree), (&ours, &our_tree), case.output);
    if !report.is_empty() && !case.output {
        let said = ours.stderr.escape_ascii();
        let _ = writeln!(report, "  ours said: {said}");
    }
    if !report.is_empty() {
        let added = &case.added;
        let described = format!("{}\n  cp {added} {}\n", case.setup.trim(), case.command);
        report.insert_str(0, &described);
    }
    Ok(report)
}

/// All differences between two runs, one per line.
pub(crate) fn differences(theirs: (&Ran, &Tree), ours: (&Ran, &Tree), output: bool) -> String {
    let ((theirs, their_tree), (ours, our_tree)) = (theirs, ours);
    let (ours, their_tree) = &without_incomplete(ours, our_tree, their_tree);
    let mut report = String::new();
    if theirs.status != ours.status {
        report_difference(&mut report, "", Some(&theirs.status), Some(&ours.status));
    }
    if output {
        let lines = |ran: &Ran, text: fn(&Ran) -> &Vec<u8>| sorted_lines(text(ran));
        for (name, text) in [
            ("stderr: ", (|ran| &ran.stderr) as fn(&Ran) -> &Vec<u8>),
            ("stdout: ", |ran| &ran.stdout),
        ] {
            differing_lines(&mut report, name, &lines(theirs, text), &lines(ours, text));
        }
    }
    differing_entries(&mut report, their_tree, our_tree);
    report
}

/// Removes one expected difference: `laio cp` removes an incomplete file and prints that, GNU cp
/// leaves it.
fn without_incomplete(ours: &Ran, our_tree: &Tree, their_tree: &Tree) -> (Ran, Tree) {
    let (mut ours, mut their_tree) = (ours.clone(), their_tree.clone());
    let warnings = std::mem::take(&mut ours.stderr);
    for line in warnings.split_inclusive(|&b| b == b'\n') {
        let name = line.strip_prefix(b"cp: removed incomplete '");
        let name = name.and_then(|name| name.strip_suffix(b"'\n"));
        match name {
            Some(name) if !our_tree.contains_key(name) => drop(their_tree.remove(name)),
            _ => ours.stderr.extend_from_slice(line),
        }
    }
    (ours, their_tree)
}

fn one_side(case: &Case, side: Side) -> Result<(Ran, Tree), Skip> {
    let world = World::make(&fresh(side), &case.setup, case.user)?;
    let mut ran = run::run(case, side, &world.root);
    for text in [&mut ran.stdout, &mut ran.stderr] {
        *text = without_path(text, world.root.as_os_str().as_encoded_bytes());
    }
    Ok((ran, snapshot::of(&world.root, &world.names())))
}

/// Replaces absolute paths, which differ from run to run.
fn without_path(text: &[u8], path: &[u8]) -> Vec<u8> {
    let mut shortened = Vec::new();
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(path) {
            shortened.extend_from_slice(b"ROOT");
            rest = after;
        } else {
            shortened.push(first);
            rest = after;
        }
    }
    shortened
}

/// Sorts messages: `laio cp` works on several directories at a time.
fn sorted_lines(text: &[u8]) -> Vec<String> {
    let line = |line: &[u8]| line.escape_ascii().to_string();
    let mut lines: Vec<String> = text.split_inclusive(|&b| b == b'\n').map(line).collect();
    lines.sort();
    lines
}

fn differing_lines(report: &mut String, name: &str, theirs: &[String], ours: &[String]) {
    if theirs == ours {
        return;
    }
    // Compares multisets: the lines that one side has more often than the other.
    let mut surplus = ours.to_vec();
    for line in theirs {
        match surplus.iter().position(|other| other == line) {
            Some(at) => drop(surplus.swap_remove(at)),
            None => report_difference(report, name, Some(line), None),
        }
    }
    for line in &surplus {
        report_difference(report, name, None, Some(line));
    }
}

fn differing_entries(report: &mut String, theirs: &Tree, ours: &Tree) {
    let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    for name in names {
        let (their, our) = (theirs.get(name), ours.get(name));
        let lines = [their, our].map(|entry| entry.map(|entry| entry.line.as_str()));
        let shown = format!("{}: ", snapshot::show(name));
        if lines[0] != lines[1] {
            report_difference(report, &shown, lines[0], lines[1]);
        }
        let (Some(their), Some(our)) = (their, our) else {
            continue;
        };
        if their.data.abs_diff(our.data) > SPARSE_TOLERANCE {
            let data = |bytes| format!("{bytes} bytes that are not holes");
            report_difference(
                report,
                &shown,
                Some(&data(their.data)),
                Some(&data(our.data)),
            );
        }
        // If a source is read twice, the access times in the copies depend on the order. GNU cp
        // also reads symbolic links to look up their targets.
        let is_link = their.line.starts_with("link") && their.read == Read::Now;
        if their.read == our.read || is_link {
            continue;
        }
        let of_one_source = || {
            let same = |other: &&Entry| other.modified == our.modified;
            ours.values().filter(same)
        };
        let new = of_one_source().filter(|other| other.read != Read::Any);
        // One of them is the source. A replaced file counts as a copy, too.
        let files: BTreeSet<_> = of_one_source().map(|other| other.file).collect();
        if new.count() == 1 && files.len() <= 2 {
            let read = |entry: &Entry| format!("read {:?}", entry.read);
            report_difference(report, &shown, Some(&read(their)), Some(&read(our)));
        }
    }
}

fn report_difference(report: &mut String, name: &str, theirs: Option<&str>, ours: Option<&str>) {
    for (who, what) in [("GNU ", theirs), ("ours", ours)] {
        if let Some(what) = what {
            // Writing to a string does not fail.
            let _ = writeln!(report, "  {who} {name}{what}");
        }
    }
}
