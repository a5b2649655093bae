//! The comparisons that were published: `laio bench getpid` and those beside it.

use crate::status::StatusLine;
use crate::{Failure, interrupt, print};
use clap::Args;
use laio_bench::published::{Comparison, Settings};
use laio_bench::record::{Cache, save};
use std::path::PathBuf;

/// Today's figures stand beside the published ones, and sentences say what still holds. Subjects take turns.
/// Cold caches are the system's, dropped before each turn, which is for root.
#[derive(Debug, Args)]
#[command(after_help = crate::EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Write all that was measured to FILE; - for standard output, in place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw plots into DIR
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// What is wanted of comparisons.
#[derive(Debug, Args)]
pub(super) struct Wanted {
    /// Minutes rather than hours: less work, fewer rounds
    #[arg(long)]
    pub(super) quick: bool,
    /// Size of what is worked on, as a part of the published
    #[arg(long, value_name = "FACTOR", value_parser = super::factor)]
    scale: Option<f64>,
    /// Turns of each subject
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..1000))]
    rounds: Option<u32>,
    /// Only these subjects, besides what others are compared with
    #[arg(long = "contestant", value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    subjects: Vec<String>,
    /// Only with caches dropped, or only with all read before
    #[arg(long, value_name = "STATE", value_parser = ["cold", "warm"])]
    cache: Option<String>,
    /// Only with so many calls in flight, or clients
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',', value_parser = count)]
    at: Vec<usize>,
    /// Where files are made [default: the temporary directory, unless it is in memory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn count(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| "not a number")?;
    (1..=10_000)
        .contains(&count)
        .then_some(count)
        .ok_or_else(|| "from 1 to 10000".to_owned())
}

impl Wanted {
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            // The very command that runs: what is measured is this build.
            laio: std::env::current_exe()
                .map_err(|error| format!("cannot find this command: {error}"))?,
            quick: self.quick,
            scale: self.scale,
            rounds: self.rounds,
            subjects: self.subjects.clone(),
            caches: match self.cache.as_deref() {
                Some("cold") => vec![Cache::Cold],
                Some("warm") => vec![Cache::Warm],
                _ => Vec::new(),
            },
            at: self.at.clone(),
            directory: self.dir.clone(),
        })
    }
}

pub(super) fn run(name: &str, arguments: &Arguments) -> Result<(), Failure> {
    let comparison = Comparison::named(name).expect("each command has its comparison");
    let stop = interrupt::listen()?;
    let settings = arguments.wanted.settings()?;
    let mut line = StatusLine::new();
    let record = comparison.run(&settings, &stop, &mut |text| line.show(text));
    line.clear();
    let record = record?;
    let sheet = comparison.show(&record);
    if let Some(directory) = &arguments.svg {
        for picture in &sheet.pictures {
            save(
                &directory.join(format!("{}.svg", picture.name)),
                &picture.svg,
            )?;
        }
    }
    let to_stdout = arguments
        .json
        .as_ref()
        .is_some_and(|file| file.as_os_str() == "-");
    match &arguments.json {
        Some(file) if !to_stdout => save(file, &record.json())?,
        _ => {}
    }
    print(&if to_stdout {
        record.json()
    } else {
        sheet.text()
    })?;
    match record.cells.iter().any(|cell| cell.verified) {
        true => Ok(()),
        false => Err("nothing could be measured; the text above says why".into()),
    }
}
