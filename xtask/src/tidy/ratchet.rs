//! The exceptions: how many faults of each key the tree still has. Their number may only shrink.
//!
//! The list has one sorted line for each key. Git merges it with `merge=union`, which keeps the lines of both
//! sides; [`Ratchet::lowered`] then brings it in order.

use super::fault::Fault;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The path of the list.
pub(crate) const PATH: &str = "xtask/tidy.txt";

const HEAD: &str = "\
# The places that break a rule of `cargo xtask tidy` today: rule, what, number. Numbers only shrink:
# `cargo xtask tidy --update` lowers them, and removes what is no longer needed. When code moves, rename its
# line; a file that is a table has `any`. After a merge, `--update` brings the lines of both sides in order.
";

/// The numbers by rule and key.
type Counts = BTreeMap<(String, String), usize>;

/// The list of exceptions.
#[derive(Debug, Default)]
pub(crate) struct Ratchet {
    allowed: Counts,
    lines: BTreeMap<(String, String), usize>,
    unordered: Vec<String>,
}

impl Ratchet {
    /// Reads the list. What a merge has left in it is kept in mind as a fault; of two numbers for one key the
    /// larger one counts.
    pub(crate) fn parse(text: &str) -> Ratchet {
        let mut ratchet = Ratchet::default();
        let mut previous = "";
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let Some((entry, number)) = entry(line) else {
                ratchet.disorder(index, "is no exception");
                continue;
            };
            if ratchet.allowed.contains_key(&entry) {
                ratchet.disorder(index, "repeats an exception");
            } else if line < previous {
                ratchet.disorder(index, "is not in the sorted order");
            }
            previous = line;
            ratchet.lines.insert(entry.clone(), index + 1);
            let allowed = ratchet.allowed.entry(entry).or_default();
            *allowed = number.max(*allowed);
        }
        ratchet
    }

    fn disorder(&mut self, index: usize, what: &str) {
        let line = format!("{PATH}:{}: the line {what}: {UPDATE}", index + 1);
        self.unordered.push(line);
    }

    /// Returns a message for each fault without an exception, and for each exception without a fault.
    pub(crate) fn judge(&self, faults: &[Fault]) -> Vec<String> {
        let today = count(faults);
        let mut messages = self.unordered.clone();
        for (entry, &number) in &today {
            let allowed = self.allowed.get(entry).copied().unwrap_or(0);
            if number > allowed {
                messages.extend(too_many(entry, number, allowed, faults));
            }
        }
        for (entry, allowed) in &self.allowed {
            let number = today.get(entry).copied().unwrap_or(0);
            let needed = if *allowed == ANY { 1 } else { *allowed };
            if number < needed {
                let (line, (rule, key)) = (self.lines[entry], entry);
                messages.push(format!(
                    "{PATH}:{line}: `{rule} {key}` allows {}, and the tree has {number}: {UPDATE}",
                    shown(*allowed)
                ));
            }
        }
        messages
    }

    /// Returns the list without what these faults do not need: no number rises.
    pub(crate) fn lowered(&self, faults: &[Fault]) -> String {
        let today = count(faults);
        let needed = self.allowed.iter().filter_map(|(entry, &allowed)| {
            let number = today.get(entry)?;
            Some((entry.clone(), lower(allowed, *number)))
        });
        write(&needed.collect())
    }
}

const UPDATE: &str = "run `cargo xtask tidy --update`";

/// The number of an exception that is not counted.
const ANY: usize = usize::MAX;

fn lower(allowed: usize, number: usize) -> usize {
    if allowed == ANY {
        ANY
    } else {
        allowed.min(number)
    }
}

fn shown(allowed: usize) -> String {
    if allowed == ANY {
        "any".to_owned()
    } else {
        allowed.to_string()
    }
}

/// The list for a tree that has none yet.
pub(crate) fn begin(faults: &[Fault]) -> String {
    write(&count(faults))
}

/// The rule with the key, and the number: the key may contain spaces.
fn entry(line: &str) -> Option<((String, String), usize)> {
    let (rule, rest) = line.split_once(' ')?;
    let (key, number) = rest.rsplit_once(' ')?;
    let number = if number == "any" {
        ANY
    } else {
        number.parse().ok()?
    };
    Some(((rule.to_owned(), key.to_owned()), number))
}

