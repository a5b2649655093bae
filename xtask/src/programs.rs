//! Runs other programs, and reports their errors.

use crate::repository::Failure;
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs a program to its end; shows its standard error only if it fails.
///
/// # Errors
/// If the program is missing or fails: the command line, and its standard error.
pub fn run(command: &mut Command) -> Result<Output, Failure> {
    let output = command
        .output()
        .map_err(|error| cannot_run(command, &error))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = line(command);
    Err(format!("`{line}` failed ({}):\n{}", output.status, said.trim_end()).into())
}

/// As [`run`], but returns the program's standard output.
///
/// # Errors
/// As for [`run`].
pub fn output_of(command: &mut Command) -> Result<String, Failure> {
    run(command).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is installed and succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Returns the message of a program that could not be started.
pub fn cannot_run(command: &Command, error: &std::io::Error) -> Failure {
    let program = command.get_program().to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound => format!("{program} is not there; `{}` needs it", line(command)),
        _ => format!("cannot run `{}`: {error}", line(command)),
    }
    .into()
}

/// A program that cargo has built.
#[derive(Debug)]
pub struct Program {
    /// The package that it belongs to.
    pub package: String,
    /// The name of its target in the package.
    pub target: String,
    /// Where it is.
    pub path: PathBuf,
    /// The directory of the package, in which cargo runs tests.
    pub directory: PathBuf,
    /// Whether it runs tests.
    pub is_test: bool,
}

impl Program {
    /// The package and the target.
    pub fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }
}

/// Runs cargo, and returns the programs that it has built. Cargo prints its progress on standard error.
///
/// # Errors
/// If cargo is missing or fails.
pub fn executables(cargo: &mut Command) -> Result<Vec<Program>, Failure> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot_run(cargo, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` failed ({})", line(cargo), output.status).into());
    }
    let mut made = Vec::new();
    for message in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(message)?;
        if let (Some(path), Some(target), Some(manifest)) = (
            message["executable"].as_str(),
            message["target"]["name"].as_str(),
            message["manifest_path"].as_str(),
        ) {
            let directory = Path::new(manifest).parent().unwrap_or(Path::new("/"));
            let package = directory.file_name().unwrap_or_default();
            made.push(Program {
                package: package.to_string_lossy().into_owned(),
                target: target.to_owned(),
                path: PathBuf::from(path),
                directory: directory.to_owned(),
                is_test: message["profile"]["test"] == true,
            });
        }
    }
    Ok(made)
}

/// Returns cargo: the one that runs this program, if there is one.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::repository::root());
    cargo
}

/// Returns the command line as text.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
