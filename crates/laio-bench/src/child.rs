//! Runs commands as child processes, and measures the time, processor time and memory of each.

use crate::error::{Error, While};
use crate::stop::Stop;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;

/// The result of a command.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// The time from before its start to after its end.
    pub(crate) wall: Duration,
    /// Processor time in user and kernel mode, of all its threads and children.
    pub(crate) user: Duration,
    /// The kernel mode part of it.
    pub(crate) system: Duration,
    /// The peak of its memory in bytes.
    pub(crate) memory: u64,
    /// The exit status.
    pub(crate) status: ExitStatus,
    /// The output on standard error.
    pub(crate) said: String,
}

impl Ran {
    /// Returns its last error message, as one line.
    pub(crate) fn complaint(&self) -> String {
        let first = self.said.lines().find(|line| !line.trim().is_empty());
        match first {
            Some(line) => line.trim().chars().take(160).collect(),
            None => self.status.to_string(),
        }
    }
}

/// Runs a command to its end. Discards its output, and keeps its error messages.
///
/// # Errors
/// If it cannot be started. A failure of the command is in its status.
pub(crate) fn run(command: &mut Command, stop: &Stop) -> Result<Ran, Error> {
    stop.check()?;
    let name = command.get_program().to_string_lossy().into_owned();
    let doing = || format!("cannot run {name}");
    // A file, not a pipe, so that no thread has to read while the command runs.
    let mut said = tempfile::tempfile().doing(doing())?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.try_clone().doing(doing())?);
    let began = Instant::now();
    let mut child = command.spawn().doing(doing())?;
    let ending = stop.ends(&child);
    let used = child.wait4().doing(doing())?;
    let wall = began.elapsed();
    drop(ending);
    stop.check()?;
    Ok(Ran {
        wall,
        user: used.rusage.utime,
        system: used.rusage.stime,
        memory: used.rusage.maxrss,
        status: used.status,
        said: read(&mut said),
    })
}

/// Error messages are only shown: bytes that are not text, or too many, may be lost.
fn read(file: &mut File) -> String {
    let mut bytes = Vec::new();
    if file.rewind().is_ok() {
        let _ = file.take(64 << 10).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_measured() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo wrong >&2; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3",
        ]);
        let ran = run(&mut command, &Stop::new()).unwrap();
        assert_eq!(ran.status.code(), Some(3));
        assert_eq!(ran.complaint(), "wrong");
        assert!(ran.user + ran.system > Duration::ZERO);
        assert!(ran.memory > 64 << 10, "{} bytes", ran.memory);
        assert!(run(&mut Command::new("/nowhere/command"), &Stop::new()).is_err());
    }

    #[test]
    fn a_command_can_be_ended() {
        let stop = Stop::new();
        let other = stop.clone();
        let (sender, receiver) = std::sync::mpsc::channel();
        let runner = std::thread::spawn(move || {
            sender.send(()).unwrap();
            run(Command::new("sleep").arg("600"), &other)
        });
        receiver.recv().unwrap();
        // Before, while or after the command starts.
        stop.stop();
        let error = runner.join().unwrap().unwrap_err();
        assert!(error.to_string().starts_with("stopped as asked"), "{error}");
    }
}
