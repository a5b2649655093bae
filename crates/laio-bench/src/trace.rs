//! `laio trace`: file sets, and requests for them in order; made up to a stated shape, or taken from access logs.
//!
//! The same seed gives the same set and the same requests, on every machine. What is in each file follows from
//! its name (see [`crate::content`]), so who fetches it can check it.

mod distribution;
mod file;
mod import;
mod line;
mod name;
mod pictures;
mod preset;
mod set;
mod shape;

pub use distribution::{Sizes, Zipf};
pub use file::{NAME as FILE_NAME, read, write};
pub use import::{Import, import, import_bytes};
pub use name::{file_of, target_of};
pub use pictures::pictures;
pub use preset::Preset;
pub use set::{FILES, make};

use std::time::Duration;

/// Requests in order, and the files they are for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What it is.
    pub name: String,
    /// How it was made: distributions with their parameters, seed, scale, what a log lacked.
    pub about: Vec<String>,
    /// The files, and names that are asked for and not there.
    pub files: Vec<Entry>,
    /// The requests.
    pub requests: Vec<Request>,
}

/// A file, or a name that is asked for and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name below the directory that is served.
    pub name: String,
    /// Bytes; none if there is to be no such file.
    pub size: Option<u64>,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index of what is asked for.
    pub file: u32,
    /// When, from the first request on, if that is known.
    pub at: Option<Duration>,
}

/// Most requests of a trace: what fits comfortably into memory.
pub const REQUESTS_MAX: usize = 50_000_000;
/// Most files of a set.
pub const FILES_MAX: usize = 10_000_000;

impl Trace {
    /// Bytes of all files together.
    pub fn set_bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.size).sum()
    }

    /// Files that are there.
    pub fn set_files(&self) -> usize {
        self.files.iter().filter(|file| file.size.is_some()).count()
    }

    /// Bytes of all answers together.
    pub fn transferred(&self) -> u64 {
        let size = |request: &Request| self.files[request.file as usize].size.unwrap_or(0);
        self.requests.iter().map(size).sum()
    }

    /// What it is, for people.
    pub fn summary(&self) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let absent = self.files.len() - self.set_files();
        let mut text = format!(
            "{}\n  requests     {}\n  files        {} ({:.1} MiB)\n  transferred  {:.1} MiB\n",
            self.name,
            self.requests.len(),
            self.set_files(),
            mib(self.set_bytes()),
            mib(self.transferred()),
        );
        if absent > 0 {
            text.push_str(&format!("  not there    {absent} names\n"));
        }
        for line in &self.about {
            text.push_str(&format!("  {line}\n"));
        }
        text
    }
}
