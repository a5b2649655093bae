//! The C library from outside: builds and installs it, compiles C programs against it as their authors
//! would, and runs them with each back end.
//!
//! Each program in `tests/c`, for each way to compile and to run it, is a test of its own with a name like
//! `timeouts/threads/cc-c99-shared`; so `cargo test -p laio-capi --test c timeouts/` runs a few. By default
//! every program is compiled in one way, and run for four back ends. With `LAIO_TEST_EXTENT=all`, as in
//! `.ci/run`, it is run for every back end, and also compiled by other compilers, linked otherwise and
//! sanitized, and run for one back end. With `LAIO_TEST_EXTENT=full` (`cargo xtask test-c --full`) there are
//! all combinations. A missing tool (a compiler, valgrind, ...) makes tests skip, with the reason in the
//! output.

#[path = "c_runner/execute.rs"]
mod execute;
#[path = "c_runner/matrix.rs"]
mod matrix;
#[path = "c_runner/program.rs"]
mod program;
#[path = "c_runner/readme.rs"]
mod readme;
mod tree;

use execute::{Miss, execute};
use laio_testing::extent::Extent;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use matrix::{BACK_ENDS, Build, Linkage, MAIN_CXX, Run};
use program::{Compiled, Program};
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tempfile::TempDir;

/// The time limit of a program: most take a second or two.
const LIMIT: Duration = Duration::from_secs(900);
/// The time limit of the examples, which run one after the other.
const CHECK_LIMIT: Duration = Duration::from_secs(900);
/// The time limit under valgrind, which is about fifty times slower.
const SLOW_LIMIT: Duration = Duration::from_secs(1800);

fn main() -> ExitCode {
    // Programs and examples are tested with the default actions of signals, whatever the shell ignores.
    laio_testing::process::restore_signals();
    let mut arguments = Arguments::from_args();
    let processors = available_parallelism().map_or(1, NonZero::get);
    // The programs wait more than they compute.
    arguments.test_threads.get_or_insert(4 * processors);
    let extent = Extent::wanted();
    let directory = TempDir::with_prefix("laio-c-").expect("a temporary directory");
    let mut trials = Vec::new();
    let is_shared = tree::target()
        .expect("the compiler's target")
        .can_be_shared();
    let (builds, cxx_builds) = if is_shared {
        (matrix::matrix(extent), matrix::cxx_matrix(extent))
    } else {
        // musl-gcc compiles no C++.
        (matrix::static_matrix(extent), Vec::new())
    };
    for (build, runs) in builds {
        tests(
            &mut trials,
            directory.path(),
            program::tests(),
            build,
            &runs,
        );
        examples(&mut trials, directory.path(), build);
    }
    for (build, runs) in cxx_builds {
        let programs = program::cxx_tests();
        tests(
            &mut trials,
            &directory.path().join("cxx"),
            programs,
            build,
            &runs,
        );
    }
    if is_shared {
        readme(&mut trials, directory.path());
    }
    if !arguments.list
        && let Err(failure) = tree::tree()
    {
        // Printed once, rather than by every test.
        eprintln!("the C library cannot be built or installed: {failure}");
        return ExitCode::FAILURE;
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The programs in `tests/c` or `tests/cxx`.
fn tests(
    trials: &mut Vec<Trial>,
    directory: &Path,
    programs: Vec<Program>,
    build: Build,
    runs: &[Run],
) {
    for program in programs {
        let name = if program.is_cxx() {
            format!("laio.hpp/{}", program.name)
        } else {
            program.name.clone()
        };
        let compiled = Arc::new(Compiled::new(program, build, directory));
        for &run in runs {
            let compiled = Arc::clone(&compiled);
            let name = format!("{name}/{}/{build}{run}", run.back_end.label);
            trials.push(trial(name, move || {
                if let Some(need) = compiled.program.need() {
                    laio_testing::Skip::unless_there(need).map_err(Miss::Skipped)?;
                }
                let command = run.command(&compiled.get()?, &compiled.program)?;
                let limit = if run.valgrind { SLOW_LIMIT } else { LIMIT };
                execute(command, run.back_end, limit)
            }));
        }
    }
}

/// The programs in `examples`: each compiles, and `examples/check.sh` checks their results.
fn examples(trials: &mut Vec<Trial>, directory: &Path, build: Build) {
    if build.is_cxx() {
        return;
    }
    let mut all = Vec::new();
    let mut programs: Vec<_> = program::examples()
        .into_iter()
        .map(|it| (it, build))
        .collect();
    if build.is_main() && build.linkage == Linkage::Shared {
        programs.extend(program::cxx_examples().into_iter().map(|it| (it, MAIN_CXX)));
    }
    for (program, build) in programs {
        let name = format!("examples/{}/compiles/{build}", program.name);
        let compiled = Arc::new(Compiled::new(program, build, &directory.join("examples")));
        all.push(Arc::clone(&compiled));
        trials.push(trial(name, move || compiled.get().map(drop)));
    }
    let script = program::examples_directory().join("check.sh");
    if !build.is_main() || !script.is_file() {
        return;
    }
    let all = Arc::new(all);
    for back_end in BACK_ENDS {
        let (all, script) = (Arc::clone(&all), script.clone());
        let name = format!("examples/check/{}/{build}", back_end.label);
        trials.push(trial(name, move || {
            // The servers open names beneath their root with it.
            laio_testing::Skip::unless_there("openat2").map_err(Miss::Skipped)?;
            let mut command = Command::new("bash");
            command.arg(&script);
            for compiled in all.iter() {
                match compiled.get() {
                    // The script works without these.
                    Ok(_) | Err(Miss::Skipped(_)) => {}
                    Err(failed) => return Err(failed),
                }
            }
            // The directory of the programs in C, and that of those in C++.
            command.args(all.first().map(|compiled| compiled.directory()));
            command.env(
                "CXX_EXAMPLES",
                all.last().map_or(Path::new(""), |it| it.directory()),
            );
            execute(command, back_end, CHECK_LIMIT)
        }));
    }
}

/// The program in the README, compiled with the README's command.
fn readme(trials: &mut Vec<Trial>, directory: &Path) {
    let compiled = Arc::new(readme::Compiled::new(&directory.join("readme")));
    for back_end in BACK_ENDS {
        let compiled = Arc::clone(&compiled);
        trials.push(trial(format!("readme/{}", back_end.label), move || {
            let mut command = Command::new("sh");
            command
                .args(["-c", "exec \"$0\" <\"$0.c\""])
                .arg(compiled.get()?);
            execute(command, back_end, LIMIT)
        }));
    }
}

fn trial(name: String, run: impl FnOnce() -> Result<(), Miss> + Send + 'static) -> Trial {
    let test = name.clone();
    Trial::ignorable_test(name, move || match run() {
        Ok(()) => Ok(Completion::Completed),
        Err(Miss::Skipped(skip)) => match skip.record(&test) {
            Ok(()) => Ok(Completion::ignored_with(skip)),
            Err(message) => Err(Failed::from(message)),
        },
        Err(Miss::Failed(said)) => Err(Failed::from(said)),
    })
}
