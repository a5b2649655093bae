//! Checks that a version can be released, and with `--execute` releases it.

mod changelog;
mod crates;
mod text;

use crate::programs::{cargo, output_of, run, succeeds};
use crate::repository::Failure;
use crate::workspace::{Workspace, text as field};
use std::process::Command;

/// What to release, and how.
#[derive(Debug)]
pub struct Request {
    /// The version, as in `Cargo.toml`.
    pub version: String,
    /// Write the version into the manifests and a section for it into the changelog, and check nothing.
    pub prepare: bool,
    /// The address of the repository, which `prepare` writes into the manifests.
    pub repository: Option<String>,
    /// Compile the packages, as their users will.
    pub verify: bool,
    /// Tag the commit and publish the crates, if every check passes. Without it nothing changes.
    pub execute: bool,
}

/// Checks everything, and prints each result; returns whether all checks passed, and with `execute` the release is
/// made.
///
/// # Errors
/// If cargo or git cannot run, or publishing fails.
pub fn run_release(request: &Request) -> Result<bool, Failure> {
    if request.prepare {
        return prepare(&request.version, request.repository.as_deref()).map(|()| true);
    }
    let mut report = Report::default();
    report.check("the tree", tree());
    report.check("the tag", tag(&request.version));
    report.check("the versions", text::versions(&request.version));
    report.check("the changelog", changelog::check(&request.version));
    let workspace = Workspace::read()?;
    report.check("the crates", crates::metadata(&workspace));
    report.check("their order", crates::order(&workspace));
    report.check("the interface", interface());
    report.check("the packages", crates::dry_run(request.verify));

    if report.failures > 0 {
        println!("\n{} of the checks failed", report.failures);
        return Ok(false);
    }
    if !request.execute {
        println!("\nall is ready: --execute makes the tag and publishes");
        return Ok(true);
    }
    let tag = tag_name(&request.version);
    let message = format!("laio {}", request.version);
    run(git().args(["tag", "--annotate", "--message", &message, &tag]))?;
    let mut publish = cargo();
    publish.args(["publish", "--workspace", "--locked"]);
    if !publish.status()?.success() {
        return Err(format!(
            "not all crates are published. The tag {tag} exists here only: repeat `cargo publish --workspace` after \
             the cause is gone, which omits nothing and refuses what is published (--exclude it)"
        )
        .into());
    }
    println!("\npublished; now publish the tag: git push origin {tag}");
    Ok(true)
}

/// Writes the version and the address of the repository into the files, and moves what is unreleased into a section of
/// the version.
fn prepare(version: &str, repository: Option<&str>) -> Result<(), Failure> {
    if !text::is_version(version) {
        return Err(format!("`{version}` is not a version such as 1.2.3").into());
    }
    if let Err(faults) = tag(version) {
        return Err(faults.join("\n").into());
    }
    let today = output_of(Command::new("date").args(["--utc", "+%F"]))?;
    let before = text::read("CHANGELOG.md")?;
    let after = changelog::cut(&before, version, today.trim())?;
    if let Some(address) = repository {
        text::write_repository(address, &Workspace::read()?)?;
    }
    text::write_version(version)?;
    text::write("CHANGELOG.md", &after)?;
    // So that the lock file has the new versions.
    output_of(cargo().args(["update", "--workspace", "--offline"]))?;
    println!("the manifests and the changelog have {version}: look at `git diff`, and commit");
    Ok(())
}

/// The outcome of a check: what is well, or what to do about each fault.
type Check = Result<String, Vec<String>>;

#[derive(Default)]
struct Report {
    failures: usize,
}

impl Report {
    fn check(&mut self, what: &str, outcome: Check) {
        match outcome {
            Ok(words) => println!("ok      {what}: {words}"),
            Err(faults) => {
                self.failures += 1;
                println!("FAILED  {what}:");
                for fault in faults {
                    println!("          {fault}");
                }
            }
        }
    }
}

fn tree() -> Check {
    let status = run(git().args(["status", "--porcelain"])).map_err(|error| fault(&error))?;
    let changed = String::from_utf8_lossy(&status.stdout);
    match changed.lines().count() {
        0 => Ok("nothing is uncommitted".to_owned()),
        count => Err(vec![format!(
            "{count} files are uncommitted, the first is {}",
            changed.lines().next().unwrap_or_default()
        )]),
    }
}

fn tag(version: &str) -> Check {
    let tag = tag_name(version);
    if succeeds(git().args(["rev-parse", "--verify", "--quiet", &tag])) {
        return Err(vec![format!("{tag} exists: this version is released")]);
    }
    Ok(format!("{tag} is free"))
}

/// Compares the public interface with that of the last release.
fn interface() -> Check {
    let last = run(git().args(["describe", "--tags", "--abbrev=0", "--match", "v*"]));
    let Ok(last) = last else {
        return Ok("skipped: there is no earlier release to compare with".to_owned());
    };
    if !succeeds(cargo().args(["semver-checks", "--version"])) {
        return Err(vec![
            "cargo-semver-checks is not there: cargo install cargo-semver-checks --locked"
                .to_owned(),
        ]);
    }
    let last = String::from_utf8_lossy(&last.stdout).trim().to_owned();
    let mut checks = cargo();
    checks.args(["semver-checks", "--workspace", "--baseline-rev", &last]);
    run(&mut checks).map_err(|error| fault(&error))?;
    Ok(format!(
        "compatible with {last}, as far as the version says"
    ))
}

fn tag_name(version: &str) -> String {
    format!("v{version}")
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(crate::repository::root());
    git
}

fn fault(error: &Failure) -> Vec<String> {
    error.to_string().lines().map(str::to_owned).collect()
}

/// The names of the published crates, for messages.
fn names(workspace: &Workspace) -> Vec<String> {
    let mut names: Vec<_> = workspace
        .published()
        .map(|package| field(package, "name").to_owned())
        .collect();
    names.sort();
    names
}
