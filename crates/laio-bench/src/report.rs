//! `laio bench report`: one page of all results, with an answer to the final question of the thesis.

mod closing;
mod page;

use crate::error::Error;
use crate::published::{Comparison, Settings};
use crate::record::{Record, save};
use crate::stop::Stop;
use std::path::{Path, PathBuf};

/// The name of the page's file.
pub const PAGE: &str = "report.html";

/// Runs comparisons one after the other, and saves each result at once. Reports comparisons that failed.
///
/// # Errors
/// If a result cannot be saved.
pub fn run(
    comparisons: &[&'static Comparison],
    settings: &Settings,
    to: &Path,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<(Vec<Record>, Vec<String>), Error> {
    let (mut records, mut failures) = (Vec::new(), Vec::new());
    for comparison in comparisons {
        if stop.is_asked() {
            break;
        }
        let name = comparison.name;
        let measured = comparison.run(settings, stop, &mut |text| {
            progress(&format!("{name}: {text}"))
        });
        match measured {
            Ok(record) => {
                save(&json_of(to, &record), &record.json())?;
                records.push(record);
            }
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    Ok((records, failures))
}

fn json_of(to: &Path, record: &Record) -> PathBuf {
    to.join(format!("{}.json", record.benchmark))
}

/// Returns the page of these records.
pub fn page(records: &[Record]) -> String {
    page::html(records)
}

#[cfg(test)]
mod tests;
