//! Makes the packages: `.deb`, `.rpm` and a static tarball, the same bytes from the same source and compiler.
//!
//! Everything is built once below `target/package/build`, apart from what a developer builds, because paths of this
//! machine are removed from it. `xtask install` puts it below a staging directory for each kind of package.

mod bill;
mod deb;
mod rpm;
mod tarball;

use crate::files::failure;
use crate::library::{Kinds, Target, file_name};
use crate::programs::{output_of, run};
use crate::repository::{Failure, VERSION, root};
use crate::targets::tools;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `laio`, `liblaio0` and `liblaio-dev`, by cargo-deb.
    Deb,
    /// `laio`, `liblaio` and `liblaio-devel`, by cargo-generate-rpm.
    Rpm,
    /// The command as static program, with its pages and completions.
    Tarball,
}

/// Makes the packages of these kinds for a target in `target/package`; returns them. With `reuse` the programs are those
/// of the last time, even if the source has changed.
///
/// # Errors
/// If a tool is missing or fails.
pub fn build(kinds: &[Kind], target: Target, reuse: bool) -> Result<Vec<PathBuf>, Failure> {
    if kinds.contains(&Kind::Tarball) {
        tarball::check(&target)?;
    }
    let workshop = Workshop::new(target, reuse)?;
    let mut made = Vec::new();
    for kind in kinds {
        made.extend(match kind {
            Kind::Deb => deb::build(&workshop)?,
            Kind::Rpm => rpm::build(&workshop)?,
            Kind::Tarball => tarball::build(&workshop)?,
        });
    }
    Ok(made)
}

/// What the kinds have in common.
struct Workshop {
    /// `target/package` of the repository.
    directory: PathBuf,
    /// The time of all files: seconds since 1970.
    epoch: String,
    /// What the packages are for.
    target: Target,
    /// Options of rustc, separated as `CARGO_ENCODED_RUSTFLAGS` wants it.
    rustflags: String,
    cflags: String,
    /// Whether the programs of the last time are used.
    reuse: bool,
}

impl Workshop {
    fn new(target: Target, reuse: bool) -> Result<Workshop, Failure> {
        let about = output_of(Command::new("rustc").arg("-vV"))?;
        let fact = |name: &str| {
            let value = about.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap_or_default().to_owned()
        };
        let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
        let home = match std::env::var("CARGO_HOME") {
            Ok(home) => home,
            Err(_) => format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()),
        };
        // The last that fits counts, so the repository comes last. Where rust-src is installed, the compiler would
        // name its files instead of those of the compiler's build.
        let paths = [
            (home, "/usr/src/cargo".to_owned()),
            (
                format!("{}/lib/rustlib/src/rust", sysroot.trim()),
                format!("/rustc/{}", fact("commit-hash: ")),
            ),
            (root().display().to_string(), "/usr/src/laio".to_owned()),
        ];
        let rustflags: Vec<_> = paths
            .iter()
            .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
            .collect();
        Ok(Workshop {
            reuse,
            directory: root().join("target/package"),
            epoch: epoch()?,
            target,
            rustflags: rustflags.join("\x1f"),
            cflags: [&paths[0], &paths[2]]
                .map(|(from, to)| format!("-ffile-prefix-map={from}={to}"))
                .join(" "),
        })
    }

    /// Runs `xtask install` into a fresh staging directory; returns the directory.
    fn stage(&self, name: &str, target: &Target, options: &[&str]) -> Result<PathBuf, Failure> {
        let stage = self.directory.join("stage").join(name);
        if stage.exists() {
            std::fs::remove_dir_all(&stage).map_err(|error| failure("remove", &stage, &error))?;
        }
        let this = std::env::current_exe()?;
        let mut install = self.command(&this.display().to_string());
        install.arg("install").arg("--destdir").arg(&stage);
        install.args(options);
        install.args(self.reuse.then_some("--no-build"));
        if !target.is_host() {
            install.env("CARGO_BUILD_TARGET", target.triple());
            tools::find(target.triple())?.prepare(&mut install);
        }
        let status = install.status()?;
        if !status.success() {
            return Err(format!("the build for {} failed ({status})", target.triple()).into());
        }
        if let Ok(library) = find(&stage, &file_name()) {
            // Programs need the exported names only, which are in a section of their own.
            let kinds = Kinds {
                shared: true,
                archive: true,
            };
            let mut strip = target.compiler(kinds)?.tool("strip")?;
            run(strip.arg("--strip-unneeded").arg(library))?;
        }
        let documents = find(&stage, "installed-files")?;
        // For `xtask uninstall`; a package manager has a list of its own.
        std::fs::remove_file(&documents)?;
        let documents = documents.parent().unwrap_or(&stage);
        bill::write(documents, target.triple(), &self.epoch)?;
        copy("packaging/copyright", &documents.join("copyright"))?;
        Ok(stage)
    }

    /// A command with the environment that makes builds the same everywhere.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(root());
        command.env("CARGO_ENCODED_RUSTFLAGS", &self.rustflags);
        command.env("CFLAGS", &self.cflags);
        command.env("CARGO_TARGET_DIR", self.directory.join("build"));
        command.env("SOURCE_DATE_EPOCH", &self.epoch);
        command.env("LC_ALL", "C");
        command
    }

    /// `cargo` with this subcommand, which is a program of its own.
    fn tool(&self, name: &str) -> Result<Command, Failure> {
        let mut ask = Command::new(format!("cargo-{name}"));
        if ask.arg("--version").output().is_err() {
            let advice = format!("cargo install cargo-{name} --locked");
            return Err(format!("cargo-{name} is not there: {advice}").into());
        }
        let mut command = self.command("cargo");
        // The tools build nothing, and their own cargo calls must not.
        command.arg(name);
        Ok(command)
    }
}

/// The time that all files get: `$SOURCE_DATE_EPOCH`, or the date of this version in the changelog.
fn epoch() -> Result<String, Failure> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let path = root().join("CHANGELOG.md");
    let text = std::fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))?;
    let start = format!("## {VERSION} - ");
    let Some(date) = text.lines().find_map(|line| line.strip_prefix(&start)) else {
        return Err(format!("CHANGELOG.md has no section `{start}DATE`").into());
    };
    let mut seconds = Command::new("date");
    let seconds = output_of(seconds.args(["--utc", "--date", date, "+%s"]))?;
    Ok(seconds.trim().to_owned())
}

/// Returns the file with this name below a directory.
fn find(directory: &Path, name: &str) -> Result<PathBuf, Failure> {
    let mut search = Command::new("find");
    let found = output_of(search.arg(directory).args(["-name", name]))?;
    let first = found.lines().next().map(PathBuf::from);
    first.ok_or_else(|| format!("there is no {name} in {}", directory.display()).into())
}

/// Copies a file of the repository, readable for all.
fn copy(from: &str, to: &Path) -> Result<(), Failure> {
    run(Command::new("install")
        .args(["-D", "--mode=644"])
        .arg(root().join(from))
        .arg(to))
    .map(drop)
}
