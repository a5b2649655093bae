//! `laio bench growth`.

use super::published::{self, Results, Wanted};
use crate::Failure;
use clap::Args;
use laio_bench::published::Comparison;

/// Measures the processor time of each request, listed entry, copied file and operation, as their number grows by
/// decades, and draws a plot of each. Contestants take turns.
#[derive(Debug, Args)]
#[command(after_help = crate::EXIT_CODES)]
pub(crate) struct Arguments {
    /// Only this number that grows: connections, "distinct files", "directory entries", "files copied", "operations in
    /// flight"
    #[arg(long = "axis", value_name = "NAME", num_args = 1.., value_delimiter = ',', value_parser = axis)]
    axes: Vec<String>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    results: Results,
}

fn axis(name: &str) -> Result<String, String> {
    let axes: Vec<_> = Comparison::axes().collect();
    if axes.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(format!("the axes are {}", axes.join(", ")))
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut settings = arguments.wanted.settings()?;
    settings.workloads.clone_from(&arguments.axes);
    published::measure("growth", &settings, &arguments.results)
}
