//! Runs other programs, and reports their errors.

use crate::Failure;
use std::io::ErrorKind;
use std::process::{Command, Output};

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

/// Returns cargo: the one that runs this program, if there is one.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::root());
    cargo
}

/// Returns the command line as text.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
