//! Checks the structure of the tree: `cargo xtask tidy`.

mod circles;
mod fault;
mod features;
mod functions;
mod glossary;
mod lines;
mod maps;
mod ratchet;
mod sources;
mod tokens;
mod types;
mod words;

use crate::files::failure;
use crate::repository::Failure;
use fault::Fault;
use ratchet::Ratchet;
use sources::{File, Source};
use std::io::ErrorKind;
use std::path::Path;

/// What a check has found.
#[derive(Debug)]
pub struct Report {
    /// What is wrong, and what to do: a line for each fault.
    pub messages: Vec<String>,
    /// How many files were read.
    pub files: usize,
    /// How many places the list of exceptions allows.
    pub exceptions: usize,
}

/// Checks the tree by all rules.
///
/// # Errors
/// If a file cannot be read.
pub fn check(root: &Path) -> Result<Report, Failure> {
    let files = sources::read(root)?;
    let faults = faults(&files);
    let list = exceptions(root)?.unwrap_or_default();
    Ok(Report {
        messages: Ratchet::parse(&list).judge(&faults),
        files: files.len(),
        exceptions: faults.len(),
    })
}

/// Generates the tables of modules, and removes the exceptions that are no longer needed. Without a list of
/// exceptions it writes one.
///
/// # Errors
/// If a file cannot be read or written.
pub fn update(root: &Path) -> Result<(), Failure> {
    generate(root)?;
    let faults = faults(&sources::read(root)?);
    let list = exceptions(root)?;
    let lowered = list.as_deref().map_or_else(
        || ratchet::begin(&faults),
        |list| Ratchet::parse(list).lowered(&faults),
    );
    write(
        &root.join(ratchet::PATH),
        &list.unwrap_or_default(),
        &lowered,
    )
}

/// Generates the tables of modules in `docs/modules.md`.
///
/// # Errors
/// If a file cannot be read, or the page cannot be written.
pub fn generate(root: &Path) -> Result<(), Failure> {
    let files = sources::read(root)?;
    let Some(page) = files.iter().find(|file| file.path == maps::PAGE) else {
        return Ok(());
    };
    let current = maps::generate(&page.text, &files);
    write(&root.join(maps::PAGE), &page.text, &current)
}

fn faults(files: &[File]) -> Vec<Fault> {
    let rust = files.iter().filter(|file| file.is_rust());
    let sources: Vec<Source<'_>> = rust.map(Source::from_file).collect();
    let rules = [
        circles::faults(&sources),
        functions::faults(&sources),
        lines::faults(files),
        maps::faults(files),
        glossary::faults(files),
        words::faults(files, &sources),
        types::faults(&sources),
        features::faults(&sources),
    ];
    rules.into_iter().flatten().collect()
}

/// The list of exceptions; `None` if there is no such file.
fn exceptions(root: &Path) -> Result<Option<String>, Failure> {
    let path = root.join(ratchet::PATH);
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => Ok(Some(text.map_err(|error| failure("read", &path, &error))?)),
    }
}

fn write(path: &Path, old: &str, new: &str) -> Result<(), Failure> {
    if old == new {
        return Ok(());
    }
    std::fs::write(path, new).map_err(|error| failure("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::{check, ratchet, update};

    #[test]
    fn the_tree_is_tidy() {
        let report = check(&crate::repository::root()).unwrap();
        assert!(report.messages.is_empty(), "{}", report.messages.join("\n"));
    }

    #[test]
    fn an_update_lists_exceptions_and_writes_the_map() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let page = "<!-- files of a/src -->\n<!-- end of files -->\n";
        write("docs/modules.md", page);
        write("a/Cargo.toml", "");
        write("a/src/lib.rs", &format!("//! Long{}.\n", "g".repeat(110)));
        write("xtask/Cargo.toml", "");
        let places = || {
            let messages = check(root.path()).unwrap().messages;
            let places = messages
                .iter()
                .map(|it| it.split(": ").next().unwrap().to_owned());
            places.collect::<Vec<_>>()
        };
        assert_eq!(places(), ["a/src/lib.rs:1", "docs/modules.md:2"]);
        update(root.path()).unwrap();
        assert_eq!(places(), [""; 0]);
        // Then it only shrinks.
        write("a/src/lib.rs", "//! Short.\n// Told.\n");
        update(root.path()).unwrap();
        assert_eq!(places(), ["a/src/lib.rs:2"]);
        let list = std::fs::read_to_string(root.path().join(ratchet::PATH)).unwrap();
        assert!(list.lines().all(|line| line.starts_with('#')));
        let page = std::fs::read_to_string(root.path().join("docs/modules.md")).unwrap();
        assert!(page.contains("| `lib.rs` | Short |"));
    }
}
