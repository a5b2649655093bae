//! The comparisons that were published, each reproduced by one command: today's figures beside those, and what
//! follows from them.

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

/// What is wanted of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The `laio` command, for those who start servers.
    pub laio: PathBuf,
    /// Minutes rather than hours.
    pub quick: bool,
    /// Size of what is worked on, as a part of the published.
    pub scale: Option<f64>,
    /// Turns of each subject.
    pub rounds: Option<u32>,
    /// Only these subjects, besides those that others are compared with; none for all.
    pub subjects: Vec<String>,
    /// Only with this in memory; none for both.
    pub caches: Vec<Cache>,
    /// Calls in flight, or clients; none for the published numbers.
    pub at: Vec<usize>,
    /// Where files are made; none to choose a directory that is not in memory.
    pub directory: Option<PathBuf>,
}

/// A comparison.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// What follows `laio bench`.
    pub name: &'static str,
    /// What is compared.
    pub what: &'static str,
    run: fn(&Settings, &Stop, Progress<'_>) -> Result<Record, Error>,
    show: fn(&Record) -> Sheet,
}

pub(crate) type Progress<'a> = &'a mut dyn FnMut(&str);

impl Comparison {
    /// All, in the order of the publications.
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

    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Comparison> {
        Comparison::ALL.iter().find(|one| one.name == name)
    }

    /// Measures. `progress` is told what is being done.
    ///
    /// # Errors
    /// Files cannot be made, or `stop` was asked. A subject that is not there or fails is left out, with the reason.
    pub fn run(
        &self,
        settings: &Settings,
        stop: &Stop,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Record, Error> {
        (self.run)(settings, stop, progress)
    }

    /// What a record of it shows.
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

    /// The record of a comparison that begins now, and the directory in which files are made.
    fn begin(&self, name: &str, rounds: u32) -> Result<(Record, laio::probe::Directory), Error> {
        let directory = choose_directory(self.directory.as_deref())?;
        let mut record = Record::begin(name, Machine::of(&directory));
        record
            .settings
            .insert("rounds".to_owned(), rounds.to_string());
        Ok((record, directory))
    }
}

/// The names of subjects that can be named.
pub fn subjects() -> Vec<&'static str> {
    crate::strategy::Strategy::ALL
        .map(crate::strategy::Strategy::name)
        .to_vec()
}
