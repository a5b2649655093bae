//! `laio stalls`.

mod arguments;
mod live;
mod program;

pub(crate) use arguments::Arguments;

use crate::Failure;
use crate::signals::{Second, catch};
use laio_stalls::{Report, Watch, WatchOptions};
use live::LiveView;
use program::Program;
use rustix::process::setpriority_process;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::process::ExitCode;

/// The priority of the watch: above ordinary programs.
const PRIORITY: i32 = -10;

/// The status if a wait was as long as `--fail-over` says.
const TOO_LONG: u8 = 3;

/// Watches a program, and writes the report. The exit code is the program's, or 3 after a wait that was
/// too long.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let mut signals = catch(&[SIGINT, SIGTERM], Second::Killed, &[])?;
    let mut program = match arguments.process() {
        Some(pid) => Program::Other(pid),
        None => Program::start(arguments.command(), arguments.node_functions)?,
    };
    // A watch without a processor misses waits. Where it is not permitted, the machine decides. The
    // program has started already, and keeps its own priority.
    let _ = setpriority_process(None, PRIORITY);
    let options = WatchOptions {
        over: arguments.over,
        threads: arguments.thread.clone(),
        with_perf: !arguments.no_perf,
    };
    let mut watch = Watch::new(program.pid(), options).map_err(|error| {
        format!(
            "cannot examine process {}: {error}{}",
            program.pid(),
            advice(&error)
        )
    })?;
    let mut live = LiveView::new(arguments.quiet);
    loop {
        let is_left = watch.turn();
        if program.has_ended()? || !is_left {
            break;
        }
        live.show(&watch);
        let is_over = arguments
            .duration
            .is_some_and(|limit| watch.lasted() >= limit);
        if is_over || signals.pending().any(|signal| program.must_end(signal)) {
            break;
        }
    }
    live.clear();
    let report = watch.finish();
    write(&arguments, &report)?;
    let status = program.end()?;
    let limit = arguments.fail_over;
    let is_too_long = limit.is_some_and(|limit| report.longest() >= limit);
    Ok(ExitCode::from(match status {
        0 if is_too_long => TOO_LONG,
        status => status,
    }))
}

fn write(arguments: &Arguments, report: &Report) -> Result<(), Failure> {
    let text = if arguments.json {
        laio_stalls::json(report)
    } else {
        laio_stalls::text(report)
    };
    match &arguments.output {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| format!("cannot write the report to {}: {error}", path.display()))?,
        None if arguments.json => crate::print(&text)?,
        // If standard error is closed, the report is lost.
        None => {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
    if let Some(path) = &arguments.html {
        std::fs::write(path, laio_stalls::html(report))
            .map_err(|error| format!("cannot write the page to {}: {error}", path.display()))?;
    }
    Ok(())
}

fn advice(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; run as the user of the process or as root, or start the program with `laio stalls -- PROGRAM` \
             (kernel.yama.ptrace_scope may allow only that)"
        }
        std::io::ErrorKind::NotFound => "; there is no such process",
        _ => "",
    }
}
