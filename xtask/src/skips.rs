//! Summarizes the skips of a test run, by what was missing.

use std::collections::{BTreeMap, BTreeSet};

/// Returns a summary of the file that the tests have written for `LAIO_TEST_SKIPS`: for each need the
/// reasons, and the tests.
///
/// Shows lines in another format unchanged, so that no skip is lost.
pub fn summary(lines: &str) -> String {
    let mut needs: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    let mut others = Vec::new();
    for line in lines.lines() {
        let mut parts = line.split('\t');
        let (Some(test), Some(need), Some(reason)) = (parts.next(), parts.next(), parts.next())
        else {
            others.push(line);
            continue;
        };
        let reasons = needs.entry(need).or_default();
        reasons.entry(reason).or_default().insert(test);
    }
    if needs.is_empty() && others.is_empty() {
        return "no test was skipped\n".to_owned();
    }
    let mut text = String::new();
    for (need, reasons) in &needs {
        let tests: BTreeSet<_> = reasons.values().flatten().collect();
        text += &format!("{need}: {} skipped\n", tests.len());
        for (reason, tests) in reasons {
            text += &format!("    {reason}\n");
            for test in tests {
                text += &format!("        {}\n", test.trim());
            }
        }
    }
    for line in others {
        text += &format!("not a line of the tests: {line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::summary;

    #[test]
    fn skips_are_shown_by_need_and_each_once() {
        let lines = "laio a::b\troot\tnot root\n\
                     laio a::c\troot\tnot root\n\
                     laio a::b\troot\tnot root\n\
                     laio-cli d\tfuse\tno device\n\
                     half a li";
        let expected = "fuse: 1 skipped\n    no device\n        laio-cli d\n\
                        root: 2 skipped\n    not root\n        laio a::b\n        laio a::c\n\
                        not a line of the tests: half a li\n";
        assert_eq!(summary(lines), expected);
        assert_eq!(summary(""), "no test was skipped\n");
    }
}