fn count(faults: &[Fault]) -> Counts {
    let mut counts = Counts::new();
    for fault in faults {
        let entry = (fault.rule.to_owned(), fault.key.clone());
        *counts.entry(entry).or_default() += 1;
    }
    counts
}

fn write(counts: &Counts) -> String {
    let lines = counts.iter();
    let mut lines: Vec<_> = lines
        .map(|((rule, key), number)| format!("{rule} {key} {}", shown(*number)))
        .collect();
    // By whole lines, as `sort` and merges do.
    lines.sort();
    let mut text = HEAD.to_owned();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// How many faults of one key are printed: which of them is new is not known.
const SHOWN: usize = 30;

fn too_many(
    (rule, key): &(String, String),
    number: usize,
    allowed: usize,
    faults: &[Fault],
) -> Vec<String> {
    let same = faults
        .iter()
        .filter(|fault| fault.rule == rule && fault.key == *key);
    let shown = same.take(SHOWN);
    let mut messages: Vec<_> = shown
        .map(|fault| format!("{}: {} ({rule})", fault.place, fault.what))
        .collect();
    if number > SHOWN {
        messages.push(format!("and {} more ({rule} {key})", number - SHOWN));
    }
    if allowed > 0 {
        messages.push(format!(
            "{PATH} allows {allowed} of these {number} (`{rule} {key}`): look at what you have changed"
        ));
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(rule: &'static str, key: &str, line: usize) -> Fault {
        Fault {
            rule,
            key: key.into(),
            place: format!("a.rs:{line}"),
            what: "wrong".into(),
        }
    }

    #[test]
    fn the_numbers_must_be_those_of_today() {
        let faults = [
            fault("words", "a to be", 1),
            fault("words", "a to be", 2),
            fault("lines", "a.rs", 3),
        ];
        let text = begin(&faults);
        assert_eq!(text, format!("{HEAD}lines a.rs 1\nwords a to be 2\n"));
        assert_eq!(Ratchet::parse(&text).judge(&faults), [""; 0]);
        let more = Ratchet::parse("words a to be 1\n").judge(&faults);
        let expected = [
            "a.rs:3: wrong (lines)",
            "a.rs:1: wrong (words)",
            "a.rs:2: wrong (words)",
            "xtask/tidy.txt allows 1 of these 2 (`words a to be`): look at what you have changed",
        ];
        assert_eq!(more, expected);
        let fewer = Ratchet::parse(&text).judge(&faults[1..]);
        let expected = [
            "xtask/tidy.txt:5: `words a to be` allows 2, and the tree has 1: run `cargo xtask tidy --update`",
        ];
        assert_eq!(fewer, expected);
    }

    #[test]
    fn numbers_are_lowered_and_never_raised() {
        let faults = [
            fault("lines", "a.rs", 1),
            fault("lines", "a.rs", 2),
            fault("lines", "b.rs", 1),
        ];
        let lowered = Ratchet::parse("lines a.rs 1\nlines b.rs 2\nlines c.rs 1\n").lowered(&faults);
        assert_eq!(lowered, format!("{HEAD}lines a.rs 1\nlines b.rs 1\n"));
        assert_eq!(Ratchet::parse("").lowered(&faults), HEAD);
        let any = Ratchet::parse("lines a.rs any\nlines b.rs 1\n");
        assert_eq!(any.judge(&faults), [""; 0]);
        assert_eq!(any.judge(&faults[2..]).len(), 1);
        assert!(any.lowered(&faults).contains("lines a.rs any\n"));
    }

    #[test]
    fn what_a_merge_leaves_is_a_fault_until_the_update() {
        let merged =
            "lines b.rs 1\n<<<<<<< ours\nlines a.rs 1\n=======\nlines a.rs 2\n>>>>>>> theirs\n";
        let faults = [
            fault("lines", "a.rs", 1),
            fault("lines", "a.rs", 2),
            fault("lines", "b.rs", 1),
        ];
        let ratchet = Ratchet::parse(merged);
        assert_eq!(ratchet.judge(&faults).len(), 5);
        assert_eq!(
            ratchet.lowered(&faults),
            format!("{HEAD}lines a.rs 2\nlines b.rs 1\n")
        );
    }
}
