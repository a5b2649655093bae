#![forbid(unsafe_code)]
//! The `laio-cp` command: what `laio cp` is, and nothing else.

fn main() -> std::process::ExitCode {
    laio_cli::copy()
}
