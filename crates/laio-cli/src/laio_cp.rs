#![forbid(unsafe_code)]
//! The `laio-cp` command: `laio cp` alone.

/// Reports exhausted memory.
#[global_allocator]
static ALLOCATOR: laio::Allocator = laio::Allocator;

fn main() -> std::process::ExitCode {
    laio_cli::copy()
}
