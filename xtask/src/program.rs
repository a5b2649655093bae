//! Builds the commands, and the shell completions of `laio`.

use crate::library::Target;
use crate::programs::{cargo, executables, line, output_of};
use crate::repository::{Failure, root};
use crate::targets::tools;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The built files.
#[derive(Debug)]
pub struct Program {
    /// [`NAMES`], in their order.
    pub binaries: Vec<PathBuf>,
    /// The paths of the completions below the data directory, and their contents.
    pub completions: Vec<(&'static str, String)>,
}

/// The commands: `laio`, and `laio-cp` for copies alone.
pub const NAMES: [&str; 2] = ["laio", "laio-cp"];

/// A shell, and the directory of its completions.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/laio"),
    ("zsh", "zsh/site-functions/_laio"),
    ("fish", "fish/vendor_completions.d/laio.fish"),
];

/// Builds the commands. Cargo prints its progress on standard error.
///
/// # Errors
/// If cargo fails, or the program cannot run on this machine.
pub fn build() -> Result<Program, Failure> {
    with_completions(build_binaries()?)
}

/// Returns the commands that [`build`] made the last time.
///
/// # Errors
/// If they are not there, or cannot run on this machine.
pub fn built() -> Result<Program, Failure> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let mut directory = target.unwrap_or_else(|| root().join("target"));
    directory.extend(std::env::var_os("CARGO_BUILD_TARGET"));
    with_completions(NAMES.map(|name| directory.join("dist").join(name)).into())
}

fn with_completions(binaries: Vec<PathBuf>) -> Result<Program, Failure> {
    let completions = SHELLS.map(|(shell, directories)| {
        let text = output_of(command_of(&binaries[0])?.args(["completions", shell]))?;
        Ok((directories, text))
    });
    Ok(Program {
        completions: completions.into_iter().collect::<Result<_, Failure>>()?,
        binaries,
    })
}

/// Returns the command that starts a program: in an emulator, if it is for another processor.
fn command_of(program: &Path) -> Result<Command, Failure> {
    match Target::of_cargo()? {
        target if target.is_other_processor() => {
            Ok(tools::check(tools::find(target.triple())?)?.command(program))
        }
        _ => Ok(Command::new(program)),
    }
}

fn build_binaries() -> Result<Vec<PathBuf>, Failure> {
    let mut cargo = cargo();
    cargo.args(["build", "--profile", "dist", "--locked"]);
    cargo.args(["--package", "laio-cli", "--bins"]);
    let mut made = [None, None];
    for program in executables(&mut cargo)? {
        if let Some(index) = NAMES.iter().position(|known| *known == program.target) {
            made[index] = Some(program.path);
        }
    }
    let made: Option<Vec<_>> = made.into_iter().collect();
    made.ok_or_else(|| format!("`{}` did not say what it made", line(&cargo)).into())
}
