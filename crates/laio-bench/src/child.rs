//! Commands run as processes of their own: time, processor time and memory of each.

use crate::error::{Error, While};
use crate::stop::Stop;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;

/// How a command went.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// From before its start to after its end.
    pub(crate) wall: Duration,
    /// Time on processors, in its own code and in the kernel, of all its threads and children.
    pub(crate) user: Duration,
    /// The kernel's part of it.
    pub(crate) system: Duration,
    /// Most memory it had at a time, in bytes.
    pub(crate) memory: u64,
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// What it said on standard error.
    pub(crate) said: String,
}

impl Ran {
    /// What it complained of, for a line of text.
    pub(crate) fn complaint(&self) -> String {
        let first = self.said.lines().find(|line| !line.trim().is_empty());
        match first {
            Some(line) => line.trim().chars().take(160).collect(),
            None => self.status.to_string(),
        }
    }
}

/// Runs a command to its end. Its output goes nowhere, what it says of errors is kept.
///
/// # Errors
/// It cannot be started. That it fails is told by its status.
pub(crate) fn run(command: &mut Command, stop: &Stop) -> Result<Ran, Error> {
    stop.check()?;
    let name = command.get_program().to_string_lossy().into_owned();
    let doing = || format!("cannot run {name}");
    // A file, not a pipe: nobody has to read while it runs.
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

/// What a command says is for people; what is not text, or too long, is not missed.
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
        // Before, while or after the command is started.
        stop.stop();
        let error = runner.join().unwrap().unwrap_err();
        assert!(error.to_string().starts_with("stopped as asked"), "{error}");
    }
}
