//! `cargo xtask test --target`: the suites on another processor or another C library, in an emulator of programs where
//! this machine cannot run them itself.
//!
//! [`tools`] finds what a target needs, and [`results`] counts. Nothing is installed.

pub mod boot;
pub mod results;
pub mod tools;

use crate::programs::{Program, cannot_run, cargo, executables};
use crate::repository::Failure;
use crate::skips;
use results::Counts;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tools::{Runner, Target};

/// The user's options.
#[derive(Debug)]
pub struct Request {
    /// The name of the target, one of [`tools::TARGETS`].
    pub target: String,
    /// The packages to test; [`PACKAGES`] if empty.
    pub packages: Vec<String>,
    /// Arguments of the test programs.
    pub arguments: Vec<String>,
    /// Only check that the tools are there.
    pub only_check: bool,
    /// Boot a kernel of the target, and run there.
    pub machine: Option<boot::Machine>,
}

/// The packages whose suites run by default: those that make system calls. The others compute, and their tests of
/// speed and of C need tools of the target.
pub const PACKAGES: [&str; 5] = ["laio", "laio-testing", "laio-rt", "laio-cp", "laio-serve*"];

/// Tests under an emulator wait for slow neighbours: all limits of time are this number of seconds per 300.
const EMULATED_LIMIT: &str = "3000";

/// Builds the suites and runs them. Returns whether all tests passed.
///
/// # Errors
/// If a tool is missing (the error says what to install), or the build fails.
pub fn run(request: &Request) -> Result<bool, Failure> {
    let target = tools::find(&request.target)?;
    let runner = tools::check(target)?;
    if request.only_check {
        return Ok(true);
    }
    let programs = build(target, request)?;
    if let Some(machine) = &request.machine {
        let results = boot::run_in(machine, target, &programs, &request.arguments)?;
        println!(
            "\n{}",
            crate::kernels::table(&[(target.name, results.as_slice())])
        );
        return Ok(results.iter().all(|result| result.passed));
    }
    let skips = crate::repository::root().join(format!("target/{}.skips", target.name));
    let _ = std::fs::remove_file(&skips);
    let mut all = Vec::new();
    for program in &programs {
        println!("== {}", program.name());
        let counts = run_suite(program, &runner, &skips, &request.arguments)?;
        all.push((program.name(), counts));
    }
    let lines = std::fs::read_to_string(&skips).unwrap_or_default();
    println!("\n== skipped\n{}", skips::summary(&lines));
    println!(
        "== {} {runner}\n{}",
        target.triple,
        results::table(&all, &lines)
    );
    Ok(all.iter().all(|(_, counts)| counts.passed_all()))
}

/// Builds the test programs of the packages, and the command if a machine is booted that serves a site with it.
fn build(target: &Target, request: &Request) -> Result<Vec<Program>, Failure> {
    let mut cargo = cargo();
    cargo.args(["test", "--locked", "--no-run", "--target", target.triple]);
    cargo.args(["--lib", "--bins", "--tests"]);
    target.prepare(&mut cargo);
    match request.packages.as_slice() {
        [] => cargo.args(PACKAGES.map(|package| format!("--package={package}"))),
        some => cargo.args(some.iter().map(|package| format!("--package={package}"))),
    };
    let mut programs = executables(&mut cargo)?;
    let serves = request.packages.is_empty() || request.packages.iter().any(|it| it == "laio-cli");
    if request.machine.is_some() && !serves {
        programs.retain(|program| program.is_test);
    } else if request.machine.is_some() {
        let mut cargo = crate::programs::cargo();
        cargo.args(["build", "--locked", "--target", target.triple]);
        cargo.args(["--package", "laio-cli", "--bin", "laio"]);
        target.prepare(&mut cargo);
        programs.retain(|program| program.is_test);
        programs.extend(executables(&mut cargo)?);
    } else {
        programs.retain(|program| program.is_test);
    }
    Ok(programs)
}

/// Runs one test program, prints its output, and counts.
fn run_suite(
    program: &Program,
    runner: &Runner,
    skips: &Path,
    arguments: &[String],
) -> Result<Counts, Failure> {
    let mut suite: Command = runner.command(&program.path);
    suite.args(arguments).current_dir(&program.directory);
    suite.env("LAIO_TEST_SKIPS", skips);
    suite.env("LAIO_TEST_EXTENT", "all");
    // As cargo sets it for the tests that it runs; skips are recorded with it.
    suite.env("CARGO_PKG_NAME", &program.package);
    if runner.emulates() {
        suite.env("LAIO_TEST_LIMIT", EMULATED_LIMIT);
    }
    let mut child = suite
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_run(&suite, &error))?;
    let mut counts = Counts::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            counts.count(&line);
        }
    }
    counts.status(child.wait()?);
    Ok(counts)
}
