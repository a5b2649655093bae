//! The C compiler, and the tools that belong to it.

use crate::Failure;
use crate::programs::{output_of, succeeds};
use std::process::Command;

/// A C or C++ compiler that is there.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program and the arguments that `$CC` adds to it.
    words: Vec<String>,
}

impl Compiler {
    /// `$CC`, else the first of `cc`, `gcc` and `clang` that is there.
    ///
    /// # Errors
    /// None of them is.
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

    /// The compiler with this name, if it is there.
    pub fn named(name: &str) -> Option<Compiler> {
        let words: Vec<String> = name.split_whitespace().map(str::to_owned).collect();
        words.first()?;
        let compiler = Compiler { words };
        succeeds(compiler.command().arg("--version")).then_some(compiler)
    }

    /// A call of the compiler, to be completed.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// A call of one of its binutils (`ar`, `objcopy`, `nm`, `readelf`), speaking English.
    ///
    /// # Errors
    /// It is not there.
    pub fn tool(&self, name: &str) -> Result<Command, Failure> {
        // A compiler for another machine has tools of its own.
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
