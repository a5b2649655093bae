#![forbid(unsafe_code)]
//! The `laio-cp` command: `laio cp` as a program of its own.

/// Lets a copy report exhausted memory instead of aborting.
#[global_allocator]
static ALLOCATOR: laio::process::Allocator = laio::process::Allocator;

fn main() -> std::process::ExitCode {
    laio_cli::copy()
}
