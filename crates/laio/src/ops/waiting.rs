//! Operations that wait for a time, a child, or an event on a descriptor.

use super::storage::done;
use super::word;
use crate::typed::Operation;
use crate::{Call, Errno};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Sleeps, by the clock that stops while the machine is suspended (`CLOCK_MONOTONIC`).
pub struct Sleep {
    time: libc::timespec,
}

impl Sleep {
    /// Sleeps at least this long.
    pub fn new(duration: Duration) -> Self {
        Sleep {
            time: libc::timespec {
                tv_sec: duration.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                tv_nsec: duration.subsec_nanos().into(),
            },
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, part) = (self.time.tv_sec as u64, self.time.tv_nsec as u32);
        f.debug_tuple("Sleep")
            .field(&Duration::new(seconds, part))
            .finish()
    }
}

// SAFETY: the time is part of the operation.
unsafe impl Operation for Sleep {
    /// `ECANCELED` if it was cancelled before the time was over.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let time = (&raw const self.time) as usize;
        let args = [libc::CLOCK_MONOTONIC as usize, 0, time, 0];
        Call::new(libc::SYS_clock_nanosleep, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It called `exit` with this code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// The signal.
        number: i32,
        /// Whether it left a core dump.
        core: bool,
    },
}

/// Waits until a child process ends.
pub struct WaitProcess<F = OwnedFd> {
    who: Who<F>,
    options: i32,
    info: libc::siginfo_t,
}

#[derive(Debug)]
enum Who<F> {
    Pid(u32),
    Pidfd(F),
}

impl WaitProcess {
    /// Waits for the child with this process id.
    pub fn new(pid: u32) -> Self {
        WaitProcess::of(Who::Pid(pid))
    }
}

impl<F> WaitProcess<F> {
    /// Waits for the child that a pidfd stands for, on Linux 5.4 or later.
    pub fn pidfd(descriptor: F) -> Self {
        WaitProcess::of(Who::Pidfd(descriptor))
    }

    fn of(who: Who<F>) -> Self {
        WaitProcess {
            who,
            options: libc::WEXITED,
            // SAFETY: plain data, for which all zeros is a valid value.
            info: unsafe { std::mem::zeroed() },
        }
    }

    /// Leaves the child waitable. Otherwise its process ID may be reused from now on, and if the
    /// operation is abandoned the exit status may be lost.
    pub fn keep(mut self) -> Self {
        self.options |= libc::WNOWAIT;
        self
    }
}

impl<F: fmt::Debug> fmt::Debug for WaitProcess<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WaitProcess").field(&self.who).finish()
    }
}

// SAFETY: the struct to fill is part of the operation.
unsafe impl<F: AsFd + 'static> Operation for WaitProcess<F> {
    /// The exit status; `ECHILD` if there is no such child, or it was waited for before.
    type Output = io::Result<Exit>;

    fn call(&mut self) -> Call {
        let (kind, id) = match &self.who {
            Who::Pid(pid) => (libc::P_PID, *pid as usize),
            Who::Pidfd(descriptor) => (libc::P_PIDFD, word(descriptor)),
        };
        let info = (&raw mut self.info) as usize;
        let args = [kind as usize, id, info, self.options as usize, 0];
        Call::new(libc::SYS_waitid, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        result?;
        // SAFETY: waitid fills the fields for a child's record.
        let status = unsafe { self.info.si_status() };
        Ok(match self.info.si_code {
            libc::CLD_EXITED => Exit::Code(status),
            code => Exit::Signal {
                number: status,
                core: code == libc::CLD_DUMPED,
            },
        })
    }
}

/// Waits until a descriptor can be read or written without waiting (`ppoll`).
///
/// For descriptors used by other code. Operations do not need it: they wait by themselves, without
/// a helper.
pub struct Readiness<F> {
    descriptor: F,
    poll: libc::pollfd,
}

impl<F> Readiness<F> {
    /// Waits until `descriptor` is readable, including end of file and errors.
    pub fn readable(descriptor: F) -> Self {
        Readiness::of(descriptor, libc::POLLIN | libc::POLLRDHUP)
    }

    /// Waits until `descriptor` is writable, including errors.
    pub fn writable(descriptor: F) -> Self {
        Readiness::of(descriptor, libc::POLLOUT)
    }

    fn of(descriptor: F, events: i16) -> Self {
        Readiness {
            descriptor,
            poll: libc::pollfd {
                fd: -1,
                events,
                revents: 0,
            },
        }
    }
}

impl<F: fmt::Debug> fmt::Debug for Readiness<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("descriptor", &self.descriptor)
            .field("events", &self.poll.events)
            .finish()
    }
}

// SAFETY: the struct to read and fill is part of the operation.
unsafe impl<F: AsFd + 'static> Operation for Readiness<F> {
    /// The events: `POLLIN`, `POLLOUT`, `POLLHUP`, `POLLERR` and others.
    type Output = io::Result<i16>;

    fn call(&mut self) -> Call {
        let descriptor: BorrowedFd<'_> = self.descriptor.as_fd();
        self.poll.fd = descriptor.as_raw_fd();
        let args = [(&raw mut self.poll) as usize, 1, 0, 0, 0];
        Call::new(libc::SYS_ppoll, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        result?;
        Ok(self.poll.revents)
    }
}
