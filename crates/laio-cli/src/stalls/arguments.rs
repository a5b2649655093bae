//! The arguments of `laio stalls`.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Watches a program, and reports for which calls, locks and page faults its event loops have waited. The
/// program needs no changes, and no thread of it is stopped.
///
/// A thread has an event loop if it waits in epoll, poll, select or io_uring again and again; these waits
/// are idle and not reported. The report goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Watch a process that runs, and those that it starts, until it ends or until Ctrl-C
    #[arg(short, long, value_name = "PID", conflicts_with = "command",
        value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Start this program, and watch it and the processes that it starts until it ends
    #[arg(value_name = "PROGRAM", last = true, required_unless_present = "pid")]
    command: Vec<OsString>,
    /// Report waits of this length and more: a number with ns, us, ms, s or m
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub(super) over: Duration,
    /// Watch also threads with this name, without an event loop; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) thread: Vec<String>,
    /// End the watch after this time, and the program that was started with SIGTERM
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(super) duration: Option<Duration>,
    /// Exit with status 3 if a wait was as long as this; a wait for a processor does not count
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) fail_over: Option<Duration>,
    /// Write the report as one JSON object, to standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Write the report to this file
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Write also a page with a picture of the waits in time
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Let Node.js list its functions in /tmp/perf-PID.map, by NODE_OPTIONS, so that the report has them
    #[arg(long, conflicts_with = "pid")]
    pub(super) node_functions: bool,
    /// Look at /proc only, as where perf is not allowed
    #[arg(long)]
    pub(super) no_perf: bool,
    /// Show nothing while the program runs
    #[arg(short, long)]
    pub(super) quiet: bool,
}

const EXIT_CODES: &str = "\
Exit codes:
  the program's own, or 128 and the number of the signal that ended it, if that is not 0
  0  no wait was as long as --fail-over
  1  something failed; standard error says what
  2  the arguments make no sense; standard error says why
  3  a wait was as long as --fail-over";

impl Arguments {
    /// The process to watch, if none must be started.
    pub(super) fn process(&self) -> Option<u32> {
        self.pid
    }

    /// The program to start and its arguments.
    pub(super) fn command(&self) -> &[OsString] {
        &self.command
    }
}

/// The longest time that may be given.
const LONGEST: f64 = 1e9;

fn duration(text: &str) -> Result<Duration, String> {
    let units = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
    ];
    let parsed = units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(number * seconds)
    });
    match parsed {
        Some(seconds) if seconds > 0.0 && seconds <= LONGEST => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err("write a number above 0 with a unit (ns, us, ms, s, m), such as 50ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "5", "ms", "-1s", "0s", "nans", "infs", "1e300s", "1h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
