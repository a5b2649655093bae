//! The program that is watched: a child of this process, or another one.

use crate::Failure;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGTERM;
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};

/// Lets Node.js list its functions, and gives each an address of its own although it is interpreted.
const LIST_FUNCTIONS: &str = " --perf-basic-prof-only-functions --interpreted-frames-native-stack";

/// What is watched.
pub(super) enum Program {
    /// A process that was running, by its number.
    Other(u32),
    /// A program that this command has started.
    Started(Child, Option<ExitStatus>),
}

impl Program {
    /// Starts a program.
    pub(super) fn start(command: &[OsString], node_functions: bool) -> Result<Program, Failure> {
        let (name, arguments) = command
            .split_first()
            .ok_or("there is no program to start")?;
        let mut command = Command::new(name);
        command.args(arguments);
        if node_functions {
            let mut options = std::env::var_os("NODE_OPTIONS").unwrap_or_default();
            options.push(LIST_FUNCTIONS);
            command.env("NODE_OPTIONS", options);
        }
        let child = command.spawn();
        let child = child.map_err(|error| format!("cannot start {}: {error}", name.display()))?;
        Ok(Program::Started(child, None))
    }

    pub(super) fn pid(&self) -> u32 {
        match self {
            Program::Other(pid) => *pid,
            Program::Started(child, _) => child.id(),
        }
    }

    /// Whether a program that was started has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool, Failure> {
        let Program::Started(child, status) = self else {
            return Ok(false);
        };
        *status = child.try_wait()?;
        Ok(status.is_some())
    }

    /// Passes a signal on, and returns whether the watch must end. From a terminal the program gets
    /// SIGINT too, and a program that was started ends the watch by ending.
    pub(super) fn must_end(&mut self, signal: i32) -> bool {
        match self {
            Program::Other(_) => true,
            Program::Started(..) => {
                if signal == SIGTERM {
                    self.send(Signal::TERM);
                } else if !stderr().is_terminal() {
                    self.send(Signal::INT);
                }
                false
            }
        }
    }

    /// Ends a program that was started and still runs. Returns its status, or 0 if this has ended it.
    pub(super) fn end(&mut self) -> Result<u8, Failure> {
        match self {
            Program::Other(_) => Ok(0),
            Program::Started(_, Some(status)) => {
                let by_signal = || 128 + status.signal().unwrap_or(0);
                Ok(status.code().unwrap_or_else(by_signal) as u8)
            }
            Program::Started(..) => {
                self.send(Signal::TERM);
                if let Program::Started(child, _) = self {
                    child.wait()?;
                }
                Ok(0)
            }
        }
    }

    fn send(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        // A program that has ended gets no signal; it was not waited for, so that its number is still its
        // own.
        let _ = pid.map(|pid| kill_process(pid, signal));
    }
}
