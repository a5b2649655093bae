//! Finds the C compiler and its binutils.

use crate::programs::{output_of, succeeds};
use crate::repository::Failure;
use std::process::Command;

/// An installed C or C++ compiler.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program, and the arguments in `$CC`.
    words: Vec<String>,
}

impl Compiler {
    /// Returns `$CC`, or else the first of `cc`, `gcc` and `clang` that is installed.
    ///
    /// # Errors
    /// If none is.
    pub fn find() -> Result<Compiler, Failure> {
        if let Some(name) = std::env::var("CC").ok().filter(|name| !name.is_empty()) {
            return Compiler::named(&name).ok_or_else(|| {
                format!("no C compiler: $CC is `{name}`, which does not run").into()
            });
        }
        ["cc", "gcc", "clang"]
            .into_iter()
            .find_map(Compiler::named)
            .ok_or_else(|| {
                "no C compiler: tried cc, gcc and clang. Install one (Debian: apt install gcc; Fedora: \
                 dnf install gcc), or name yours: CC=/path/to/cc"
                    .into()
            })
    }

    /// Returns the compiler with this name, if it is installed.
    pub fn named(name: &str) -> Option<Compiler> {
        let words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
        words.first()?;
        let compiler = Compiler { words };
        succeeds(compiler.command().arg("--version")).then_some(compiler)
    }

    /// Returns a command that runs the compiler, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// Returns a command that runs one of its binutils (`ar`, `objcopy`, `nm`, `readelf`), with English
    /// messages.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn tool(&self, name: &str) -> Result<Command, Failure> {
        // A cross compiler has binutils of its own.
        let path = output_of(self.command().arg(format!("-print-prog-name={name}")))?;
        let tool = || {
            let mut command = Command::new(path.trim());
            command.env("LC_ALL", "C");
            command
        };
        if succeeds(tool().arg("--version")) {
            Ok(tool())
        } else {
            Err(format!(
                "{name} is not there, which {} needs. Install the binutils (apt install binutils)",
                self.words[0]
            )
            .into())
        }
    }
}
