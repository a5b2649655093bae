//! The state that all workers share.

use crate::arguments::SeenTargets;
use crate::console::Console;
use crate::created::CreatedFiles;
use crate::handles::Descriptors;
use crate::links::Links;
use crate::options::{Follow, Options};
use crate::outcome::{Failure, Tally, count};
use crate::plan::Phase;
use crate::pool::Pool;
use crate::rate::Rate;
use crate::stop::Stop;
use crate::verify::Manifest;
use std::sync::Arc;

/// The state that all workers share.
pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) console: Console,
    pub(crate) tally: Arc<Tally>,
    pub(crate) pool: Pool,
    pub(crate) descriptors: Descriptors,
    pub(crate) links: Links,
    pub(crate) created: CreatedFiles,
    /// Parent directories of arguments that this copy created (`--parents`).
    pub(crate) created_parents: CreatedFiles,
    pub(crate) seen_targets: SeenTargets,
    pub(crate) rate: Option<Rate>,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) stop: Stop,
    pub(crate) process: Process,
    pub(crate) phase: Arc<Phase>,
    /// Whether the sources come from a list, which also names the contents of directories.
    pub(crate) is_listed: bool,
    /// Whether entries are copied one after the other: because destinations of arguments may
    /// overlap, one of several arguments is copied into itself, or the user is asked (`-i`).
    pub(crate) in_order: bool,
}

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
    /// Prints and counts a failure.
    pub(crate) fn report_failure(&self, failure: &Failure) {
        self.console.warn(failure);
        self.phase.record_error(failure);
        count(&self.tally.of(0).failures);
    }

    /// Returns the rule for symbolic links of arguments or of directory entries.
    pub(crate) fn follow_rule(&self, is_argument: bool) -> Follow {
        match self.options.follow {
            Follow::Arguments if !is_argument => Follow::Never,
            follow => follow,
        }
    }

    /// Whether a symbolic link is followed.
    pub(crate) fn follows(&self, is_argument: bool) -> bool {
        self.follow_rule(is_argument) != Follow::Never
    }
}
