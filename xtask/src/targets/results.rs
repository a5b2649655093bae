//! Counts of the tests of a program, from what it prints.

use std::collections::BTreeSet;
use std::process::ExitStatus;

/// The tests of one program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    passed: usize,
    failed: BTreeSet<String>,
    /// Why the program did not end with its result.
    ended: Option<String>,
}

impl Counts {
    /// Counts a line of the program's output.
    pub fn count(&mut self, line: &str) {
        let Some(test) = line.strip_prefix("test ") else {
            return;
        };
        if let Some(name) = test.strip_suffix(" ... FAILED") {
            self.failed.insert(name.to_owned());
        } else if test.ends_with(" ... ok") {
            self.passed += 1;
        }
    }

    /// Notes how the program has ended. Failed tests are status 101.
    pub fn status(&mut self, status: ExitStatus) {
        if !status.success() && self.failed.is_empty() {
            self.ended = Some(status.to_string());
        }
    }

    /// Whether no test failed, and the program came to its end.
    pub fn passed_all(&self) -> bool {
        self.failed.is_empty() && self.ended.is_none()
    }
}

/// Returns a table of all programs. `skips` are the lines that the tests have written for `LAIO_TEST_SKIPS`: a test
/// that skips a part has passed with the rest, so it counts in both columns.
pub fn table(all: &[(String, Counts)], skips: &str) -> String {
    let skipped = |program: &str| {
        let package = program.split(' ').next().unwrap_or_default();
        let tests = skips.lines().filter_map(|line| {
            let (test, need) = line.split_once('\t')?;
            let (own, test) = test.split_once(' ')?;
            (own == package && !need.starts_with("inapplicable")).then_some(test)
        });
        tests.collect::<BTreeSet<_>>().len()
    };
    let mut text = format!("{:<32} {:>6} {:>6}\n", "program", "passed", "failed");
    for (program, counts) in all {
        let (passed, failed) = (counts.passed, counts.failed.len());
        text += &format!("{program:<32} {passed:>6} {failed:>6}");
        for name in &counts.failed {
            text += &format!(" {name}");
        }
        if let Some(why) = &counts.ended {
            text += &format!(" did not end: {why}");
        }
        text += "\n";
    }
    let packages: BTreeSet<&str> = all
        .iter()
        .filter_map(|(program, _)| program.split(' ').next())
        .collect();
    for package in packages {
        let count = skipped(package);
        if count > 0 {
            text += &format!("{package}: {count} of these skipped a part or all\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_from_the_output() {
        let mut counts = Counts::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test c ... FAILED",
            "test d ... ok",
            "test result: FAILED. 2 passed; 1 failed",
        ] {
            counts.count(line);
        }
        assert_eq!(counts.passed, 2);
        assert!(!counts.passed_all());
        let skips =
            "laio a::b\troot\tx\nlaio a::b\tfuse\tx\nlaio d\tinapplicable\tx\nlaio-rt e\troot\tx\n";
        let table = table(&[("laio suite".to_owned(), counts)], skips);
        assert!(
            table.contains("laio suite                            2      1 c\n"),
            "{table}"
        );
        assert!(table.contains("laio: 1 of these skipped"), "{table}");
    }
}
