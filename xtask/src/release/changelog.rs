//! The changelog: entries below "Unreleased" move into the section of the version that is released.

use super::text::read;
use super::{Check, fault};
use std::collections::BTreeMap;

/// The headings of entries, in the order in which Keep a Changelog has them, but what concerns safety first.
const HEADINGS: [&str; 6] = [
    "Security",
    "Added",
    "Changed",
    "Deprecated",
    "Removed",
    "Fixed",
];

/// Checks that the changelog has a dated section of this version, and nothing that is newer.
pub(super) fn check(version: &str) -> Check {
    let text = read("CHANGELOG.md").map_err(|error| fault(&error))?;
    let advice = format!("`cargo xtask release {version} --prepare` makes the section");
    let Some(date) = date_of(&text, version) else {
        return Err(vec![
            format!("there is no section `## {version} - DATE`"),
            advice,
        ]);
    };
    let lines = section(&text, "Unreleased");
    let newer = lines.lines().filter(|line| line.starts_with("- ")).count();
    if newer > 0 {
        return Err(vec![
            format!("{newer} entries are below Unreleased"),
            advice,
        ]);
    }
    Ok(format!("{version} is of {date}"))
}

/// Returns the changelog with the unreleased entries in a section of the version, of today. If the section exists, they
/// follow its own entries below each heading.
pub(super) fn cut(text: &str, version: &str, today: &str) -> String {
    let unreleased = section(text, "Unreleased");
    let head = "## Unreleased\n";
    let Some(at) = text.find(head) else {
        return text.to_owned();
    };
    let own = section(text, &format!("{version} "));
    let after = &text[at + head.len() + unreleased.len()..];
    // The section of the version is the newest, so it is the first.
    let older = match date_of(after, version) {
        Some(date) => &after[format!("## {version} - {date}\n").len() + own.len()..],
        None => after,
    };
    let entries = merged(own, unreleased);
    let older = if older.is_empty() {
        ""
    } else {
        &format!("\n{older}")
    };
    format!(
        "{}{head}\n## {version} - {today}\n{entries}{older}",
        &text[..at]
    )
}

/// Returns the entries of two sections, with each heading once.
fn merged(first: &str, second: &str) -> String {
    let mut all: BTreeMap<usize, String> = BTreeMap::new();
    for text in [first, second] {
        let mut place = 0;
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                let known = HEADINGS.iter().position(|it| *it == heading);
                place = known.map_or(HEADINGS.len() + 1, |index| index + 1);
                all.entry(place)
                    .or_insert_with(|| format!("\n### {heading}\n\n"));
            } else if !line.is_empty() {
                let entries = all.entry(place).or_insert_with(|| "\n".to_owned());
                *entries += line;
                entries.push('\n');
            }
        }
    }
    all.into_values().collect()
}

/// The lines between a heading of the second level that begins with these words and the next such heading.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = format!("\n## {heading}");
    let Some(at) = text.find(&start) else {
        return "";
    };
    let rest = &text[at + start.len()..];
    let rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    &rest[..rest.find("\n## ").map_or(rest.len(), |end| end + 1)]
}

fn date_of<'a>(text: &'a str, version: &str) -> Option<&'a str> {
    let start = format!("## {version} - ");
    text.lines().find_map(|line| line.strip_prefix(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# Changelog\n\n## Unreleased\n\n### Fixed\n\n- mended\n\n### Added\n\n- new\n  and good\n\n\
                          ## 0.1.0 - 2026-01-01\n\n### Added\n\n- old\n\n## 0.0.1 - 2025-01-01\n\n- first\n";

    #[test]
    fn unreleased_entries_become_the_section_of_the_version() {
        let after = cut(BEFORE, "0.2.0", "2026-02-02");
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-02-02\n\n### Added\n\n- new\n  and good\n\n\
                        ### Fixed\n\n- mended\n\n## 0.1.0 - 2026-01-01\n\n### Added\n\n- old\n\n\
                        ## 0.0.1 - 2025-01-01\n\n- first\n";
        assert_eq!(after, expected);
        assert_eq!(section(&after, "Unreleased").trim(), "");
    }

    #[test]
    fn unreleased_entries_join_a_section_that_exists() {
        let after = cut(BEFORE, "0.1.0", "2026-02-02");
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-02-02\n\n### Added\n\n- old\n- new\n  and good\n\n\
                        ### Fixed\n\n- mended\n\n## 0.0.1 - 2025-01-01\n\n- first\n";
        assert_eq!(after, expected);
    }

    #[test]
    fn the_first_version_is_the_last_section() {
        let before = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.1.0 - 2026-01-01\n\n- old\n";
        let after = "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-02-02\n\n- old\n- new\n";
        assert_eq!(cut(before, "0.1.0", "2026-02-02"), after);
    }
}
