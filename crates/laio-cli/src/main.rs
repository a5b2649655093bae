#![forbid(unsafe_code)]
//! The `laio` command. Its code is in the library, so that fuzz targets can call it.

/// Reports exhausted memory.
#[global_allocator]
static ALLOCATOR: laio::process::Allocator = laio::process::Allocator;

fn main() -> std::process::ExitCode {
    laio_cli::main()
}
