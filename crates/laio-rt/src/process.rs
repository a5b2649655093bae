//! Child processes.

use crate::pipe::{Reader, Writer};
use crate::submission::submit;
use laio::ops::WaitProcess;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child as StdChild, Command, ExitStatus};

/// A child process.
///
/// ```
/// use laio_rt::process::Child;
/// use std::process::Command;
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(async {
///     let mut child = Child::spawn(Command::new("sh").args(["-c", "exit 3"]))?;
///     assert_eq!(child.wait().await?.code(), Some(3));
///     std::io::Result::Ok(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Dropping it leaves the process running, and its exit status uncollected. To avoid that, convert it into a
/// [`std::process::Child`].
#[derive(Debug)]
pub struct Child(StdChild);

impl Child {
    /// Starts a process with [`Command::spawn`], which blocks until the program is loaded or loading it has
    /// failed.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    pub fn spawn(command: &mut Command) -> io::Result<Child> {
        Ok(Child(command.spawn()?))
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the process ends. Closes its standard input first, so that the process does not wait for
    /// input.
    ///
    /// The future may be dropped and `wait` called again: only a wait that returns the status collects it.
    ///
    /// # Errors
    /// `ECHILD` if other code has collected the status.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.0.stdin.take());
        if let Some(status) = self.0.try_wait()? {
            return Ok(status);
        }
        submit(WaitProcess::new(self.id()).keep()).await?;
        // The process has ended, so this returns at once. It records in the standard library's handle that the
        // process id is no longer this child's.
        self.0.wait()
    }

    /// Kills the process with `SIGKILL`, if it has not ended. The program still must wait for it.
    ///
    /// # Errors
    /// `EPERM` if it runs as another user.
    pub fn kill(&mut self) -> io::Result<()> {
        self.0.kill()
    }

    /// Returns the writing end of its standard input, if that is [`Stdio::piped`](std::process::Stdio::piped)
    /// and has not been taken.
    pub fn take_stdin(&mut self) -> Option<Writer> {
        Some(OwnedFd::from(self.0.stdin.take()?).into())
    }

    /// Returns the reading end of its standard output, likewise.
    pub fn take_stdout(&mut self) -> Option<Reader> {
        Some(OwnedFd::from(self.0.stdout.take()?).into())
    }

    /// Returns the reading end of its standard error, likewise.
    pub fn take_stderr(&mut self) -> Option<Reader> {
        Some(OwnedFd::from(self.0.stderr.take()?).into())
    }
}

impl From<StdChild> for Child {
    fn from(child: StdChild) -> Child {
        Child(child)
    }
}

impl From<Child> for StdChild {
    fn from(child: Child) -> StdChild {
        child.0
    }
}
