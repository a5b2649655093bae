//! The published comparisons: `laio bench getpid` and others.

use crate::status::StatusLine;
use crate::{Failure, interrupt, print};
use clap::Args;
use laio_bench::published::{Comparison, Settings};
use laio_bench::record::{Cache, Record, save};
use std::path::PathBuf;

/// Shows today's figures next to the published ones, and which published claims still hold. Contestants take
/// turns. Cold caches means that the system's caches are dropped before each turn, which only root may do.
#[derive(Debug, Args)]
#[command(after_help = crate::EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    results: Results,
}

/// Where the results go: options that `laio bench cp` shares.
#[derive(Debug, Args)]
pub(super) struct Results {
    /// Write all results to FILE as JSON; - writes them to standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots into DIR
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Options that `laio bench report` shares.
#[derive(Debug, Args)]
pub(super) struct Wanted {
    /// Minutes rather than hours: less work, fewer rounds
    #[arg(long)]
    pub(super) quick: bool,
    /// Size of the workload, as a fraction of the published one
    #[arg(long, value_name = "FACTOR", value_parser = super::factor)]
    scale: Option<f64>,
    /// Number of turns of each contestant
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    rounds: Option<u32>,
    /// Only these contestants, besides the ones that others are compared with
    #[arg(long = "contestant", value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    subjects: Vec<String>,
    /// Only with dropped caches, or only with all files read before
    #[arg(long, value_name = "STATE", value_parser = ["cold", "warm"])]
    cache: Option<String>,
    /// Only with this number of calls in flight, or clients
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', value_parser = count)]
    at: Vec<usize>,
    /// Directory for files [default: the temporary directory, unless it is in memory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn count(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| "not a number")?;
    (1..=1_000_000)
        .contains(&count)
        .then_some(count)
        .ok_or_else(|| "from 1 to 1000000".to_owned())
}

/// Returns the cache states that an argument selects; none for all.
pub(super) fn caches(named: Option<&str>) -> Vec<Cache> {
    match named {
        Some("cold") => vec![Cache::Cold],
        Some("warm") => vec![Cache::Warm],
        _ => Vec::new(),
    }
}

/// Returns this executable, so that this build is measured.
pub(super) fn this_command() -> Result<PathBuf, Failure> {
    let found = std::env::current_exe();
    Ok(found.map_err(|error| format!("cannot find this command: {error}"))?)
}

impl Wanted {
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            laio: this_command()?,
            quick: self.quick,
            scale: self.scale,
            rounds: self.rounds,
            subjects: self.subjects.clone(),
            caches: caches(self.cache.as_deref()),
            at: self.at.clone(),
            workloads: Vec::new(),
            directory: self.dir.clone(),
        })
    }
}

pub(super) fn run(name: &str, arguments: &Arguments) -> Result<(), Failure> {
    measure(name, &arguments.wanted.settings()?, &arguments.results)
}

/// Runs a comparison, and shows its results.
pub(super) fn measure(name: &str, settings: &Settings, results: &Results) -> Result<(), Failure> {
    let comparison = Comparison::named(name).expect("each command has its comparison");
    let stop = interrupt::listen()?;
    let mut line = StatusLine::new();
    let record = comparison.run(settings, &stop, &mut |text| line.show(text));
    line.clear();
    let record = record?;
    results.show(comparison, &record)?;
    if record.cells.iter().any(|cell| cell.verified) {
        Ok(())
    } else {
        Err("nothing could be measured; the text above says why".into())
    }
}

impl Results {
    /// Prints and saves the results of a comparison.
    pub(super) fn show(&self, comparison: &Comparison, record: &Record) -> Result<(), Failure> {
        let sheet = comparison.show(record);
        if let Some(directory) = &self.svg {
            for picture in &sheet.pictures {
                let file = directory.join(format!("{}.svg", picture.name));
                save(&file, &picture.svg)?;
            }
        }
        match &self.json {
            Some(file) if file.as_os_str() == "-" => return print(&record.json()),
            Some(file) => save(file, &record.json())?,
            None => {}
        }
        print(&sheet.text())
    }
}
