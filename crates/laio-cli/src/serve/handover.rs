//! Other processes of this program that serve on the same sockets: the next one after a new version was installed,
//! and those of `--processes`.
//!
//! Sockets are passed on as systemd does (`LISTEN_FDS`), with the number of a pipe into which the new process
//! writes a word when it serves.

use crate::Failure;
use command_fds::{CommandFdExt, FdMapping};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Set for a process that was given sockets by one of its own kind; its value is the number of the pipe.
const READY: &str = "LAIO_READY_FD";
/// Set besides for one of `--processes`.
const SUPERVISED: &str = "LAIO_SUPERVISED";
/// What is written into the pipe.
const WORD: &[u8] = b"ready";
/// The number of the first descriptor that is passed on (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// A process that was started, and where it says that it serves.
pub(super) struct Started {
    pub(super) child: Child,
    ready: io::PipeReader,
}

impl Started {
    /// Waits until it serves. False if it has ended instead.
    pub(super) fn serves(&mut self) -> bool {
        let mut word = [0; WORD.len()];
        self.ready.read_exact(&mut word).is_ok() && word == WORD
    }
}

/// Starts this program anew, from where it lies now, with the same arguments, on these sockets.
///
/// # Errors
/// Those of making a pipe and of starting a program.
pub(super) fn start(sockets: Vec<OwnedFd>, supervised: bool) -> io::Result<Started> {
    let (ready, tell) = io::pipe()?;
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| OsString::from("laio"));
    let mut command = Command::new(program);
    command.args(arguments);
    let numbered = (FIRST..).zip(sockets.into_iter().chain([OwnedFd::from(tell)]));
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
        // Ctrl-C at the terminal is for the one that supervises, which tells the others.
        command.env(SUPERVISED, "1").process_group(0);
        command.env_remove("NOTIFY_SOCKET");
    } else {
        command.env_remove(SUPERVISED);
    }
    command
        .fd_mappings(mappings)
        .map_err(|_| io::Error::other("two descriptors were to have one number"))?;
    let child = command.spawn()?;
    Ok(Started { child, ready })
}

/// In a process that was given sockets: says that they are for this one, as systemd does. Only the process itself
/// knows its number, so it starts over once with that.
///
/// # Errors
/// Those of starting a program.
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

/// Whether this process takes the place of another, which may still listen.
pub(super) fn is_successor() -> bool {
    std::env::var_os(READY).is_some() && !is_supervised()
}

/// Whether this process is one of `--processes`.
pub(super) fn is_supervised() -> bool {
    std::env::var_os(SUPERVISED).is_some()
}

/// Tells who started this process that it serves.
pub(super) fn tell_ready() -> Result<(), Failure> {
    let Some(number) = std::env::var(READY)
        .ok()
        .and_then(|it| it.parse::<i32>().ok())
    else {
        return Ok(());
    };
    // The pipe is opened anew by its number, since nobody can vouch that it is still ours.
    let path = format!("/proc/self/fd/{number}");
    match OpenOptions::new().write(true).open(path) {
        Ok(mut pipe) => match pipe.write_all(WORD) {
            // Who started it may have ended meanwhile.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        },
        Err(_) => Ok(()),
    }
}
