//! `cargo xtask kernels`: the engine's suites, a served site and a copied tree under other kernels, in virtual machines.
//!
//! The kernels are Debian's packages. [`packages`] finds and downloads them, [`machine`] makes a disk of this machine's
//! programs and boots it, [`jobs`] are the scripts that run there and the lines by which they report. Nothing is installed.

pub mod jobs;
pub mod machine;
pub mod packages;

use crate::programs::{cargo, executables};
use crate::repository::Failure;
use jobs::{Job, Outcome};
use std::path::{Path, PathBuf};

/// The user's options.
#[derive(Debug)]
pub struct Request {
    /// Kernel versions as in [`packages::KNOWN`].
    pub versions: Vec<String>,
    /// Download the packages that are absent.
    pub fetch: bool,
    /// The parts to run; all parts if empty.
    pub parts: Vec<String>,
    /// Use KVM, instead of emulating the processor.
    pub kvm: bool,
    /// Names of tests: only tests whose names contain one of these run.
    pub filters: Vec<String>,
    /// The time limit of one virtual machine in seconds.
    pub limit: u64,
}

/// Boots each kernel and runs the jobs. Returns whether all of them passed.
///
/// If a program or a package is missing (the error names it and how to get it), or the build fails.
pub fn run(request: &Request) -> Result<bool, Failure> {
    let versions = packages::chosen(&request.versions)?;
    machine::check_programs()?;
    let cache = crate::repository::root().join("target/kernels");
    if request.fetch {
        packages::fetch(&versions, &cache)?;
    }
    packages::check(&versions, &cache)?;
    jobs::check(&request.parts)?;
    let programs = build(&request.parts)?;
    let jobs = jobs::chosen(&request.parts, &request.filters, &programs);
    let mut summary = Vec::new();
    for version in versions {
        println!("== Linux {version}");
        let directory = cache.join(version);
        let results = run_kernel(&directory, &programs, &jobs, request)?;
        summary.push((version, results));
    }
    let results = summary.iter();
    let results: Vec<_> = results
        .map(|(version, all)| (*version, all.as_slice()))
        .collect();
    println!("\n{}", table(&results));
    let passed = |results: &Vec<Outcome>| results.iter().all(|result| result.passed);
    Ok(summary.iter().all(|(_, results)| passed(results)))
}

/// Boots one kernel and runs the jobs in it.
fn run_kernel(
    directory: &Path,
    programs: &Programs,
    jobs: &[Job],
    request: &Request,
) -> Result<Vec<Outcome>, Failure> {
    let boot = machine::prepare(directory)?;
    let disk = machine::disk(directory, &programs.files(), &jobs::script(jobs))?;
    let output = machine::boot(directory, &boot, &disk, request)?;
    Ok(jobs::results(jobs, &output))
}

/// The programs that run in the virtual machine. Programs that the chosen parts do not need are not built.
#[derive(Debug)]
pub struct Programs {
    /// The command `laio`.
    pub command: Option<PathBuf>,
    /// The test programs of the engine, by the name of the target.
    pub suites: Vec<(String, PathBuf)>,
}

impl Programs {
    /// The files that the virtual machine needs, at their paths on this machine.
    fn files(&self) -> Vec<PathBuf> {
        let suites = self.suites.iter().map(|(_, path)| path.clone());
        let site = crate::repository::root().join("examples/site");
        suites.chain(self.command.clone()).chain([site]).collect()
    }
}

/// Builds the command and the engine's suites, as `cargo test` does, as far as the parts need them.
fn build(parts: &[String]) -> Result<Programs, Failure> {
    let mut programs = Programs {
        command: None,
        suites: Vec::new(),
    };
    if jobs::wants(parts, "site") || jobs::wants(parts, "copy") {
        let mut cargo = cargo();
        cargo.args(["build", "--locked", "--package", "laio-cli", "--bins"]);
        let made = executables(&mut cargo)?;
        let command = made.into_iter().find(|program| program.target == "laio");
        let command = command.ok_or("cargo build did not make the command laio")?;
        programs.command = Some(command.path);
    }
    if jobs::wants(parts, "suites") {
        let mut cargo = cargo();
        cargo.args([
            "test",
            "--locked",
            "--no-run",
            "--package",
            "laio",
            "--tests",
        ]);
        let made = executables(&mut cargo)?.into_iter();
        programs.suites = made.map(|program| (program.target, program.path)).collect();
    }
    Ok(programs)
}

/// Returns a table of the results, with a line for each job of each kernel.
pub fn table(summary: &[(&str, &[Outcome])]) -> String {
    let mut text = format!("{:<8} {:<24} {:<8} details\n", "kernel", "job", "result");
    for (version, results) in summary {
        for result in *results {
            let word = if result.passed { "passed" } else { "FAILED" };
            let (job, details) = (&result.job, &result.details);
            text += &format!("{version:<8} {job:<24} {word:<8} {details}\n");
        }
    }
    text
}
