//! Makes the book: the documentation as pages with a search, by mdBook.
//!
//! The contents are those of `docs/README.md`, so they cannot differ from it. Files keep their places relative to each
//! other, so the links of the pages work as they are.

use crate::files::failure;
use crate::links::{dead_in_book, links, resolve};
use crate::programs::{run, succeeds};
use crate::repository::{Failure, root};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the book in `target/book`; returns the directory of its pages.
///
/// # Errors
/// If mdBook is missing or fails, a page is missing from the contents, or a link leads nowhere.
pub fn build() -> Result<PathBuf, Failure> {
    if !succeeds(Command::new("mdbook").arg("--version")) {
        return Err(
            "mdbook is not there: cargo install mdbook --locked --no-default-features --features search".into(),
        );
    }
    let book = root().join("target/book");
    stage(&root(), &book)?;
    run(Command::new("mdbook").arg("build").arg(&book))?;
    let pages = book.join("html");
    let dead = dead_in_book(&pages)?;
    if dead.is_empty() {
        Ok(pages)
    } else {
        Err(format!("links that lead nowhere:\n{}", dead.join("\n")).into())
    }
}

/// The contents of the book, as mdBook reads them.
///
/// # Errors
/// If a page cannot be read.
pub fn summary(root: &Path) -> Result<String, Failure> {
    let mut out = "# Summary\n\n[laio](README.md)\n[Contents](docs/README.md)\n".to_owned();
    for line in read(&root.join("docs/README.md"))?.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            let _ = write!(out, "\n# {part}\n\n");
        } else if let Some((title, page)) = entry(line) {
            let page = resolve(Path::new("docs/README.md"), page).unwrap_or_default();
            let _ = writeln!(out, "- [{title}]({})", page.display());
            if page == Path::new("docs/decisions/README.md") {
                decisions(root, &mut out)?;
            }
        }
    }
    out += "- [Changelog](CHANGELOG.md)\n- [Security](SECURITY.md)\n- [Code of conduct](CODE_OF_CONDUCT.md)\n";
    Ok(out)
}

/// Returns the pages of `docs` that the contents do not have.
///
/// # Errors
/// If a directory cannot be read.
pub fn missing(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let summary = summary(root)?;
    let listed: BTreeSet<PathBuf> = links(&summary)
        .into_iter()
        .map(|link| link.target.into())
        .collect();
    let mut pages = crate::links::markdown(root)?;
    pages.retain(|page| page.starts_with("docs") && !listed.contains(page));
    Ok(pages)
}

/// The title and the page of a line such as `1. [Title](page.md): a sentence`.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(". [")?;
    number.parse::<u32>().ok()?;
    let (title, rest) = rest.split_once("](")?;
    Some((title, rest.split_once(')')?.0))
}

/// Appends the decisions in the order of their numbers, with the titles that the pages have.
fn decisions(root: &Path, out: &mut String) -> Result<(), Failure> {
    let mut pages = crate::links::markdown(root)?;
    pages.retain(|page| page.starts_with("docs/decisions") && !page.ends_with("README.md"));
    for page in pages {
        let text = read(&root.join(&page))?;
        let heading = text.lines().find_map(|line| line.strip_prefix("# "));
        let heading = heading.unwrap_or_default().replace(['[', ']'], "");
        let number = page.file_name().unwrap_or_default().to_string_lossy();
        let number = number.split('-').next().unwrap_or_default();
        let title = heading.strip_prefix(number).unwrap_or(&heading);
        let title = title.trim_start_matches([':', '.', ' ']);
        let _ = writeln!(out, "  - [{number} {title}]({})", page.display());
    }
    Ok(())
}

/// Copies the pages, and the files that they link, to their places below the book.
fn stage(root: &Path, book: &Path) -> Result<(), Failure> {
    // The directory of the pages stays, so that a server that has it open serves the new ones.
    let source = book.join("src");
    if source.exists() {
        std::fs::remove_dir_all(&source).map_err(|error| failure("remove", &source, &error))?;
    }
    let summary = summary(root)?;
    let pages: BTreeSet<PathBuf> = links(&summary)
        .into_iter()
        .map(|link| link.target.into())
        .collect();
    for page in &pages {
        let mut text = read(&root.join(page))?;
        for link in links(&text) {
            let path = link.target.split('#').next().unwrap_or_default();
            let Some(found) = resolve(page, path).filter(|_| !path.is_empty()) else {
                continue;
            };
            let old = format!("]({})", link.target);
            if pages.contains(&found) {
                text = text.replace(&old, &format!("]({})", index(&link.target)));
            } else if found.extension().is_none_or(|it| it == "md") {
                // A directory, or a page that is not in the book: its name is what a reader can use.
                text = text.replace(&old, &format!("] (`{}`)", found.display()));
            } else {
                copy(&root.join(&found), &source.join(&found))?;
            }
        }
        write(&source.join(index(&page.display().to_string())), &text)?;
    }
    write(&source.join("SUMMARY.md"), &index(&summary))?;
    copy(&root.join("docs/book.toml"), &book.join("book.toml"))?;
    copy(&root.join("docs/book.css"), &book.join("book.css"))
}

/// The page that a browser gets for a directory has this name, and mdBook does not change the links to it.
fn index(text: &str) -> String {
    text.replace("README.md", "index.md")
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| failure("read", path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| failure("write", path, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let parent = to.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::copy(from, to))
        .map(drop)
        .map_err(|error| failure("copy", from, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_have_every_page_and_no_other() {
        let root = root();
        assert_eq!(missing(&root).unwrap(), Vec::<PathBuf>::new());
        for link in links(&summary(&root).unwrap()) {
            assert!(root.join(&link.target).is_file(), "{}", link.target);
        }
    }

    #[test]
    fn no_link_of_the_documentation_is_dead() {
        let root = root();
        let files = crate::links::markdown(&root).unwrap();
        assert_eq!(
            crate::links::dead(&root, &files).unwrap(),
            Vec::<String>::new()
        );
    }
}
