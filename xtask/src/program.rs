//! The command `laio`, and what shells need to complete its options.

use crate::Failure;
use crate::programs::{cannot_run, cargo, line, output_of};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What was built.
#[derive(Debug)]
pub struct Program {
    /// `laio`.
    pub binary: PathBuf,
    /// Where a shell looks for completions, below the directory for data, and what it finds there.
    pub completions: Vec<(&'static str, String)>,
}

/// A shell, and where it looks.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/laio"),
    ("zsh", "zsh/site-functions/_laio"),
    ("fish", "fish/vendor_completions.d/laio.fish"),
];

/// Builds it. Cargo tells what it does on standard error.
///
/// # Errors
/// Cargo fails, or the program cannot be run on this machine.
pub fn build() -> Result<Program, Failure> {
    let binary = build_binary()?;
    let completions = SHELLS.map(|(shell, place)| {
        let text = output_of(Command::new(&binary).args(["completions", shell]))?;
        Ok((place, text))
    });
    Ok(Program {
        completions: completions.into_iter().collect::<Result<_, Failure>>()?,
        binary,
    })
}

fn build_binary() -> Result<PathBuf, Failure> {
    let mut cargo = cargo();
    cargo.args(["build", "--profile", "dist", "--locked"]);
    cargo.args(["--package", "laio-cli"]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| cannot_run(&cargo, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` failed ({})", line(&cargo), output.status).into());
    }
    for message in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(message)?;
        if message["reason"] == "compiler-artifact"
            && message["target"]["name"] == "laio"
            && let Some(path) = message["executable"].as_str()
        {
            return Ok(Path::new(path).to_owned());
        }
    }
    Err(format!("`{}` did not say what it made", line(&cargo)).into())
}
