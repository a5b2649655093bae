//! The changelog: entries below "Unreleased" move into the section of the version that is released.

use super::text::read;
use super::{Check, fault};
use crate::repository::Failure;
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
///
/// # Errors
/// If there is no section `Unreleased`, a newer version than this one is before it, or a heading is not one of [`HEADINGS`].
pub(super) fn cut(text: &str, version: &str, today: &str) -> Result<String, Failure> {
    let unreleased = section(text, "Unreleased");
    let head = "## Unreleased\n";
    let Some(at) = text.find(head) else {
        return Err("CHANGELOG.md has no section `## Unreleased`".into());
    };
    let own = section(text, &format!("{version} "));
    let after = &text[at + head.len() + unreleased.len()..];
    let older = match date_of(after, version) {
        None => after,
        Some(date) => {
            let newest = format!("## {version} - {date}\n{own}");
            after.strip_prefix(&newest).ok_or_else(|| {
                format!("CHANGELOG.md has another section between Unreleased and {version}")
            })?
        }
    };
    let entries = merged(own, unreleased)?;
    let older = if older.is_empty() {
        ""
    } else {
        &format!("\n{older}")
    };
    Ok(format!(
        "{}{head}\n## {version} - {today}\n{entries}{older}",
        &text[..at]
    ))
}

/// Returns the entries of two sections, with each heading once.
fn merged(first: &str, second: &str) -> Result<String, Failure> {
    let mut all: BTreeMap<usize, String> = BTreeMap::new();
    for text in [first, second] {
        let mut place = 0;
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("### ") {
                let known = HEADINGS.iter().position(|it| *it == heading);
                let index = known.ok_or_else(|| {
                    let headings = HEADINGS.join(", ");
                    format!("CHANGELOG.md has the heading `{heading}`, which is none of {headings}")
                })?;
                place = index + 1;
                all.entry(place)
                    .or_insert_with(|| format!("\n### {heading}\n\n"));
            } else if !line.is_empty() {
                let entries = all.entry(place).or_insert_with(|| "\n".to_owned());
                *entries += line;
                entries.push('\n');
            }
        }
    }
    Ok(all.into_values().collect())
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
        let after = cut(BEFORE, "0.2.0", "2026-02-02").expect("a changelog");
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-02-02\n\n### Added\n\n- new\n  and good\n\n\
                        ### Fixed\n\n- mended\n\n## 0.1.0 - 2026-01-01\n\n### Added\n\n- old\n\n\
                        ## 0.0.1 - 2025-01-01\n\n- first\n";
        assert_eq!(after, expected);
        assert_eq!(section(&after, "Unreleased").trim(), "");
    }

    #[test]
    fn unreleased_entries_join_a_section_that_exists() {
        let after = cut(BEFORE, "0.1.0", "2026-02-02").expect("a changelog");
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-02-02\n\n### Added\n\n- old\n- new\n  and good\n\n\
                        ### Fixed\n\n- mended\n\n## 0.0.1 - 2025-01-01\n\n- first\n";
        assert_eq!(after, expected);
    }

    #[test]
    fn the_first_version_is_the_last_section() {
        let before = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.1.0 - 2026-01-01\n\n- old\n";
        let after = "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-02-02\n\n- old\n- new\n";
        let cut = cut(before, "0.1.0", "2026-02-02").expect("a changelog");
        assert_eq!(cut, after);
    }

    #[test]
    fn a_changelog_of_another_form_is_an_error() {
        let wrong = [
            "# Changelog\n\n## 0.1.0 - 2026-01-01\n",
            "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-02\n\n- b\n\n## 0.1.0 - 2026-01-01\n\n- a\n",
            "# Changelog\n\n## Unreleased\n\n### News\n\n- new\n",
        ];
        for text in wrong {
            assert!(cut(text, "0.1.0", "2026-02-02").is_err(), "{text}");
        }
    }
}
