//! The published comparisons, each reproduced by one command: today's figures next to the published ones, and
//! conclusions.

mod copies;
mod files;
mod getpid;
mod rmw;
mod servers;
mod share;

use crate::calls::workspace::choose_directory;
use crate::error::Error;
use crate::machine::Machine;
use crate::record::{Cache, Record};
use crate::sheet::Sheet;
use crate::stop::Stop;
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
    /// The number of turns of each subject.
    pub rounds: Option<u32>,
    /// Only these subjects, besides the ones that others are compared with; empty for all.
    pub subjects: Vec<String>,
    /// Only this cache state; `None` for both.
    pub caches: Vec<Cache>,
    /// The numbers of calls in flight, or of clients; empty for the published numbers.
    pub at: Vec<usize>,
    /// The directory for files; `None` chooses one that is not in memory.
    pub directory: Option<PathBuf>,
}

/// A published comparison.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// The subcommand of `laio bench`.
    pub name: &'static str,
    /// A description.
    pub what: &'static str,
    run: fn(&Settings, &Stop, Progress<'_>) -> Result<Record, Error>,
    show: fn(&Record) -> Sheet,
}

pub(crate) type Progress<'a> = &'a mut dyn FnMut(&str);

impl Comparison {
    /// All comparisons, in the order of the publications.
    pub const ALL: &[Comparison] = &[
        Comparison {
            name: "getpid",
            what: "a million getpid, plainly and through every back end (thesis, table 2)",
            run: getpid::run,
            show: getpid::show,
        },
        Comparison {
            name: "open-stat",
            what: "open and stat of the files of a trace (thesis, table 3)",
            run: files::run_open_stat,
            show: files::show,
        },
        Comparison {
            name: "open-stat-read",
            what: "open, stat and read of the files of a trace (thesis, table 4)",
            run: files::run_open_stat_read,
            show: files::show,
        },
        Comparison {
            name: "rmw",
            what: "read, modify and write back blocks of a file with O_DIRECT (Yoo, figures 3 to 6)",
            run: rmw::run,
            show: rmw::show,
        },
        Comparison {
            name: "lazy-share",
            what: "the share of potentially blocking calls that do not block (LAIO, why be lazy)",
            run: share::run,
            show: share::show,
        },
        Comparison {
            name: "clients",
            what: "servers by the number of their clients (thesis, figures 6 to 13)",
            run: servers::run_clients,
            show: servers::show_clients,
        },
        Comparison {
            name: "flash",
            what: "one server with four kinds of disk I/O (LAIO, large and small workload)",
            run: servers::run_flash,
            show: servers::show_flash,
        },
        Comparison {
            name: "lighttpd",
            what: "asynchronous bodies, chunks, and stat (lighttpd 1.5)",
            run: servers::run_lighttpd,
            show: servers::show_lighttpd,
        },
        Comparison {
            name: "cp",
            what: "recursive copies (Parikh and Surendran, table 1)",
            run: copies::run,
            show: copies::show,
        },
    ];

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
        (self.run)(settings, stop, progress)
    }

    /// Returns the tables, plots and conclusions of a record.
    pub fn show(&self, record: &Record) -> Sheet {
        (self.show)(record)
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

    /// Returns a new record, and the directory for files.
    fn begin(&self, name: &str, rounds: u32) -> Result<(Record, laio::probe::Directory), Error> {
        let directory = choose_directory(self.directory.as_deref())?;
        let mut record = Record::begin(name, Machine::of(&directory));
        record
            .settings
            .insert("rounds".to_owned(), rounds.to_string());
        Ok((record, directory))
    }
}

/// Returns the names of all subjects.
pub fn subjects() -> Vec<&'static str> {
    crate::strategy::Strategy::ALL
        .map(crate::strategy::Strategy::name)
        .to_vec()
}
