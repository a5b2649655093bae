//! Checks the structure of the tree: `cargo xtask tidy`.

mod fault;
mod functions;
mod sources;
mod tokens;
mod types;

use crate::Failure;
use sources::Source;
use std::path::Path;

/// Checks the tree by all rules; returns a line for each fault.
///
/// # Errors
/// If a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>, Failure> {
    let files = sources::read(root)?;
    let rust = files.iter().filter(|file| file.is_rust());
    let sources: Vec<Source<'_>> = rust.map(Source::of).collect();
    let faults = functions::faults(&sources).into_iter();
    let faults = faults.chain(types::faults(&sources));
    let messages = faults.map(|fault| {
        let (place, what, rule, key) = (fault.place, fault.what, fault.rule, fault.key);
        format!("{place}: {what} ({rule} {key})")
    });
    Ok(messages.collect())
}
