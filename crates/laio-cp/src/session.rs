//! The settings of a copy, its reports, and what it has done so far; shared by all workers.

use crate::console::Console;
use crate::lock::lock;
use crate::manifest::Manifest;
use crate::options::{Follow, Options};
use crate::outcome::{Failure, Tally, count};
use crate::rate::Rate;
use crate::stop::Stop;
use crate::tree::temporary::resumable_name;
use crate::tree::{CreatedFiles, Entry, SeenTargets, TemporaryNames};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The settings of a copy, its reports, and what it has done so far.
pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) process: Process,
    pub(crate) phase: Phase,
    /// Whether the sources come from a list, which also names the contents of directories.
    pub(crate) is_listed: bool,
    pub(crate) console: Console,
    pub(crate) tally: Arc<Tally>,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) stop: Stop,
    pub(crate) rate: Option<Rate>,
    pub(crate) created: CreatedFiles,
    pub(crate) seen_targets: SeenTargets,
    pub(crate) temporary_names: TemporaryNames,
    problems: Mutex<Problems>,
}

/// What this process does: a whole copy, or one phase of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    WholeCopy,
    /// `--plan`: directories are created, files are recorded.
    Plan,
    /// `--work` and `--finish`: names come from a plan, so directories exist, and an earlier
    /// attempt may have created files.
    Planned,
}

/// What the report of a phase says of files that were not copied.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    /// The first errors.
    pub(crate) errors: Vec<String>,
    /// The paths of the copies that do not exist.
    pub(crate) lost: Vec<PathBuf>,
}

/// The maximum number of errors that a report contains; further errors are counted.
const ERRORS_KEPT: usize = 1000;

/// The process's identity and umask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) umask: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Process {
    pub(crate) fn current() -> Process {
        Process {
            umask: umask(),
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }

    /// Whether the process may change owners.
    pub(crate) fn is_privileged(&self) -> bool {
        self.user == 0
    }
}

/// Reads the umask from `/proc`: `umask(2)` would change it, visibly to other threads. Without
/// `/proc`, sets it to 077 for a moment: files created meanwhile get fewer permissions, not more.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    mask.unwrap_or_else(|| {
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        rustix::process::umask(mask);
        mask.as_raw_mode()
    })
}

impl Session {
    /// The session of one phase, with all counters at zero.
    pub(crate) fn new(
        options: Options,
        phase: Phase,
        is_listed: bool,
        (console, tally, stop): (Console, Arc<Tally>, Stop),
    ) -> Session {
        Session {
            process: Process::current(),
            phase,
            is_listed,
            console,
            tally,
            manifest: None,
            stop,
            rate: options.rate.map(Rate::new),
            created: CreatedFiles::default(),
            seen_targets: SeenTargets::default(),
            temporary_names: TemporaryNames::of_process(),
            problems: Mutex::default(),
            options,
        }
    }

    /// A temporary name for a link or a special file that replaces another file. With `--resume`, a later run
    /// recognizes it, and removes it if this process was killed.
    pub(crate) fn name_for_replacement(&self) -> OsString {
        let name = self.temporary_names.next();
        if self.options.resume {
            resumable_name([name.as_bytes()])
        } else {
            name
        }
    }

    /// Prints and counts a failure.
    pub(crate) fn report_failure(&self, failure: &Failure) {
        self.console.warn(failure);
        count(&self.tally.of(0).failures);
        if self.phase != Phase::WholeCopy {
            let mut problems = lock(&self.problems);
            if problems.errors.len() < ERRORS_KEPT {
                problems.errors.push(failure.to_string());
            }
        }
    }

    /// Records for the report of a phase that a file was not copied.
    pub(crate) fn record_lost(&self, entry: &Entry) {
        if self.phase == Phase::Planned {
            let mut problems = lock(&self.problems);
            problems.lost.push(entry.target_path());
        }
    }

    /// Takes what the report of this phase says.
    pub(crate) fn take_problems(&self) -> Problems {
        std::mem::take(&mut lock(&self.problems))
    }

    /// Returns the rule for symbolic links: arguments and other entries may differ.
    pub(crate) fn follow_rule(&self, entry: &Entry) -> Follow {
        match self.options.follow {
            Follow::Arguments if entry.argument.is_none() => Follow::Never,
            follow => follow,
        }
    }

    /// Whether a symbolic link is followed.
    pub(crate) fn follows(&self, entry: &Entry) -> bool {
        self.follow_rule(entry) != Follow::Never
    }
}
