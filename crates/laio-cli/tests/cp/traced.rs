//! Runs `laio cp` under strace: which system calls it makes, and the state of the tree after each
//! of them.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use laio_testing::Skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::case::case;
use crate::programs::Side;
use crate::run;

/// Far longer than any of these copies takes.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns the system calls of this command line, one per line, and its exit status.
pub(crate) fn calls(which: &str, command: &str, root: &Path) -> Result<(Vec<String>, i32), Skip> {
    let mut lines = Vec::new();
    let status = run(
        &["-qq", "-e", &format!("trace={which}")],
        command,
        root,
        |line, _| {
            lines.push(line.to_owned());
        },
    )?;
    Ok((whole(&lines), status))
}

/// Stops the program after each call of `which`, and calls `look` when all its threads have stopped.
/// Returns the exit status.
pub(crate) fn stopping(
    which: &str,
    command: &str,
    root: &Path,
    mut look: impl FnMut(),
) -> Result<i32, Skip> {
    let trace = format!("trace={which}");
    let inject = format!("inject={which}:signal=SIGSTOP");
    let mut stopped = HashSet::new();
    run(
        &["-q", "-e", &trace, "-e", &inject],
        command,
        root,
        |line, strace| {
            let (thread, text) = thread_and_text(line);
            if text.contains("--- stopped by SIGSTOP ---") {
                stopped.insert(thread.to_owned());
            }
            // The kernel reports the stop of each thread. A SIGCONT before the last report would discard
            // the SIGSTOP of a later call. A line also says that a thread has ended without such a
            // report.
            if stopped.is_empty() {
                return;
            }
            let Some(pid) = below(strace) else { return };
            // Without a thread ID the line is about the only thread.
            let has_stopped = |id: &String| stopped.contains(id) || stopped.contains("");
            if threads(pid).iter().all(has_stopped) {
                look();
                stopped.clear();
                let _ = kill_process(pid, Signal::CONT);
            }
        },
    )
}

/// The IDs of the process's threads.
fn threads(pid: Pid) -> Vec<String> {
    let path = format!("/proc/{}/task", pid.as_raw_nonzero());
    let Ok(tasks) = std::fs::read_dir(path) else {
        return Vec::new();
    };
    tasks
        .filter_map(|task| task.ok()?.file_name().into_string().ok())
        .collect()
}

/// Runs `laio cp` while some system calls fail. Returns its exit status and output.
pub(crate) fn failing(faults: &[&str], command: &str, root: &Path) -> Result<run::Ran, Skip> {
    available()?;
    let faults: Vec<_> = faults
        .iter()
        .map(|fault| format!("inject={fault}"))
        .collect();
    let mut options = vec!["-qq", "-o", "/dev/null"];
    for fault in &faults {
        options.extend(["-e", fault]);
    }
    let started = run::start(&mut strace(&options, command, root), b"");
    Ok(run::finish(started, LIMIT))
}

fn available() -> Result<(), Skip> {
    Skip::unless_there("strace")?;
    let tried = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "trace=none", "true"])
        .stderr(Stdio::null())
        .status();
    match tried {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Skip::because(
            "strace",
            format!("strace cannot trace here: {status}"),
        )),
        Err(error) => Err(Skip::because(
            "strace",
            format!("strace is needed: {error}"),
        )),
    }
}

/// The process of this command line, under strace with these options.
fn strace(options: &[&str], command: &str, root: &Path) -> Command {
    let ours = run::command(&case("", "", command), Side::Ours, root);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-s", "64"]).args(options);
    strace
        .arg("--")
        .arg(ours.get_program())
        .args(ours.get_args());
    strace.current_dir(root).env_clear();
    for (name, value) in ours.get_envs() {
        strace.env(name, value.unwrap_or_default());
    }
    strace
}

fn run(
    options: &[&str],
    command: &str,
    root: &Path,
    mut each: impl FnMut(&str, &Child),
) -> Result<i32, Skip> {
    available()?;
    let child = strace(options, command, root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace starts");
    let mut child = Bounded(child);
    let lines = BufReader::new(child.0.stderr.take().expect("a pipe"));
    let end = Instant::now() + LIMIT;
    for line in lines.lines() {
        let line = line.expect("strace writes lines");
        each(&line, &child.0);
        assert!(Instant::now() < end, "{command} is not done: {line}");
    }
    let status = child.0.wait().expect("it is our child");
    Ok(status.code().unwrap_or(-1))
}

/// Killed when dropped, even by a panic.
struct Bounded(Child);

impl Drop for Bounded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that strace has started, if it has not ended.
fn below(strace: &Child) -> Option<Pid> {
    let number = strace.id();
    let path = format!("/proc/{number}/task/{number}/children");
    let children = std::fs::read_to_string(&path).expect("the children of strace");
    let first = children
        .split_whitespace()
        .next()
        .and_then(|it| it.parse().ok());
    first.and_then(Pid::from_raw)
}

/// The thread's ID, which is empty while there is only one thread, and the rest of the line.
fn thread_and_text(line: &str) -> (&str, &str) {
    let Some(rest) = line.strip_prefix("[pid ") else {
        return ("", line);
    };
    let (thread, text) = rest.split_once("] ").unwrap_or((rest, ""));
    (thread.trim(), text)
}

/// Joins calls that are split into two lines, and removes thread IDs.
fn whole(lines: &[String]) -> Vec<String> {
    let mut calls: Vec<String> = Vec::new();
    let mut unfinished: Vec<(String, usize)> = Vec::new();
    for line in lines {
        let (thread, text) = thread_and_text(line);
        if let Some(first) = text.strip_suffix(" <unfinished ...>") {
            unfinished.push((thread.to_owned(), calls.len()));
            calls.push(first.to_owned());
        } else if let Some((_, rest)) = text.split_once(" resumed>") {
            let at = unfinished.iter().rposition(|(other, _)| other == thread);
            if let Some((_, at)) = at.map(|at| unfinished.remove(at)) {
                calls[at].push_str(rest);
            }
        } else {
            calls.push(text.to_owned());
        }
    }
    calls
}
