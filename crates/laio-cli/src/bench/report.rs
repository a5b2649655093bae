//! `laio bench report`.

use super::published::Wanted;
use crate::status::StatusLine;
use crate::{Failure, interrupt, print};
use clap::Args;
use laio_bench::published::Comparison;
use laio_bench::record::{Record, load, save};
use laio_bench::report::{self, PAGE};
use std::path::PathBuf;

/// Runs comparisons, or reads saved results, and writes one page of tables, plots and conclusions. Saves each
/// result in the directory of the page when it is complete.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Arguments {
    /// Comparisons: quick (all of them, minutes), full (all of them, hours), or names
    #[arg(long, value_name = "SET", num_args = 1.., value_delimiter = ',', default_value = "quick")]
    set: Vec<String>,
    #[command(flatten)]
    wanted: Wanted,
    /// Run nothing: read these results
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "set")]
    from: Vec<PathBuf>,
    /// Directory for the page and the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    to: PathBuf,
}

fn help() -> String {
    let mut help = "Comparisons:\n".to_owned();
    for one in Comparison::ALL {
        help.push_str(&format!("  {:<16}{}\n", one.name, one.what));
    }
    help + "\n" + crate::EXIT_CODES
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (records, failures) = match arguments.from.as_slice() {
        [] => measure(arguments)?,
        files => {
            let records: Result<Vec<Record>, _> = files.iter().map(|file| load(file)).collect();
            (records?, Vec::new())
        }
    };
    if records.is_empty() {
        return Err(format!("nothing was measured: {}", failures.join("; ")).into());
    }
    let page = arguments.to.join(PAGE);
    save(&page, &report::page(&records))?;
    print(&format!("{}\n", page.display()))?;
    match failures.as_slice() {
        [] => Ok(()),
        failures => Err(failures.join("; ").into()),
    }
}

fn measure(arguments: &Arguments) -> Result<(Vec<Record>, Vec<String>), Failure> {
    let mut settings = arguments.wanted.settings()?;
    let mut comparisons = Vec::new();
    for name in &arguments.set {
        match name.as_str() {
            "quick" => {
                settings.quick = true;
                comparisons.extend(Comparison::ALL);
            }
            "full" => comparisons.extend(Comparison::ALL),
            name => comparisons.push(Comparison::named(name).ok_or_else(|| {
                let known: Vec<_> = Comparison::ALL.iter().map(|one| one.name).collect();
                format!(
                    "there is no comparison `{name}`; there are {}",
                    known.join(", ")
                )
            })?),
        }
    }
    let stop = interrupt::listen()?;
    let mut line = StatusLine::new();
    let measured = report::run(&comparisons, &settings, &arguments.to, &stop, &mut |text| {
        line.show(text)
    });
    line.clear();
    Ok(measured?)
}
