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
pub struct FileResult<'a> {
    /// The path of the source, as in messages.
    pub source: &'a Path,
    /// The path of the destination, as in messages.
    pub target: &'a Path,
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
    fn done(&self, outcome: &FileResult<'_>);
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

/// Makes a failure without an error of a call, from a format string.
macro_rules! failure {
    ($($text:tt)*) => { $crate::outcome::Failure::from_message(format!($($text)*)) };
}
pub(crate) use failure;

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

/// The texts that musl has in other words than the GNU C library, of the errors that calls on files return.
const GNU_TEXTS: [(i32, &str); 18] = [
    (libc::EIO, "Input/output error"),
    (libc::ENOMEM, "Cannot allocate memory"),
    (libc::EBUSY, "Device or resource busy"),
    (libc::EXDEV, "Invalid cross-device link"),
    (libc::EMFILE, "Too many open files"),
    (libc::ENOTTY, "Inappropriate ioctl for device"),
    (libc::ESPIPE, "Illegal seek"),
    (libc::ERANGE, "Numerical result out of range"),
    (libc::EDEADLK, "Resource deadlock avoided"),
    (libc::ENAMETOOLONG, "File name too long"),
    (libc::ELOOP, "Too many levels of symbolic links"),
    (libc::EREMOTE, "Object is remote"),
    (libc::EOVERFLOW, "Value too large for defined data type"),
    (libc::EOPNOTSUPP, "Operation not supported"),
    (libc::ETIMEDOUT, "Connection timed out"),
    (libc::EHOSTUNREACH, "No route to host"),
    (libc::EUCLEAN, "Structure needs cleaning"),
    (libc::EDQUOT, "Disk quota exceeded"),
];

/// The text of an error, without the number that Rust appends. It is that of the GNU C library with musl too, because
/// programs may look for it in the messages of GNU cp.
pub(crate) fn error_text(error: &io::Error) -> String {
    let gnu = GNU_TEXTS
        .iter()
        .find(|(number, _)| error.raw_os_error() == Some(*number));
    if let Some((_, text)) = gnu {
        return (*text).to_owned();
    }
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

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Declares what is counted: by each worker, and in the totals.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one worker.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            /// Files found in directories so far, for progress.
            pub(crate) found: AtomicU64,
        }

        /// The totals of a copy.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Summary {
            $($(#[$doc])* pub $name: u64,)*
            /// Operations that went to the background.
            pub background: u64,
            /// The signal that interrupted the copy.
            pub interrupted: Option<i32>,
        }

        impl std::ops::AddAssign<&Summary> for Summary {
            /// Adds the counters; keeps the first interrupting signal.
            fn add_assign(&mut self, other: &Summary) {
                $(self.$name += other.$name;)*
                self.background += other.background;
                self.interrupted = self.interrupted.or(other.interrupted);
            }
        }

        impl Tally {
            /// The totals of all workers.
            pub(crate) fn summary(&self) -> Summary {
                Summary {
                    $($name: self.sum(|all| &all.$name),)*
                    ..Summary::default()
                }
            }
        }
    };
}

counters! {
    /// Regular files copied.
    files,
    /// Directories created or filled.
    directories,
    /// Symbolic links, FIFOs, sockets and devices created.
    others,
    /// Hard links created.
    linked,
    /// Files left as they were.
    skipped,
    /// Bytes of data copied.
    bytes,
    /// Files that were not copied completely. Each failure was printed.
    failures,
    /// Files that an earlier run had copied completely.
    whole,
    /// Partial files of an earlier run that were continued.
    continued,
    /// Copies that were verified successfully.
    verified,
    /// Copies whose data or attributes differ from the source. They also count as failures.
    unverified,
    /// Files copied through a buffer.
    by_memory,
    /// Files copied by `copy_file_range`.
    by_range,
    /// Files that share the blocks of their source.
    by_reflink,
    /// Work items that one worker took from another.
    stolen,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is used with every C library; with the GNU one it must change nothing.
    #[cfg(target_env = "gnu")]
    #[test]
    fn the_texts_are_those_of_the_c_library() {
        for (number, text) in GNU_TEXTS {
            let whole = format!("{text} (os error {number})");
            assert_eq!(io::Error::from_raw_os_error(number).to_string(), whole);
        }
    }

    #[test]
    fn an_error_has_no_number() {
        let text = |number| error_text(&io::Error::from_raw_os_error(number));
        assert_eq!(text(libc::ELOOP), "Too many levels of symbolic links");
        assert_eq!(text(libc::ENOENT), "No such file or directory");
    }
}
