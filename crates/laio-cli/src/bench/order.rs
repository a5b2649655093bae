//! `laio bench order`.

use crate::status::StatusLine;
use crate::{Failure, print};
use clap::Args;
use laio_bench::calls::CallVariant;
use laio_bench::order::{self, Settings};
use std::path::PathBuf;

/// Starts operations at once, with and without the ordered mode of their descriptor: direct reads, whose
/// order of completion is shown, and appending writes, whose order in the file is that of issue.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these back ends
    #[arg(long = "backend", value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    backends: Vec<CallVariant>,
    /// Number of operations started at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    operations: u32,
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repetitions: u32,
    /// Directory for files [default: the temporary directory, unless it is in memory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print one JSON array, an object for each back end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let usual = Settings::default();
    let settings = Settings {
        variants: match arguments.backends.as_slice() {
            [] => usual.variants,
            named => CallVariant::all()
                .filter(|one| named.contains(one))
                .collect(),
        },
        operations: arguments.operations as usize,
        repetitions: arguments.repetitions as usize,
        directory: arguments.directory,
    };
    let mut line = StatusLine::new();
    let report = order::run(&settings, &mut |text| line.show(text));
    line.clear();
    let report = report?;
    print(&if arguments.json {
        report.json()
    } else {
        report.table()
    })
}
