#![forbid(unsafe_code)]
//! Fails the n-th system call of the main jobs, for each kind of call: nothing is lost, no failure is silent, nothing
//! hangs or panics.
//!
//! A trial is a job and a kind of call: `cargo test -p laio-cli --test faults "cp -a: statx"`. Its faults are the n-th
//! call with each errno that the kernel may return.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `LAIO_TEST_EXTENT` | by default a third of the trials; `all`, as with a filter; `full` for every fault |

#[path = "faults/copy.rs"]
mod copy;
#[path = "faults/http.rs"]
mod http;
#[path = "faults/server.rs"]
mod server;
// The tests of the copy use more of it.
#[allow(dead_code)]
#[path = "cp/snapshot.rs"]
mod snapshot;
#[path = "faults/tree.rs"]
mod tree;

use std::process::ExitCode;

use laio_testing::extent;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    laio_testing::process::restore_signals();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(4);
    let mut trials: Vec<Trial> = copy::trials();
    trials.extend(server::trials());
    // A filter selects among all of them.
    let is_tried = |index: usize| arguments.filter.is_some() || extent::chooses("", index, 3);
    let tried = trials
        .into_iter()
        .enumerate()
        .filter(|(index, _)| is_tried(*index));
    let trials = tried.map(|(_, trial)| trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
