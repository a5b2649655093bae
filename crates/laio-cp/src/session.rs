//! What all workers share.

use crate::arguments::SeenTargets;
use crate::console::Console;
use crate::created::CreatedFiles;
use crate::descriptors::Descriptors;
use crate::links::Links;
use crate::options::{Follow, Options};
use crate::outcome::{Failure, Tally, count};
use crate::plan::Phase;
use crate::pool::Pool;
use crate::rate::Rate;
use crate::stop::Stop;
use crate::verify::Manifest;
use std::sync::Arc;

pub(crate) struct Session {
    pub(crate) options: Options,
    pub(crate) console: Console,
    pub(crate) tally: Arc<Tally>,
    pub(crate) pool: Pool,
    pub(crate) descriptors: Descriptors,
    pub(crate) links: Links,
    pub(crate) created: CreatedFiles,
    /// Directories that names of arguments lead through (`--parents`), and that were not there.
    pub(crate) created_parents: CreatedFiles,
    pub(crate) seen_targets: SeenTargets,
    pub(crate) rate: Option<Rate>,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) stop: Stop,
    pub(crate) process: Process,
    pub(crate) phase: Arc<Phase>,
    /// Sources are from a list, which names what is in directories too.
    pub(crate) is_listed: bool,
    /// One argument after the other, because they may meet.
    pub(crate) in_order: bool,
}

/// What the process is allowed, and makes of modes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) umask: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Process {
    pub(crate) fn this() -> Process {
        Process {
            umask: umask(),
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
        }
    }

    /// Whether it is no wonder that an owner cannot be set.
    pub(crate) fn is_privileged(&self) -> bool {
        self.user == 0
    }
}

/// Reading it does not change it, other than by the system call, which other threads would see.
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
    /// Reports and counts what failed.
    pub(crate) fn fail(&self, failure: &Failure) {
        self.console.warn(failure);
        self.phase.record_error(failure);
        count(&self.tally.of(0).failures);
    }

    /// The rule for symbolic links: those found in directories are not followed if it is for arguments.
    pub(crate) fn rule(&self, is_argument: bool) -> Follow {
        match self.options.follow {
            Follow::Arguments if !is_argument => Follow::Never,
            follow => follow,
        }
    }

    /// Whether a symbolic link is followed.
    pub(crate) fn follows(&self, is_argument: bool) -> bool {
        self.rule(is_argument) != Follow::Never
    }
}
