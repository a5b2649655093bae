#![forbid(unsafe_code)]
//! The `laio-cp` command: what `laio cp` is, and nothing else.

/// A copy that runs out of memory says so.
#[global_allocator]
static ALLOCATOR: laio::Allocator = laio::Allocator;

fn main() -> std::process::ExitCode {
    laio_cli::copy()
}
