#![forbid(unsafe_code)]
//! The `laio` command; all of it is in the library beside, where fuzzing reaches it too.

/// A copy that runs out of memory says so.
#[global_allocator]
static ALLOCATOR: laio::Allocator = laio::Allocator;

fn main() -> std::process::ExitCode {
    laio_cli::main()
}
