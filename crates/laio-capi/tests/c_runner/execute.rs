//! Runs one program: with one back end, in a directory of its own, with a time limit.

use crate::matrix::BackEnd;
use crate::tree::tree;
use laio_testing::forbid::{Forbid, spawn_forbidden};
use laio_testing::limit::wait_until;
use laio_testing::{INAPPLICABLE, Skip};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{File, read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use xtask::Failure;
use xtask::programs::{cannot_run, line};

/// The exit status of a program that needs a missing feature.
const SKIPPED: i32 = 77;

/// Why a test has not passed.
#[derive(Clone, Debug)]
pub(crate) enum Miss {
    Skipped(Skip),
    Failed(String),
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Miss {
        Miss::Failed(failure.to_string())
    }
}

impl From<String> for Miss {
    fn from(said: String) -> Miss {
        Miss::Failed(said)
    }
}

/// A test that needs a missing feature.
pub(crate) fn skipped(need: &str, reason: impl Into<String>) -> Miss {
    Miss::Skipped(Skip::because(need, reason))
}

/// Runs a program, whose exit status decides whether the test passes, fails or is skipped.
pub(crate) fn execute(
    mut command: Command,
    back_end: BackEnd,
    limit: Duration,
) -> Result<(), Miss> {
    if let Some(need) = back_end.need() {
        Skip::unless_there(need).map_err(Miss::Skipped)?;
    }
    let cannot = |error| Failure::from(format!("cannot make a directory for the test: {error}"));
    let directory = TempDir::with_prefix("laio-c-").map_err(cannot)?;
    let output = directory.path().join("output");
    let file = File::create(&output).map_err(cannot)?;
    let both = file.try_clone().map_err(cannot)?;

    let own = directory.path().join("own");
    std::fs::create_dir(&own).map_err(cannot)?;
    command
        .env_remove("LAIO_TEST_WITHOUT_RING")
        .env("LAIO_BACKEND", back_end.name)
        .env("LD_LIBRARY_PATH", tree()?.libdir())
        .env("TMPDIR", &own)
        .current_dir(&own)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(both)
        // A group of its own, so that the processes that it starts end with it.
        .process_group(0);
    let shown = format!("LAIO_BACKEND={} {}", back_end.name, line(&command));
    let child = if back_end.without_ring {
        command.env("LAIO_TEST_WITHOUT_RING", "1");
        spawn_forbidden(command, &Forbid::io_uring(libc::EPERM)).map_err(|error| error.to_string())
    } else {
        let started = command.spawn();
        started.map_err(|error| cannot_run(&command, &error).to_string())
    }?;
    let status = wait(child, limit);

    let said = String::from_utf8_lossy(&read(&output).unwrap_or_default()).into_owned();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) if status.code() == Some(SKIPPED) => {
            Err(Miss::Skipped(skip_of(&said, back_end)))
        }
        Some(status) => Err(Miss::Failed(format!("{status}: {shown}\n{said}"))),
        None => Err(Miss::Failed(format!(
            "not finished within {limit:?}: {shown}\n{said}"
        ))),
    }
}

/// The skip that a program (or check.sh) reports before it exits with [`SKIPPED`]. Only a back end or the size of pipes
/// can be a missing feature: the other reasons are combinations of back end, program and tool that cannot work.
fn skip_of(said: &str, back_end: BackEnd) -> Skip {
    let reason = said.trim().trim_start_matches("skipped: ");
    let need = match back_end.name {
        _ if reason.starts_with("a pipe holds less") => "pipe-size",
        _ if reason.contains("io_uring is not available") => "io_uring",
        _ if !reason.contains("the back end is not available") => INAPPLICABLE,
        "linux-aio" => "linux-aio",
        "activations" => "activations",
        _ => "io_uring",
    };
    Skip::because(need, reason)
}

/// Waits until a program ends, and kills its process group; returns `None` after the time limit.
fn wait(mut child: Child, limit: Duration) -> Option<ExitStatus> {
    let group = Pid::from_child(&child);
    let mut status = None;
    let mut ended = || {
        status = child.try_wait().expect("our own child");
        status.is_some()
    };
    let in_time = wait_until(limit, &mut ended);
    if !in_time {
        // The programs in tests/c then report where they hang.
        let _ = kill_process_group(group, Signal::ALARM);
        wait_until(Duration::from_secs(2), &mut ended);
    }
    // Usually the group is empty by now.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().expect("our own child");
    status.filter(|_| in_time)
}
