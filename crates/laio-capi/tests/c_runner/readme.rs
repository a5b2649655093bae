//! The program in the README: a reader who copies it and the command line must succeed.

use crate::execute::Miss;
use crate::program::{flags, has_pkg_config};
use crate::tree::{Kind, target, tree};
use std::fs::{create_dir_all, read_to_string, write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use xtask::Failure;
use xtask::programs::run;

/// The program, compiled when it is first needed.
#[derive(Debug)]
pub(crate) struct Compiled {
    directory: PathBuf,
    made: OnceLock<Result<PathBuf, Miss>>,
}

impl Compiled {
    pub(crate) fn new(directory: &Path) -> Compiled {
        Compiled {
            directory: directory.to_owned(),
            made: OnceLock::new(),
        }
    }

    /// The program; its source is next to it, and ends in `.c`.
    pub(crate) fn get(&self) -> Result<PathBuf, Miss> {
        self.made.get_or_init(|| make(&self.directory)).clone()
    }
}

fn make(directory: &Path) -> Result<PathBuf, Miss> {
    let cannot = |error| {
        Failure::from(format!(
            "cannot read the README or write its program: {error}"
        ))
    };
    let text = read_to_string(xtask::root().join("README.md")).map_err(cannot)?;
    let Some(program) = program(&text) else {
        return Err(Miss::Failed("the README has no program in C".to_owned()));
    };
    let Some(line) = command_line(&text) else {
        return Err(Miss::Failed(
            "the README has a program in C, but no line `cc ... $(pkg-config --cflags --libs laio)`"
                .to_owned(),
        ));
    };
    create_dir_all(directory).map_err(cannot)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let named = words.iter().skip_while(|&&word| word != "-o").nth(1);
    let Some((source, named)) = words.iter().find(|word| word.ends_with(".c")).zip(named) else {
        return Err(Miss::Failed(format!(
            "`{line}` does not name a source file and a program"
        )));
    };
    write(directory.join(source), program).map_err(cannot)?;

    let line = if has_pkg_config() {
        line.to_owned()
    } else {
        let flags = flags(Kind::Shared)?.join(" ");
        line.replace("$(pkg-config --cflags --libs laio)", &flags)
    };
    let target = target()?;
    let line = match line.strip_prefix("cc ") {
        Some(arguments) if target.is_other_processor() => {
            format!("{} {arguments}", target.compiler_for("gcc"))
        }
        _ => line,
    };
    let mut shell = Command::new("sh");
    shell.args(["-ec", &line]).current_dir(directory);
    run(shell.env("PKG_CONFIG_PATH", tree()?.packages(Kind::Shared)))?;
    Ok(directory.join(named))
}

/// The first C block that is a program which uses the library.
fn program(text: &str) -> Option<&str> {
    let blocks = text.split("\n```c\n").skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split("\n```\n").next());
    blocks.find(|block| block.contains("#include <laio.h>"))
}

/// The line that compiles it.
fn command_line(text: &str) -> Option<&str> {
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("$ "));
    let mut lines = lines.filter(|line| line.starts_with("cc "));
    lines.find(|line| line.contains("$(pkg-config --cflags --libs laio)"))
}
