//! The published comparisons, each reproduced by one command: today's figures next to the published ones, and
//! conclusions.

pub(crate) mod claim;
mod copies;
pub(crate) mod figure;
mod files;
mod getpid;
mod growth;
mod reasons;
mod rmw;
mod run;
mod servers;
mod share;
mod table;
mod tokio_fs;

use crate::error::Error;
use crate::record::{Cache, Record};
use crate::sheet::Sheet;
use crate::stop::Stop;
use figure::Presentation;
use run::Run;
use std::path::PathBuf;

/// The options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The `laio` command, for comparisons that start servers.
    pub laio: PathBuf,
    /// Minutes rather than hours.
    pub quick: bool,
    /// The size of the workload, as a fraction of the published one.
    pub scale: Option<f64>,
    /// The number of rounds, in each of which every subject has a turn.
    pub rounds: Option<u32>,
    /// Only these subjects, besides the ones that others are compared with; empty for all.
    pub subjects: Vec<String>,
    /// Only these cache states; empty for both.
    pub caches: Vec<Cache>,
    /// The numbers of calls in flight, or of clients; empty for the published numbers.
    pub at: Vec<usize>,
    /// Only these workloads; empty for all. Only for comparisons that say so.
    pub workloads: Vec<String>,
    /// The directory for files; `None` chooses one that is not in memory.
    pub directory: Option<PathBuf>,
}

/// A published comparison.
#[derive(Debug)]
pub struct Comparison {
    /// The subcommand of `laio bench`.
    pub name: &'static str,
    /// A description.
    pub what: &'static str,
    /// The numbers of rounds of a quick run and of a full one.
    rounds: (u32, u32),
    run: fn(&mut Run<'_>) -> Result<(), Error>,
    /// Returns a record with cases as the presentation names them.
    view: fn(&Record) -> Record,
    shown: Presentation,
}

pub(crate) type Progress<'a> = &'a mut dyn FnMut(&str);

impl Comparison {
    /// All comparisons, in the order of the publications.
    pub const ALL: &[Comparison] = table::COMPARISONS;

    /// The axes of `growth`, which are its workloads.
    pub fn axes() -> impl Iterator<Item = &'static str> {
        growth::axes()
    }

    /// Returns the comparison with this name.
    pub fn named(name: &str) -> Option<&'static Comparison> {
        Comparison::ALL.iter().find(|one| one.name == name)
    }

    /// Runs the comparison. `progress` receives a line for each step.
    ///
    /// # Errors
    /// If a file cannot be created, or `stop` is requested. A subject that is missing or fails is left out,
    /// with the reason.
    pub fn run(
        &self,
        settings: &Settings,
        stop: &Stop,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Record, Error> {
        let mut run = Run::begin(self, settings, stop, progress)?;
        (self.run)(&mut run)?;
        Ok(run.record)
    }

    /// Returns the tables, plots and conclusions of a record.
    pub fn show(&self, record: &Record) -> Sheet {
        let mut sheet = Sheet::from_record(record, &format!("{}: {}", self.name, self.what));
        self.shown.show(&mut sheet, &(self.view)(record));
        sheet
    }
}

impl Settings {
    fn rounds(&self, quick: u32, full: u32) -> u32 {
        self.rounds.unwrap_or(if self.quick { quick } else { full })
    }

    fn scale(&self, quick: f64) -> f64 {
        self.scale.unwrap_or(if self.quick { quick } else { 1.0 })
    }

    fn at(&self, usual: &[usize]) -> Vec<usize> {
        match self.at.as_slice() {
            [] => usual.to_vec(),
            asked => asked.to_vec(),
        }
    }

    fn caches(&self) -> Vec<Cache> {
        match self.caches.as_slice() {
            [] => vec![Cache::Cold, Cache::Warm],
            asked => asked.to_vec(),
        }
    }

    /// Whether a subject takes part.
    fn takes(&self, name: &str) -> bool {
        self.subjects.is_empty() || self.subjects.iter().any(|one| one == name)
    }
}
