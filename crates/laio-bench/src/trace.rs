//! `laio trace`: file sets, and requests for them in order; generated from a known shape, or derived from
//! access logs.
//!
//! The same seed creates the same set and the same requests, on every machine. The contents of each file
//! follow from its name (see [`crate::content`]), so a client can check them.

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

/// Requests in order, and their files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The title.
    pub name: String,
    /// How it was generated: distributions with their parameters, seed, scale, and what a log lacked.
    pub about: Vec<String>,
    /// The files, and names that are requested and do not exist.
    pub files: Vec<Entry>,
    /// The requests.
    pub requests: Vec<Request>,
}

/// A file, or a name that is requested and does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name below the served directory.
    pub name: String,
    /// The size in bytes; `None` if the file does not exist.
    pub size: Option<u64>,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The index of the requested file.
    pub file: u32,
    /// The time in seconds from the first request, if known.
    pub at: Option<Duration>,
}

/// The maximum number of requests of a trace, which must fit into memory.
pub const REQUESTS_MAX: usize = 50_000_000;
/// The maximum number of files of a set.
pub const FILES_MAX: usize = 10_000_000;

impl Trace {
    /// Returns the size of all files in bytes.
    pub fn set_bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.size).sum()
    }

    /// Returns the number of existing files.
    pub fn set_files(&self) -> usize {
        self.files.iter().filter(|file| file.size.is_some()).count()
    }

    /// Returns the size of all responses in bytes.
    pub fn transferred(&self) -> u64 {
        let size = |request: &Request| self.files[request.file as usize].size.unwrap_or(0);
        self.requests.iter().map(size).sum()
    }

    /// Returns a description of the trace.
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
