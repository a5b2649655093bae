#![forbid(unsafe_code)]
//! `laio cp` beside GNU cp: each scenario is run by both in fresh directories, and everything that a
//! user can see afterwards must be the same: exit status, messages, trees.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `LAIO_TEST_GNU_CP` | the GNU cp to compare with; else `/bin/cp` |
//! | `LAIO_TEST_CP` | a program to test in place of ours, which is called as `cp` |
//! | `LAIO_TEST_KILLS` | how often copies are killed at random moments; else 15 times |
//! | `LAIO_TEST_USR` | a directory on a disk, in which all of `/usr` is copied through every back end |
//! | `LAIO_TEST_NO_SKIP` | a skip is a failure |

#[path = "cp/case.rs"]
mod case;
#[path = "cp/compare.rs"]
mod compare;
#[path = "cp/hashes.rs"]
mod hashes;
#[path = "cp/kept.rs"]
mod kept;
#[path = "cp/limits.rs"]
mod limits;
#[path = "cp/machines/mod.rs"]
mod machines;
#[path = "cp/own.rs"]
mod own;
#[path = "cp/private.rs"]
mod private;
#[path = "cp/programs.rs"]
mod programs;
#[path = "cp/run.rs"]
mod run;
#[path = "cp/scenarios/mod.rs"]
mod scenarios;
#[path = "cp/signals.rs"]
mod signals;
#[path = "cp/snapshot.rs"]
mod snapshot;
#[path = "cp/traced.rs"]
mod traced;
#[path = "cp/trouble/mod.rs"]
mod trouble;
#[path = "cp/words.rs"]
mod words;
#[path = "cp/world.rs"]
mod world;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use case::Case;
use programs::Programs;

/// What a trial returns: done, skipped with a reason, or failed with a report.
type Verdict = Result<Completion, Failed>;

fn main() -> ExitCode {
    // Modes of what is created depend on it, and not every machine starts tests with the same.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let programs = Programs::find();
    let mut trials: Vec<Trial> = scenarios::all().into_iter().map(trial).collect();
    trials.extend(trouble::cases().into_iter().map(trial));
    trials.extend(own::cases().into_iter().map(trial));
    trials.extend(own::trials());
    trials.extend(hashes::trials());
    trials.extend(trouble::trials());
    trials.extend(machines::trials());
    trials.extend(private::cases().into_iter().map(trial));
    trials.extend(private::trials());
    trials.extend(kept::trials());
    trials.extend(signals::trials());
    trials.extend(limits::cases().into_iter().map(trial));
    trials.extend(limits::trials());
    let mut arguments = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // The copies wait more than they compute.
    arguments.test_threads.get_or_insert(3 * processors);
    let conclusion = libtest_mimic::run(&arguments, trials);
    programs.tidy();
    conclusion.exit_code()
}

fn trial(case: Case) -> Trial {
    Trial::ignorable_test(case.name.clone(), move || compare::check(&case))
}
