//! Passing listening sockets to other processes of this program: to a new version that takes over,
//! and to the processes of `--processes`.
//!
//! Sockets are passed as systemd does (`LISTEN_FDS`), plus the write end of a pipe, on which the
//! new process reports that it serves.

use crate::Failure;
use command_fds::{CommandFdExt, FdMapping};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Set for a process that gets its sockets from another laio process; the value is the number of
/// the pipe.
const READY: &str = "LAIO_READY_FD";
/// Also set for a process of `--processes`.
const SUPERVISED: &str = "LAIO_SUPERVISED";
/// The message on the pipe.
const READY_MESSAGE: &[u8] = b"ready";
/// The number of the first passed descriptor (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// A started process, and the pipe on which it reports that it serves.
pub(super) struct Started {
    pub(super) child: Child,
    ready: io::PipeReader,
}

impl Started {
    /// Waits until the process serves. Returns false if it has ended instead.
    pub(super) fn serves(&mut self) -> bool {
        let mut word = [0; READY_MESSAGE.len()];
        self.ready.read_exact(&mut word).is_ok() && word == READY_MESSAGE
    }
}

/// Starts the program from its present file, with the same arguments and these sockets.
///
/// # Errors
/// Returns the errors of creating a pipe and of starting a program.
pub(super) fn start(sockets: Vec<OwnedFd>, supervised: bool) -> io::Result<Started> {
    let (ready, report) = io::pipe()?;
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| OsString::from("laio"));
    let mut command = Command::new(program);
    command.args(arguments);
    let numbered = (FIRST..).zip(sockets.into_iter().chain([OwnedFd::from(report)]));
    let mappings: Vec<_> = numbered
        .map(|(child_fd, parent_fd)| FdMapping {
            parent_fd,
            child_fd,
        })
        .collect();
    let count = mappings.len() as i32 - 1;
    command
        .env("LISTEN_FDS", count.to_string())
        .env(READY, (FIRST + count).to_string())
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDNAMES");
    if supervised {
        // The supervisor handles Ctrl-C and stops the others.
        command.env(SUPERVISED, "1").process_group(0);
        command.env_remove("NOTIFY_SOCKET");
    } else {
        command.env_remove(SUPERVISED);
    }
    command
        .fd_mappings(mappings)
        .map_err(|_| io::Error::other("two descriptors have the same number"))?;
    let child = command.spawn()?;
    Ok(Started { child, ready })
}

/// Sets `LISTEN_PID` in a process that was given sockets, as the systemd protocol requires. The
/// parent could not know the process id, so the process executes itself again with the variable
/// set.
///
/// # Errors
/// Returns the errors of starting a program.
pub(super) fn take_sockets() -> io::Result<()> {
    let own = std::process::id().to_string();
    if std::env::var_os(READY).is_none() || std::env::var("LISTEN_PID").is_ok_and(|pid| pid == own)
    {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(arguments).env("LISTEN_PID", own);
    Err(command.exec())
}

/// Whether this process takes over from another, which may still listen.
pub(super) fn is_successor() -> bool {
    std::env::var_os(READY).is_some() && !is_supervised()
}

/// Whether this process is one of `--processes`.
pub(super) fn is_supervised() -> bool {
    std::env::var_os(SUPERVISED).is_some()
}

/// Reports to the parent that this process serves.
pub(super) fn report_ready() -> Result<(), Failure> {
    let Some(number) = std::env::var(READY)
        .ok()
        .and_then(|it| it.parse::<i32>().ok())
    else {
        return Ok(());
    };
    // Open the pipe through /proc, because the descriptor may have been closed and reused.
    let path = format!("/proc/self/fd/{number}");
    match OpenOptions::new().write(true).open(path) {
        Ok(mut pipe) => match pipe.write_all(READY_MESSAGE) {
            // The parent may have ended.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        },
        Err(_) => Ok(()),
    }
}
