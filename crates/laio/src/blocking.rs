//! The plain call, run to completion on the caller's thread: for `sync` and for forced inline
//! calls.

use crate::knowledge::mounts::{FileKind, peek};
use crate::table::{Attempt, Class, Opcode, Row, Timeout, Transfer};
use crate::transfer::{continues, receives_control, remaining, wanted};
use crate::{Call, Errno, sys};
use std::time::{Duration, Instant};

/// Makes the call until it is complete. A signal handler of the application may interrupt it at any
/// time: transfers and waits are then continued with what is left, so `EINTR` is never returned.
///
/// # Safety
/// As for the system call.
#[inline]
pub(crate) unsafe fn run(row: &Row, call: &Call) -> Result<usize, Errno> {
    let deadline = if row.class == Class::Waiting {
        Deadline::from_call(row, call)
    } else {
        None
    };
    // SAFETY: by the caller.
    let first = unsafe { sys::syscall(call) };
    match first {
        Err(errno) if !errno.is_interruption() => first,
        Ok(moved) if moved == 0 || row.transfer == Transfer::Whole => first,
        Ok(moved) if row.transfer.length(call) == Some(moved) => first,
        // SAFETY: by the caller.
        _ => unsafe { continue_transfer(row, call, first, deadline) },
    }
}

/// Continues from the first result, which may be partial, or `EINTR`.
///
/// # Safety
/// As for the system call.
unsafe fn continue_transfer(
    row: &Row,
    call: &Call,
    mut result: Result<usize, Errno>,
    deadline: Option<Deadline>,
) -> Result<usize, Errno> {
    let mut scratch = None;
    let mut done = 0;
    loop {
        let mut time_left = None;
        match result {
            // A signal interrupted the transfer: a blocking write is short for no other reason. A
            // short read of a file may be at its end, which the next read then confirms with 0.
            Ok(moved) if moved > 0 && interrupted_transfer(row, call, done + moved) => {
                done += moved;
            }
            Ok(moved) => return Ok(done + moved),
            Err(errno) if errno.is_interruption() && row.opcode == Some(Opcode::Connect) => {
                return connect_interrupted(call.descriptor(0));
            }
            Err(errno) if errno.is_interruption() => {
                time_left = deadline.as_ref().map(Deadline::left);
            }
            Err(_) if done > 0 => return Ok(done),
            Err(errno) => return Err(errno),
        }
        // SAFETY: by the caller; `done` is not 0 only after the kernel has accepted the pointers.
        let mut step = unsafe { remaining(row, call, done, &mut scratch) };
        if let Some((deadline, left)) = deadline.as_ref().zip(time_left.as_ref()) {
            deadline.apply(left, &mut step);
        }
        // SAFETY: by the caller.
        result = unsafe { sys::syscall(&step) };
    }
}

/// # Safety contract
/// Called only after the kernel has accepted the call's pointers.
pub(crate) fn interrupted_transfer(row: &Row, call: &Call, done: usize) -> bool {
    // SAFETY: see above.
    if unsafe { wanted(row, call) }.is_none_or(|wanted| done >= wanted) {
        return false;
    }
    let fd = call.descriptor(0);
    let could = match row.attempt {
        // A write to a file stops only at its end or at a limit (of space, or of the process).
        Attempt::NowaitWrite => is_stream(fd),
        Attempt::Dontwait(_) => {
            let messages = matches!(row.transfer, Transfer::Messages { .. });
            continues(row, call, false)
                && (messages || sys::is_stream_socket(fd))
                && !receives_control(row, call)
        }
        _ => false,
    };
    could && !sys::is_nonblocking(fd)
}

fn is_stream(fd: i32) -> bool {
    peek(fd).is_ok_and(|status| FileKind::from_status(&status).is_stream())
}

/// An interrupted `connect` continues in the kernel; calling it again would return `EALREADY`.
fn connect_interrupted(fd: i32) -> Result<usize, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let socket = sys::borrow(fd).ok_or(Errno::BADF)?;
    loop {
        match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    match rustix::net::sockopt::socket_error(socket)? {
        Ok(()) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// The end of a relative wait, so that an interrupted wait continues with the time that is left.
struct Deadline {
    arg: usize,
    form: Timeout,
    end: Instant,
}

impl Deadline {
    fn from_call(row: &Row, call: &Call) -> Option<Deadline> {
        let (arg, form) = match (row.attempt, row.name) {
            (Attempt::ZeroTimeout(arg, form), _) => (arg as usize, form),
            (_, "nanosleep") => (0, Timeout::Timespec),
            // The time of other futex operations is absolute.
            (_, "futex") if call.args[1] & 127 == libc::FUTEX_WAIT as usize => {
                (3, Timeout::Timespec)
            }
            (_, "clock_nanosleep") if call.args[1] as i32 & libc::TIMER_ABSTIME == 0 => {
                (2, Timeout::Timespec)
            }
            _ => return None,
        };
        let wait = match form {
            Timeout::Milliseconds => {
                Duration::from_millis(u64::try_from(call.args[arg] as i32).ok()?)
            }
            Timeout::Timespec | Timeout::Timeval => {
                let words = call.args[arg] as *const i64;
                if !sys::memory::can_read(words.addr(), 16) {
                    return None;
                }
                // SAFETY: two words that can be read, aligned or not.
                let [seconds, part] = unsafe { words.cast::<[i64; 2]>().read_unaligned() };
                let part = if form == Timeout::Timeval {
                    part.checked_mul(1000)?
                } else {
                    part
                };
                Duration::new(u64::try_from(seconds).ok()?, u32::try_from(part).ok()?)
            }
        };
        Some(Deadline {
            arg,
            form,
            end: Instant::now().checked_add(wait)?,
        })
    }

    /// Returns the time left, as the words of a timespec or timeval.
    fn left(&self) -> [i64; 2] {
        let left = self.end.saturating_duration_since(Instant::now());
        let part = match self.form {
            Timeout::Timeval => left.subsec_micros(),
            _ => left.subsec_nanos(),
        };
        [left.as_secs() as i64, part.into()]
    }

    fn apply(&self, left: &[i64; 2], step: &mut Call) {
        step.args[self.arg] = match self.form {
            Timeout::Milliseconds => {
                // Rounded up: never shorter than requested.
                (left[0] * 1000 + (left[1] + 999_999) / 1_000_000) as usize
            }
            Timeout::Timespec | Timeout::Timeval => left.as_ptr() as usize,
        };
    }
}
