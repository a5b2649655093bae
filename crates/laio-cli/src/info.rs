//! `laio info`.

use crate::{Failure, print};
use clap::Args;
use laio_bench::info::Info;
use std::path::PathBuf;

/// Finds everything out by trying, and leaves no files behind.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Directories (or files in them) whose file systems are probed [default: the current directory, the
    /// temporary directory, /dev/shm and the home directory, each file system once]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let info = Info::probe(&arguments.paths);
    print(&if arguments.json {
        info.json()
    } else {
        info.table()
    })
}
