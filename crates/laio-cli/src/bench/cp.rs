//! `laio bench cp`.

use super::published::{Results, caches, this_command};
use crate::status::StatusLine;
use crate::{Failure, interrupt};
use clap::Args;
use laio_bench::copy::{self, Settings, Subject, Workload};
use laio_bench::published::Comparison;
use laio_bench::record::Cache;
use std::path::PathBuf;

/// In each round every contestant copies the same tree once, in turns; times are those of whole processes.
/// Each copy is compared with its source, and in the first round also by rsync where it is installed. Cold
/// copies drop the system's caches, which only root may do.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Arguments {
    /// Only these trees [default: all]
    #[arg(long = "tree", value_name = "NAME|DIR", num_args = 1.., value_delimiter = ',')]
    trees: Vec<String>,
    /// Only these contestants; GNU cp always takes part
    #[arg(long = "contestant", value_name = "NAME", num_args = 1.., value_delimiter = ',', value_parser = subject)]
    subjects: Vec<String>,
    /// A few minutes: fewer and smaller trees, three rounds, of laio cp only the default back end
    #[arg(long)]
    quick: bool,
    /// Size of generated trees, as a fraction of the usual size; those of table 1 stay as published
    #[arg(long, value_name = "FACTOR", value_parser = super::factor)]
    scale: Option<f64>,
    /// Number of copies of each tree by each contestant [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    rounds: Option<u32>,
    /// Only with dropped caches, or only with all files read before
    #[arg(long, value_name = "STATE", value_parser = ["cold", "warm"])]
    cache: Option<String>,
    /// Directory for trees and copies
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    results: Results,
}

fn help() -> String {
    let mut help = "Trees (or any directory, by a name with a slash in it):\n".to_owned();
    for (name, what) in Workload::names() {
        help.push_str(&format!("  {name:<10}{what}\n"));
    }
    help.push_str("\nContestants (those that are not installed are left out):\n");
    for one in Subject::all() {
        help.push_str(&format!("  {one}\n"));
    }
    help + "\n" + crate::EXIT_CODES
}

fn subject(name: &str) -> Result<String, String> {
    let all = Subject::all();
    let found = all.iter().find(|one| one.is_named(name));
    found.map(|one| one.name().to_owned()).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(Subject::name).collect();
        format!("the contestants are {}", names.join(", "))
    })
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let stop = interrupt::listen()?;
    let settings = settings(&arguments)?;
    let mut line = StatusLine::new();
    let record = copy::run(&settings, &stop, &mut |text| line.show(text));
    line.clear();
    let record = record?;
    let comparison = Comparison::named("cp").expect("each command has its comparison");
    arguments.results.show(comparison, &record)?;
    if record.cells.is_empty() {
        return Err("nothing could be measured".into());
    }
    if stop.is_asked() {
        return Err("stopped by a signal".into());
    }
    if copy::ours_were_right(&record) {
        Ok(())
    } else {
        Err("a copy by laio failed or was wrong; the tables say which".into())
    }
}

fn settings(arguments: &Arguments) -> Result<Settings, Failure> {
    let scale = arguments
        .scale
        .unwrap_or(if arguments.quick { 0.05 } else { 1.0 });
    Ok(Settings {
        laio: this_command()?,
        workloads: workloads(arguments, scale)?,
        subjects: Subject::chosen(arguments.quick, &arguments.subjects),
        caches: match caches(arguments.cache.as_deref()) {
            none if none.is_empty() => vec![Cache::Cold, Cache::Warm],
            caches => caches,
        },
        rounds: arguments
            .rounds
            .unwrap_or(if arguments.quick { 3 } else { 5 }),
        directory: arguments.dir.clone(),
    })
}

fn workloads(arguments: &Arguments, scale: f64) -> Result<Vec<Workload>, Failure> {
    let mut workloads = Vec::new();
    if !arguments.trees.is_empty() {
        for name in &arguments.trees {
            if name.contains('/') {
                workloads.push(Workload::Given(name.into()))
            } else {
                workloads.extend(Workload::named(name, scale)?)
            }
        }
        return Ok(workloads);
    }
    for (name, _) in Workload::names() {
        match (name, arguments.quick) {
            ("table1", true) => workloads.extend(Workload::table1(&[4, 64])),
            // A given directory is not scaled.
            ("usr", true) => {}
            _ => workloads.extend(Workload::named(name, scale)?),
        }
    }
    Ok(workloads)
}
