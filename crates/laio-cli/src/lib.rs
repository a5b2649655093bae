#![forbid(unsafe_code)]
//! The `laio` command: arguments and exit codes. The libraries do the work.

mod bench;
mod completions;
mod cp;
mod info;
mod interrupt;
mod load;
mod numbers;
mod serve;
mod signals;
mod stalls;
mod status;
mod trace;

pub use serve::ConfigurationReader;

use clap::{Parser, Subcommand};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Lazy asynchronous I/O for Linux: a system call that does not block costs what the plain call costs, and
/// only one that would block goes to the background.
#[derive(Debug, Parser)]
#[command(name = "laio", version, propagate_version = true, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed; standard error says what
  2  the arguments make no sense; standard error says why";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the files of a directory over HTTP
    // The rest of each option's documentation is for the manual.
    #[command(mut_args(|arg| arg.long_help(None)))]
    Serve(Box<serve::Arguments>),
    /// Copy files and directories
    Cp(Box<cp::Arguments>),
    /// Show what this machine allows, and which back end would be chosen
    Info(info::Arguments),
    /// Find the calls, locks and page faults for which a program's event loops wait
    Stalls(stalls::Arguments),
    /// Measure system calls, copies and servers
    #[command(subcommand)]
    Bench(bench::Command),
    /// Create file sets, and requests for them
    #[command(subcommand)]
    Trace(trace::Command),
    /// Load an HTTP server, and measure the latency of its responses
    Load(load::Arguments),
    /// Write a script with which a shell completes these commands and options
    Completions(completions::Arguments),
}

/// The message of a failed command.
type Failure = Box<dyn std::error::Error>;

/// Runs the command line.
pub fn main() -> ExitCode {
    if cp::is_called() {
        return cp::main("cp");
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => match numbers::explained(&error) {
            Some(text) => {
                // If standard error is closed, the message is lost.
                let _ = std::io::stderr().write_all(text.as_bytes());
                return ExitCode::from(2);
            }
            // With status 2, or 0 after the text of --help.
            None => error.exit(),
        },
    };
    let result = match arguments.command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Cp(arguments) => return cp::run(*arguments, "laio cp"),
        Command::Info(arguments) => info::run(arguments),
        Command::Stalls(arguments) => match stalls::run(arguments) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Bench(command) => bench::run(command),
        Command::Trace(command) => trace::run(command),
        Command::Load(arguments) => load::run(arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // If standard error is closed too, the message is lost.
            let _ = writeln!(std::io::stderr(), "laio: {failure}");
            ExitCode::from(if failure.is::<serve::Mistakes>() {
                2
            } else {
                1
            })
        }
    }
}

/// The main function of `laio-cp`, whose arguments are those of `laio cp`.
pub fn copy() -> ExitCode {
    cp::main(if cp::is_called() { "cp" } else { "laio-cp" })
}

/// Writes a result. If the reader closes the pipe early (`laio info | head`), that is not an error.
fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write the result: {error}").into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn flags_in_the_documentation_of_the_server_exist() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        let pages = [
            "files",
            "features",
            "responses",
            "access",
            "auth-requests",
            "limits",
            "http",
            "transport",
            "https",
            "http3",
            "policies",
            "operation",
            "safety",
            "nginx",
            "uploads",
            "webdav",
        ];
        let pages: String = pages
            .iter()
            .map(|page| read(&format!("docs/serve/{page}.md")))
            .collect();
        let command = Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        let known: Vec<_> = serve
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .collect();
        let of_curl = ["haproxy-protocol"];
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        // Skips the lines between the parts of a multipart body.
        let pages = pages.replace("`--", " --");
        for part in pages
            .split(" --")
            .skip(1)
            .filter(|part| part.starts_with(letter))
        {
            let flag = part
                .split(|c| !letter(c))
                .next()
                .unwrap()
                .trim_end_matches('-');
            assert!(
                flag.is_empty()
                    || flag == "help"
                    || of_curl.contains(&flag)
                    || known.contains(&flag),
                "docs/serve: --{flag} is no flag"
            );
        }
    }
}
