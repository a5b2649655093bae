//! Finds links that lead nowhere, in the Markdown files of the repository and in the pages of the book.

mod html;

pub use html::dead_in_book;

use crate::files::failure;
use crate::repository::Failure;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// A link of a Markdown file to a file or a heading of the repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// The line, from 1.
    pub line: usize,
    /// What is written between the parentheses.
    pub target: String,
}

/// Returns a line for each link in these Markdown files that leads to no file, or to no heading of its file.
///
/// # Errors
/// If a file cannot be read.
pub fn dead(root: &Path, files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let mut dead = Vec::new();
    for file in files {
        let text = read(&root.join(file))?;
        for link in links(&text) {
            if let Some(why) = fault(root, file, &link.target)? {
                dead.push(format!("{}:{}: {why}", file.display(), link.line));
            }
        }
    }
    Ok(dead)
}

/// Returns the Markdown files of the repository, relative to its root.
///
/// # Errors
/// If a directory cannot be read.
pub fn markdown(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let path = root.join(&directory);
        let cannot = |error| failure("read", &path, &error);
        for entry in std::fs::read_dir(&path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name();
            let relative = directory.join(&name);
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_dir() && name != "target" && !name.as_encoded_bytes().starts_with(b".") {
                directories.push(relative);
            } else if kind.is_file() && relative.extension().is_some_and(|it| it == "md") {
                files.push(relative);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the links of a Markdown text that are not addresses of other hosts. Code has none.
pub fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        let mut rest = text.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split(' ').next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") && !target.is_empty() {
                links.push(Link {
                    line,
                    target: target.to_owned(),
                });
            }
        }
    }
    links
}

/// Returns the path that a link of a file leads to, relative to the root, if it stays below the root.
pub fn resolve(file: &Path, target: &str) -> Option<PathBuf> {
    let mut path = file.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

fn fault(root: &Path, file: &Path, target: &str) -> Result<Option<String>, Failure> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() {
        file.to_owned()
    } else {
        match resolve(file, path) {
            Some(path) => path,
            None => return Ok(Some(format!("{target} leads out of the repository"))),
        }
    };
    let found = root.join(&path);
    if !found.exists() {
        return Ok(Some(format!("there is no {}", path.display())));
    }
    if heading.is_empty() || path.extension().is_none_or(|it| it != "md") {
        return Ok(None);
    }
    let known = anchors(&read(&found)?);
    let missing = !known.contains(heading);
    Ok(missing.then(|| format!("{} has no heading #{heading}", path.display())))
}

/// The names by which the headings of a page are linked.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(heading) = line.strip_prefix('#') else {
            continue;
        };
        let name = anchor(heading.trim_start_matches('#').trim());
        let mut numbered = name.clone();
        let mut number = 0;
        while !anchors.insert(numbered.clone()) {
            number += 1;
            numbered = format!("{name}-{number}");
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// The lines outside of code blocks, with their numbers; code within a line is left out, except in headings.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut fence = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) if line.starts_with("    ") => {}
            (None, None) if line.starts_with('#') => lines.push((index + 1, line.to_owned())),
            (None, None) => {
                let outside = line.split('`').step_by(2);
                lines.push((index + 1, outside.collect::<Vec<_>>().join("``")));
            }
        }
    }
    lines
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| failure("read", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_prose_are_found_and_those_of_code_are_not() {
        let text = "see [a](a.md) and [b `x`](../b.md#c \"title\")\n`[no](no.md)`\n```\n[no](no.md)\n```\n\
                    [far](https://example.org)\n";
        let targets: Vec<_> = links(text).into_iter().map(|link| link.target).collect();
        assert_eq!(targets, ["a.md", "../b.md#c"]);
    }

    #[test]
    fn a_link_to_a_missing_file_or_heading_is_dead() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.path().join(name), text).unwrap();
        write(
            "a.md",
            "# A `code` heading, twice\n\n# A `code` heading, twice\n",
        );
        write(
            "b.md",
            "[1](a.md#a-code-heading-twice)\n[2](a.md#a-code-heading-twice-1)\n[3](a.md#none)\n[4](c.md)\n[5](../x)\n",
        );
        let dead = dead(root.path(), &["b.md".into()]).unwrap();
        let expected = [
            "b.md:3: a.md has no heading #none",
            "b.md:4: there is no c.md",
            "b.md:5: ../x leads out of the repository",
        ];
        assert_eq!(dead, expected);
    }
}
