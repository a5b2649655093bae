//! What became of a file, and of all of them.

use crate::verify::Digest;
use laio_rt::fs::FileType;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was copied through memory.
    ReadWrite,
    /// It was copied inside the kernel.
    CopyRange,
    /// It shares the blocks of its source.
    Reflink,
    /// There was no data to copy, or none was wanted: it was made.
    Created,
    /// It was made a link to another copy, or to the source.
    Linked,
    /// Left as it was: an overwriting rule, a filter, or the user said so.
    Skipped,
}

/// What became of a file.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The source, as in messages.
    pub source: &'a Path,
    /// The destination, as in messages.
    pub destination: &'a Path,
    /// Its kind, as the directory says.
    pub kind: FileType,
    /// Bytes of data that were copied.
    pub bytes: u64,
    /// The hash of its contents, if hashes are taken.
    pub digest: Option<Digest>,
    /// What was done, or why it failed.
    pub result: Result<Done, &'a Failure>,
}

/// Is told what became of each file that is not a directory, on whichever thread copied it.
pub trait Observer: Send + Sync {
    /// A file is done with.
    fn done(&self, outcome: &Outcome<'_>);
}

/// Why a file was not copied, or not completely: for people.
#[derive(Debug)]
pub struct Failure {
    message: String,
    error: Option<io::Error>,
    of_attributes: bool,
}

impl Failure {
    /// That of a call.
    pub fn of(error: io::Error, message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            error: Some(error),
            of_attributes: false,
        }
    }

    /// One without a call.
    pub(crate) fn because(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            error: None,
            of_attributes: false,
        }
    }

    /// The same, about nothing but attributes: the file itself is complete, has its name, and stays.
    pub(crate) fn of_attributes(self) -> Failure {
        Failure {
            of_attributes: true,
            ..self
        }
    }

    /// Whether the file is there all the same, complete but for some of its attributes.
    pub fn is_of_attributes(&self) -> bool {
        self.of_attributes
    }

    /// The error of the call, if it was one that failed.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.error {
            Some(error) => write!(f, ": {}", describe(error)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// What the C library calls the error, without the number that Rust adds.
pub(crate) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// What all workers count. Each has a line of memory of its own: in one that they shared, each file would wait for it.
#[derive(Debug)]
pub(crate) struct Tally(Box<[Counters]>);

/// What a worker counts while copying.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) others: AtomicU64,
    pub(crate) linked: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) whole: AtomicU64,
    pub(crate) continued: AtomicU64,
    pub(crate) verified: AtomicU64,
    pub(crate) unverified: AtomicU64,
    pub(crate) by_memory: AtomicU64,
    pub(crate) by_range: AtomicU64,
    pub(crate) by_reflink: AtomicU64,
    /// Found in directories so far, for progress.
    pub(crate) found: AtomicU64,
    pub(crate) stolen: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Regular files copied.
    pub files: u64,
    /// Directories made or filled.
    pub directories: u64,
    /// Symbolic links, FIFOs, sockets and devices made.
    pub others: u64,
    /// Hard links made.
    pub linked: u64,
    /// Left as they were.
    pub skipped: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// What could not be copied, or not completely. Each was reported.
    pub failures: u64,
    /// What an earlier run has copied: not copied again.
    pub whole: u64,
    /// Files that an earlier run had begun.
    pub continued: u64,
    /// Copies that were found to be what their sources are.
    pub verified: u64,
    /// Copies that were not, or not their attributes. They count as failures, too.
    pub unverified: u64,
    /// Files copied through memory.
    pub by_memory: u64,
    /// Files copied inside the kernel.
    pub by_range: u64,
    /// Files that share the blocks of their source.
    pub by_reflink: u64,
    /// Directories that one worker took over from another.
    pub stolen: u64,
    /// Operations that went to the background.
    pub background: u64,
    /// The signal that ended the copy before its time.
    pub interrupted: Option<i32>,
}

impl std::ops::AddAssign<&Summary> for Summary {
    /// Adds what was counted; what interrupted it stays.
    fn add_assign(&mut self, other: &Summary) {
        self.files += other.files;
        self.directories += other.directories;
        self.others += other.others;
        self.linked += other.linked;
        self.skipped += other.skipped;
        self.bytes += other.bytes;
        self.failures += other.failures;
        self.by_memory += other.by_memory;
        self.by_range += other.by_range;
        self.by_reflink += other.by_reflink;
        self.stolen += other.stolen;
        self.background += other.background;
        self.interrupted = self.interrupted.or(other.interrupted);
    }
}

impl Tally {
    pub(crate) fn new(workers: usize) -> Tally {
        Tally((0..workers).map(|_| Counters::default()).collect())
    }

    /// Those of a worker.
    pub(crate) fn of(&self, worker: usize) -> &Counters {
        &self.0[worker]
    }

    /// The sum of one of them.
    pub(crate) fn sum(&self, which: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        let all = self.0.iter();
        all.map(|counters| which(counters).load(Ordering::Relaxed))
            .sum()
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary {
            files: self.sum(|all| &all.files),
            directories: self.sum(|all| &all.directories),
            others: self.sum(|all| &all.others),
            linked: self.sum(|all| &all.linked),
            skipped: self.sum(|all| &all.skipped),
            bytes: self.sum(|all| &all.bytes),
            failures: self.sum(|all| &all.failures),
            whole: self.sum(|all| &all.whole),
            continued: self.sum(|all| &all.continued),
            verified: self.sum(|all| &all.verified),
            unverified: self.sum(|all| &all.unverified),
            by_memory: self.sum(|all| &all.by_memory),
            by_range: self.sum(|all| &all.by_range),
            by_reflink: self.sum(|all| &all.by_reflink),
            stolen: self.sum(|all| &all.stolen),
            background: 0,
            interrupted: None,
        }
    }
}
