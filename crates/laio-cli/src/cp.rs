//! `laio cp`, also as the command `laio-cp`, and as `cp` if the program is called by that name:
//! runs the copy, and returns the exit code.
//!
//! `arguments` declares the options (those whose order matters in `ORDERED`), `options` translates
//! them, and `operands` handles the operands.

mod arguments;
mod distributed;
mod getopt;
mod messages;
mod operands;
mod options;
mod signals;
mod values;

pub(crate) use arguments::Arguments;

use clap::{Args, Command, FromArgMatches};
use laio_cp::{Misuse, Stop, Summary};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a copy. The exit code is that of GNU's `cp`.
pub(crate) fn run(arguments: Arguments, program: &str) -> ExitCode {
    let stats = arguments.plain.stats;
    match copy(arguments, program) {
        Ok(summary) => {
            if stats {
                messages::print_stats(&summary);
            }
            if summary.unverified > 0 {
                let count = summary.unverified;
                messages::warn(
                    program,
                    &format!(
                        "copies that differ from their sources in data or attributes: {count}"
                    ),
                );
            }
            if laio::process::is_memory_exhausted() {
                messages::warn(program, "memory exhausted; the files copied so far stay");
                return ExitCode::FAILURE;
            }
            match summary.interrupted {
                Some(signal) => {
                    messages::warn(program, "interrupted; the files copied so far stay");
                    // The status that a shell reports for a process killed by this signal.
                    ExitCode::from(128_u8.wrapping_add(signal as u8))
                }
                None if summary.failures > 0 => ExitCode::FAILURE,
                None => ExitCode::SUCCESS,
            }
        }
        Err(CliError::Usage(text)) => {
            messages::warn(program, &text);
            messages::point_to_help(program);
            ExitCode::FAILURE
        }
        Err(CliError::Plain(text)) => {
            messages::warn(program, &text);
            ExitCode::FAILURE
        }
    }
}

fn copy(arguments: Arguments, program: &str) -> Result<Summary, CliError> {
    let Arguments {
        mut plain,
        ordered,
        explicit,
    } = arguments;
    let options = options::options(&plain, &ordered, program)?;
    let distributed = std::mem::take(&mut plain.distributed);
    let operands = operands::operands(plain)?;
    laio::process::end_when_memory_is_exhausted(messages::memory_exhausted(program));
    if !laio_cp::has_memory_to_begin() {
        return Err(CliError::Plain("memory exhausted".to_owned()));
    }
    let stop = Stop::new();
    signals::listen(stop.clone())
        .map_err(|error| CliError::Plain(format!("cannot listen for signals: {error}")))?;
    if !distributed.is_unused() {
        return distributed.run(options, operands, &explicit, stop);
    }
    laio_cp::copy(options, operands, stop).map_err(misuse_to_error)
}

fn misuse_to_error(misuse: Misuse) -> CliError {
    match misuse {
        Misuse::Usage(text) => CliError::Usage(text),
        Misuse::Target(failure) => CliError::Plain(failure.to_string()),
    }
}

/// Why nothing was copied.
enum CliError {
    /// A wrong command line; the message points to `--help`.
    Usage(String),
    Plain(String),
}

/// Whether the program was called as `cp`.
pub(crate) fn is_called() -> bool {
    let name = std::env::args_os().next().map(PathBuf::from);
    name.as_deref()
        .and_then(|name| name.file_name())
        .is_some_and(|name| name == "cp")
}

/// The main function of `laio-cp` and `cp`.
pub(crate) fn main(program: &'static str) -> ExitCode {
    let command = Command::new(program)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Copy files and directories");
    let command = Arguments::augment_args(command);
    let given = match getopt::resolve(&command, std::env::args_os()) {
        Ok(given) => given,
        Err(text) => {
            messages::warn(program, &text);
            messages::point_to_help(program);
            return ExitCode::FAILURE;
        }
    };
    match command
        .try_get_matches_from(given)
        .and_then(|matches| Arguments::from_arg_matches(&matches))
    {
        Ok(arguments) => run(arguments, program),
        Err(error) if error.use_stderr() => {
            // No stream is left to report this failure.
            let _ = error.print();
            ExitCode::FAILURE
        }
        Err(help) => messages::print(program, &help.render().to_string()),
    }
}
