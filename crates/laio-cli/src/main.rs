#![forbid(unsafe_code)]
//! The `laio` command; all of it is in the library beside, where fuzzing reaches it too.

fn main() -> std::process::ExitCode {
    laio_cli::main()
}
