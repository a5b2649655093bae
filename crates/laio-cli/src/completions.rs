//! `laio completions`: scripts with which shells complete commands and options.

use crate::{Failure, print};
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

/// For bash: `laio completions bash > ~/.local/share/bash-completion/completions/laio`. Other shells have
/// similar directories.
#[derive(Debug, Args)]
#[command(after_help = crate::EXIT_CODES)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut text = Vec::new();
    let mut command = crate::Arguments::command();
    generate(arguments.shell, &mut command, "laio", &mut text);
    print(&String::from_utf8(text)?)
}
