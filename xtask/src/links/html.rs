//! The links of the book's pages, as a browser follows them.

use super::{read, resolve};
use crate::files::failure;
use crate::repository::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns a line for each link in the pages below a directory that leads to no file, or to no element of its page.
///
/// # Errors
/// If a page cannot be read.
pub fn dead_in_book(book: &Path) -> Result<Vec<String>, Failure> {
    let mut pages = BTreeMap::new();
    for path in pages_below(book)? {
        let text = read(&book.join(&path))?;
        pages.insert(path, Page::from_html(&text));
    }
    if pages.is_empty() {
        return Err(format!("there is no page in {}", book.display()).into());
    }
    let mut dead = Vec::new();
    for (path, page) in &pages {
        for link in &page.links {
            let (target, element) = link.split_once('#').unwrap_or((link, ""));
            let found = if target.is_empty() {
                Some(path.clone())
            } else {
                resolve(path, target)
            };
            let well = found.is_some_and(|found| match pages.get(&found) {
                Some(other) => element.is_empty() || other.names.contains(element),
                None => book.join(found).is_file(),
            });
            if !well {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    Ok(dead)
}

struct Page {
    links: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Page {
    fn from_html(text: &str) -> Page {
        let far = |link: &&str| link.contains("://") || link.starts_with("data:");
        let links = ["href", "src"]
            .into_iter()
            .flat_map(|name| values(text, name));
        Page {
            links: links.filter(|link| !far(link)).map(str::to_owned).collect(),
            names: values(text, "id").map(str::to_owned).collect(),
        }
    }
}

/// The values of an attribute, in all tags. The text of a page may show a tag: there `<` is escaped, and `"` is not.
fn values<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let length = start.len();
    let in_tag = |at: usize| {
        let mark = text[..at].rfind(['<', '>']);
        mark.is_some_and(|mark| text[mark..].starts_with('<'))
    };
    let places: Vec<_> = text
        .match_indices(&start)
        .filter(|(at, _)| in_tag(*at))
        .map(|(at, _)| at + length)
        .collect();
    places.into_iter().filter_map(|at| {
        let value = &text[at..];
        Some(&value[..value.find('"')?])
    })
}

fn pages_below(book: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut pages = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let path = book.join(&directory);
        let cannot = |error| failure("read", &path, &error);
        for entry in std::fs::read_dir(&path).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let relative = directory.join(entry.file_name());
            if entry.file_type().map_err(cannot)?.is_dir() {
                directories.push(relative);
            } else if relative.extension().is_some_and(|it| it == "html")
                // Its links are relative to wherever the missing page would be.
                && relative != Path::new("404.html")
            {
                pages.push(relative);
            }
        }
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_pages_and_elements_are_dead() {
        let book = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(book.path().join(name), text).unwrap();
        std::fs::create_dir(book.path().join("d")).unwrap();
        write(
            "a.html",
            "<h1 id=\"x\"></h1><img src=\"p.svg\"><a href=\"https://example.org/\">",
        );
        write("p.svg", "");
        write("code.html", "<code>&lt;link href=\"/shown.css\"&gt;</code>");
        write(
            "d/b.html",
            "<a href=\"../a.html#x\"><a href=\"../a.html#y\"><a href=\"c.html\"><a href=\"#z\">",
        );
        let dead = dead_in_book(book.path()).unwrap();
        assert_eq!(
            dead,
            ["d/b.html: #z", "d/b.html: ../a.html#y", "d/b.html: c.html"]
        );
    }
}
