//! Operations that wait for a time, a child, or an event on a descriptor.

use super::outputs::done;
use super::{pointer, word};
use crate::Call;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

operation! {
    /// Sleeps, by the clock that stops while the machine is suspended (`CLOCK_MONOTONIC`).
    pub struct Sleep {
        time: libc::timespec,
    }

    // SAFETY: the time is part of the operation.
    unsafe call(self) {
        let time = pointer(&mut self.time);
        let args = [libc::CLOCK_MONOTONIC as usize, 0, time, 0];
        Call::new(libc::SYS_clock_nanosleep, args)
    }

    /// `ECANCELED` if it was cancelled before the time was over.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl Sleep {
    /// Sleeps at least this long.
    pub fn new(duration: Duration) -> Self {
        Sleep {
            time: libc::timespec {
                tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: duration.subsec_nanos().into(),
            },
        }
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

operation! {
    /// Waits until a child process ends.
    pub struct WaitProcess<F: AsFd = OwnedFd> {
        who: Who<F>,
        options: i32,
        info: libc::siginfo_t,
    }

    // SAFETY: the struct to fill is part of the operation.
    unsafe call(self) {
        let (kind, id) = match &self.who {
            Who::Pid(pid) => (libc::P_PID, *pid as usize),
            Who::Pidfd(descriptor) => (libc::P_PIDFD, word(descriptor)),
        };
        let info = pointer(&mut self.info);
        let args = [kind as usize, id, info, self.options as usize, 0];
        Call::new(libc::SYS_waitid, args)
    }

    /// The exit status; `ECHILD` if there is no such child, or it was waited for before.
    finish(self, result) -> io::Result<Exit> {
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

operation! {
    /// Waits until a descriptor can be read or written without waiting (`ppoll`).
    ///
    /// For descriptors used by other code. Operations do not need it: they wait by themselves,
    /// without a helper.
    pub struct Readiness<F: AsFd> {
        descriptor: F,
        poll: libc::pollfd,
    }

    // SAFETY: the struct to read and fill is part of the operation.
    unsafe call(self) {
        let descriptor: BorrowedFd<'_> = self.descriptor.as_fd();
        self.poll.fd = descriptor.as_raw_fd();
        let args = [pointer(&mut self.poll), 1, 0, 0, 0];
        Call::new(libc::SYS_ppoll, args)
    }

    /// The events: `POLLIN`, `POLLOUT`, `POLLHUP`, `POLLERR` and others.
    finish(self, result) -> io::Result<i16> {
        result?;
        Ok(self.poll.revents)
    }
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
