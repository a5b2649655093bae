//! The files of the repository that name the version: the manifests, the changelog, and tests of the C library.

use super::{Check, fault};
use crate::files::{failure, replace};
use crate::programs::output_of;
use crate::{Failure, root};
use std::path::Path;
use std::process::Command;

/// The manifests with a version of their own, or of a crate beside them.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "bindings/python/Cargo.toml"];

/// Files that state the version in words: each line with the old one gets the new one.
const MENTIONS: [&str; 5] = [
    "README.md",
    "crates/laio-capi/include/laio.h",
    "crates/laio-capi/tests/c/headers.c",
    "docs/serve/transport.md",
    "man/man3/laio_version.3",
];

/// Checks that every manifest and every mention has this version.
pub(super) fn versions(version: &str) -> Check {
    if !is_version(version) {
        return Err(vec![format!("`{version}` is not a version such as 1.2.3")]);
    }
    let mut faults = Vec::new();
    for name in MANIFESTS {
        for (number, line) in read(name)
            .map_err(|error| fault(&error))?
            .lines()
            .enumerate()
        {
            if let Some(found) = own_version(line)
                && found != version
            {
                faults.push(format!("{name}:{}: {found}", number + 1));
            }
        }
    }
    for name in MENTIONS {
        if !read(name).map_err(|error| fault(&error))?.contains(version) {
            faults.push(format!("{name} does not mention {version}"));
        }
    }
    if faults.is_empty() {
        return Ok(format!("all manifests have {version}"));
    }
    faults.push(format!(
        "`cargo xtask release {version} --prepare` writes them"
    ));
    Err(faults)
}

/// Checks that the changelog has a dated section of this version, and nothing that is newer.
pub(super) fn changelog(version: &str) -> Check {
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

/// Writes the version into the manifests and mentions, and moves what is unreleased into a section for it.
pub(super) fn prepare(version: &str) -> Result<(), Failure> {
    if !is_version(version) {
        return Err(format!("`{version}` is not a version such as 1.2.3").into());
    }
    let old = crate::VERSION;
    for name in MANIFESTS {
        let text = read(name)?;
        let mut new = String::new();
        for line in text.lines() {
            match own_version(line) {
                Some(found) => new += &line.replacen(found, version, 1),
                None => new += line,
            }
            new.push('\n');
        }
        write(name, &new)?;
    }
    for name in MENTIONS {
        write(name, &read(name)?.replace(old, version))?;
    }
    let today = output_of(Command::new("date").args(["--utc", "+%F"]))?;
    let text = read("CHANGELOG.md")?;
    write("CHANGELOG.md", &cut(&text, version, today.trim()))?;
    // So that the lock file has the new versions.
    output_of(crate::programs::cargo().args(["update", "--workspace", "--offline"]))?;
    println!(
        "{old} became {version} in the manifests and the changelog: look at `git diff`, and commit"
    );
    Ok(())
}

/// Returns the changelog with the unreleased entries in a section of the version; if that exists, at its end.
fn cut(text: &str, version: &str, today: &str) -> String {
    let entries = section(text, "Unreleased");
    let head = "## Unreleased\n";
    let Some(at) = text.find(head) else {
        return text.to_owned();
    };
    let before = &text[..at];
    let after = &text[at + head.len() + entries.len()..];
    let mut out = format!("{before}{head}\n");
    match date_of(text, version) {
        None => {
            out += &format!("## {version} - {today}\n{entries}{after}");
        }
        Some(_) => {
            let own = section(text, &format!("{version} "));
            let end = after
                .find(own)
                .map_or(after.len(), |start| start + own.len());
            out += after[..end].trim_end();
            out += &format!("\n{entries}{}", &after[end..]);
        }
    }
    out
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

/// The version in a line of a manifest that belongs to this repository: of a package, or of a dependency by path.
fn own_version(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("version = \"") {
        Some(rest) => rest,
        None if line.contains("path = \"crates/") => line.split_once("version = \"")?.1,
        None => return None,
    };
    rest.split('"').next()
}

fn is_version(version: &str) -> bool {
    let parts: Vec<_> = version.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(number)
}

fn read(name: &str) -> Result<String, Failure> {
    let path = root().join(name);
    std::fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))
}

fn write(name: &str, text: &str) -> Result<(), Failure> {
    let path = root().join(name);
    replace(&path, |temporary: &Path| {
        std::fs::write(temporary, text).map_err(|error| failure("write", temporary, &error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "# Changelog\n\n## Unreleased\n\n### Added\n\n- new\n\n## 0.1.0 - 2026-01-01\n\n- old\n";

    #[test]
    fn unreleased_entries_become_the_section_of_the_version() {
        let after = cut(BEFORE, "0.2.0", "2026-02-02");
        let expected = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-02-02\n\n### Added\n\n- new\n\n\
                        ## 0.1.0 - 2026-01-01\n\n- old\n";
        assert_eq!(after, expected);
        assert_eq!(date_of(&after, "0.2.0"), Some("2026-02-02"));
        assert_eq!(section(&after, "Unreleased").trim(), "");
    }

    #[test]
    fn unreleased_entries_join_a_section_that_exists() {
        let after = cut(BEFORE, "0.1.0", "2026-02-02");
        assert_eq!(section(&after, "Unreleased").trim(), "");
        let own = section(&after, "0.1.0 ");
        assert!(
            own.contains("- old\n") && own.contains("- new\n"),
            "{after}"
        );
        assert_eq!(date_of(&after, "0.1.0"), Some("2026-01-01"));
    }

    #[test]
    fn only_versions_of_the_repository_are_changed() {
        assert_eq!(own_version("version = \"0.1.0\""), Some("0.1.0"));
        let own = "laio = { version = \"0.1.0\", path = \"crates/laio\" }";
        assert_eq!(own_version(own), Some("0.1.0"));
        assert_eq!(own_version("pyo3 = { version = \"0.30.1\" }"), None);
        assert_eq!(own_version("rust-version = \"1.88\""), None);
    }

    #[test]
    fn versions_have_three_numbers() {
        assert!(is_version("0.10.2"));
        for wrong in ["1.2", "v1.2.3", "1.2.3.4", "1..3", ""] {
            assert!(!is_version(wrong), "{wrong}");
        }
    }
}
