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
/// Dropping it leaves the process running; nobody then collects its exit status, unless it is converted
/// back into a [`std::process::Child`].
#[derive(Debug)]
pub struct Child(StdChild);

impl Child {
    /// Starts a process, with [`Command::spawn`]. That does not return before the program has been
    /// found and loaded, or has not.
    ///
    /// # Errors
    /// Those of [`Command::spawn`].
    pub fn spawn(command: &mut Command) -> io::Result<Child> {
        Ok(Child(command.spawn()?))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the process ends. Its standard input is closed first, so that it does not wait for
    /// it.
    ///
    /// Dropped and called again it loses nothing: only a wait that gives the status collects it.
    ///
    /// # Errors
    /// `ECHILD` if other code has waited for the process.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.0.stdin.take());
        if let Some(status) = self.0.try_wait()? {
            return Ok(status);
        }
        submit(WaitProcess::new(self.id()).keep()).await?;
        // It has ended, so this returns at once; and it makes the standard library's handle know that
        // the process id is not this child's any more.
        self.0.wait()
    }

    /// Kills the process with `SIGKILL`, if it has not ended. It still must be waited for.
    ///
    /// # Errors
    /// `EPERM` if it runs as somebody else.
    pub fn kill(&mut self) -> io::Result<()> {
        self.0.kill()
    }

    /// The other end of its standard input, if that is [`Stdio::piped`](std::process::Stdio::piped)
    /// and has not been taken.
    pub fn take_stdin(&mut self) -> Option<Writer> {
        Some(OwnedFd::from(self.0.stdin.take()?).into())
    }

    /// The other end of its standard output, likewise.
    pub fn take_stdout(&mut self) -> Option<Reader> {
        Some(OwnedFd::from(self.0.stdout.take()?).into())
    }

    /// The other end of its standard error, likewise.
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
