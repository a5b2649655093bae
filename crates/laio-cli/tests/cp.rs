#![forbid(unsafe_code)]
//! Compares `laio cp` with GNU cp: both run each scenario in fresh directories, and exit status,
//! messages and trees must be equal.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `LAIO_TEST_GNU_CP` | the GNU cp to compare with; default `/bin/cp` |
//! | `LAIO_TEST_CP` | the program to test instead of `laio-cp`; it is called as `cp` |
//! | `LAIO_TEST_KILLS` | the number of copies killed at random moments; default 15 |
//! | `LAIO_TEST_USR` | a directory on a disk, in which all of `/usr` is copied through every back end |
//! | `LAIO_TEST_EXTENT` | a third of the scenarios by default; `all` of them, as with a filter |
//! | `LAIO_TEST_NO_SKIP` | a skip is a failure |

#[path = "cp/case.rs"]
mod case;
#[path = "cp/compare.rs"]
mod compare;
#[path = "cp/distributed/mod.rs"]
mod distributed;
#[path = "cp/extensions.rs"]
mod extensions;
#[path = "cp/failures/mod.rs"]
mod failures;
#[path = "cp/hashes.rs"]
mod hashes;
#[path = "cp/kept.rs"]
mod kept;
#[path = "cp/kinds.rs"]
mod kinds;
#[path = "cp/lasting.rs"]
mod lasting;
#[path = "cp/limits.rs"]
mod limits;
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
#[path = "cp/split_words.rs"]
mod split_words;
#[path = "cp/traced.rs"]
mod traced;
#[path = "cp/world.rs"]
mod world;

use std::process::ExitCode;

use laio_testing::extent;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use case::Case;
use programs::Programs;

/// The result of a trial: completed, skipped with a reason, or failed with a report.
type Verdict = Result<Completion, Failed>;

fn main() -> ExitCode {
    // The modes of created files depend on the umask, which differs between machines.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // A background job of a script ignores SIGINT, and so would the copies that tests interrupt.
    laio_testing::process::restore_signals();
    let programs = Programs::find();
    let mut arguments = Arguments::from_args();
    let mut cases = scenarios::all();
    cases.extend(failures::cases());
    cases.extend(extensions::cases());
    cases.extend(private::cases());
    cases.extend(kinds::cases());
    cases.extend(limits::cases());
    let mut rows: Vec<Trial> = cases.into_iter().map(trial).collect();
    rows.extend(extensions::trials());
    rows.extend(private::trials());
    rows.extend(kept::trials());
    rows.extend(kinds::trials());
    let mut trials = tried(rows, arguments.filter.is_some());
    trials.extend(hashes::trials());
    trials.extend(failures::trials());
    trials.extend(distributed::trials());
    trials.extend(lasting::trials());
    trials.extend(signals::trials());
    trials.extend(limits::trials());
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // More trials than processors: copies wait more than they compute.
    arguments.test_threads.get_or_insert(3 * processors);
    let conclusion = libtest_mimic::run(&arguments, trials);
    programs.tidy();
    conclusion.exit_code()
}

/// Returns the rows of the tables that are tried: by default one in three, and all of them for a filter to
/// select among.
fn tried(rows: Vec<Trial>, all: bool) -> Vec<Trial> {
    let rows = rows.into_iter().enumerate();
    let rows = rows.filter(|(index, _)| all || extent::chooses("", *index, 3));
    rows.map(|(_, row)| row).collect()
}

fn trial(case: Case) -> Trial {
    Trial::ignorable_test(case.name.clone(), move || compare::check(&case))
}
