//! The results of single files, and of the whole copy.

use crate::digest::Digest;
use laio_rt::fs::FileType;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was copied through a buffer.
    ReadWrite,
    /// It was copied by `copy_file_range`.
    CopyRange,
    /// It shares the blocks of its source.
    Reflink,
    /// It was created; it has no data, or no data was wanted.
    Created,
    /// It is a link to another copy, or to the source.
    Linked,
    /// It was left as it was, because of an option, a filter, or the user's answer.
    Skipped,
}

/// The result of one file.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The path of the source, as in messages.
    pub source: &'a Path,
    /// The path of the destination, as in messages.
    pub destination: &'a Path,
    /// The file type, as the directory reports it.
    pub kind: FileType,
    /// The number of data bytes copied.
    pub bytes: u64,
    /// The hash of the contents, if one was computed.
    pub digest: Option<Digest>,
    /// What was done with the file, or why it failed.
    pub result: Result<Done, &'a Failure>,
}

/// The result of copying a file.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) done: Done,
    pub(crate) bytes: u64,
    pub(crate) detail: Option<DebugDetail>,
    pub(crate) digest: Option<Digest>,
}

impl Copied {
    pub(crate) fn without_data(done: Done) -> Copied {
        Copied {
            done,
            bytes: 0,
            detail: None,
            digest: None,
        }
    }
}

/// The methods that were used, in the words of GNU's `cp --debug`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DebugDetail {
    pub(crate) offload: &'static str,
    pub(crate) reflink: &'static str,
    pub(crate) sparse: &'static str,
}

impl fmt::Display for DebugDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "copy offload: {}, reflink: {}, sparse detection: {}",
            self.offload, self.reflink, self.sparse
        )
    }
}

/// Receives the result of each file that is not a directory, on the thread that copied it.
pub trait Observer: Send + Sync {
    /// Called when a file is finished.
    fn done(&self, outcome: &Outcome<'_>);
}

/// Why a file was not copied completely.
#[derive(Debug)]
pub struct Failure {
    message: String,
    error: Option<io::Error>,
    attributes_only: bool,
}

impl Failure {
    /// Makes a failure from the error of a call.
    pub fn from_error(error: io::Error, message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            error: Some(error),
            attributes_only: false,
        }
    }

    /// Makes a failure without an error of a call.
    pub(crate) fn from_message(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            error: None,
            attributes_only: false,
        }
    }

    /// Marks the failure as one of attributes only: the file's data is complete, and it has its
    /// name.
    pub(crate) fn attributes_only(self) -> Failure {
        Failure {
            attributes_only: true,
            ..self
        }
    }

    /// Whether only attributes failed, so that the file exists with all its data.
    pub fn only_attributes_failed(&self) -> bool {
        self.attributes_only
    }

    /// The error of the failed call, if any.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.error {
            Some(error) => write!(f, ": {}", error_text(error)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// The C library's text of an error, without the number that Rust appends.
pub(crate) fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The counters of all workers. Each worker has its own cache line, because a shared one would
/// bounce between processors.
#[derive(Debug)]
pub(crate) struct Tally(Box<[Counters]>);

/// The counters of one worker.
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
    /// Files found in directories so far, for progress.
    pub(crate) found: AtomicU64,
    pub(crate) stolen: AtomicU64,
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The totals of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Regular files copied.
    pub files: u64,
    /// Directories created or filled.
    pub directories: u64,
    /// Symbolic links, FIFOs, sockets and devices created.
    pub others: u64,
    /// Hard links created.
    pub linked: u64,
    /// Files left as they were.
    pub skipped: u64,
    /// Bytes of data copied.
    pub bytes: u64,
    /// Files that were not copied completely. Each failure was printed.
    pub failures: u64,
    /// Files that an earlier run had copied completely.
    pub whole: u64,
    /// Partial files of an earlier run that were continued.
    pub continued: u64,
    /// Copies that were verified successfully.
    pub verified: u64,
    /// Copies whose data or attributes differ from the source. They also count as failures.
    pub unverified: u64,
    /// Files copied through a buffer.
    pub by_memory: u64,
    /// Files copied by `copy_file_range`.
    pub by_range: u64,
    /// Files that share the blocks of their source.
    pub by_reflink: u64,
    /// Work items that one worker took from another.
    pub stolen: u64,
    /// Operations that went to the background.
    pub background: u64,
    /// The signal that interrupted the copy.
    pub interrupted: Option<i32>,
}

impl std::ops::AddAssign<&Summary> for Summary {
    /// Adds the counters; keeps the first interrupting signal.
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

    /// The counters of a worker.
    pub(crate) fn of(&self, worker: usize) -> &Counters {
        &self.0[worker]
    }

    /// The sum of one counter over all workers.
    pub(crate) fn sum(&self, which: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        let all = self.0.iter();
        all.map(|counters| which(counters).load(Ordering::Relaxed))
            .sum()
    }

    /// The totals of all workers.
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
