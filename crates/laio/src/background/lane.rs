//! The lanes of the helpers: calls that end by themselves, calls that ask a remote file system, and calls
//! that may wait without a bound.
//!
//! A call of the last kind waits for an event that another call, perhaps of the same program,
//! must cause first: release a lock, write to a pipe, post a semaphore. So it never takes a helper
//! that a call of the first kind needs. Each lane has its own limit. Bounded calls queue at theirs.
//! At the limit of the unbounded lane a call fails with `EAGAIN`, or queues with
//! [`BackPressure::Wait`](crate::BackPressure::Wait). So does an `open` that a helper finds to be
//! unbounded.
//!
//! A call that asks a remote file system ends by itself while the server answers, and may not end while
//! it does not. So each remote file system has a lane of its own, where its calls queue: they take no
//! helper from calls on other file systems. Its limit is [`crate::Limits::helpers`] at first, and grows with
//! each answer while calls queue ([`crate::Limits::REMOTE_GROWTH`]): its calls wait for a server, and take no
//! processor. The limit of the bounded lane grows to [`crate::Limits::helpers`] ([`crate::pool::growth`]).

use super::job::Job;
pub(crate) use crate::pool::lanes::Lane;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::table::{self, Attempt, Class, Opcode, Row, known_how};
use crate::{Call, Errno, sys};

/// Returns the lane of a call. `regular`: see [`crate::operations::InFlight::regular`].
/// `is_unbounded`: an attempt has opened a FIFO or device, whose open may wait.
/// `remote`: see [`crate::operations::InFlight::remote`].
pub(crate) fn of(
    row: &Row,
    call: &Call,
    regular: bool,
    is_unbounded: bool,
    remote: Option<u64>,
) -> Lane {
    let may_wait = match row.class {
        Class::Stream => !regular,
        Class::Waiting => !never_waits(row, call),
        Class::Path => is_unbounded,
        _ => match row.attempt {
            Attempt::Fcntl => {
                matches!(call.args[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW)
            }
            // Device commands are the drivers' own, and may wait.
            Attempt::Ioctl => !table::is_disk_command(call),
            _ => false,
        },
    };
    match remote {
        _ if may_wait => Lane::Unbounded,
        Some(device) => Lane::Remote(device),
        None => Lane::Bounded,
    }
}

/// Checks that a call of this lane can be cancelled if it must be. `wanted`: see [`Signal::install`].
///
/// # Errors
/// `EBUSY` if the call may wait without a bound, and no signal is free for interrupting it.
pub(crate) fn check_interruptible(lane: Lane, wanted: Option<i32>) -> Result<(), Errno> {
    match lane {
        Lane::Bounded | Lane::Remote(_) => Ok(()),
        Lane::Unbounded => Signal::install(wanted).map(drop),
    }
}

/// Whether a call of the class Waiting never waits with these arguments: it only wakes other
/// threads or queries state.
fn never_waits(row: &Row, call: &Call) -> bool {
    match row.name {
        "futex" => {
            let command = call.args[1] as i32 & libc::FUTEX_CMD_MASK;
            matches!(
                command,
                libc::FUTEX_WAKE
                    | libc::FUTEX_WAKE_OP
                    | libc::FUTEX_WAKE_BITSET
                    | libc::FUTEX_REQUEUE
                    | libc::FUTEX_CMP_REQUEUE
                    | libc::FUTEX_UNLOCK_PI
            )
        }
        "semop" | "semtimedop" => only_adds(call.args[1], call.args[2]),
        _ => false,
    }
}

/// The kernel's default of `SEMOPM`: more semaphore operations than this in one call are not
/// checked.
const SEMOPS_CHECKED_MAX: usize = 500;

/// Whether none of the operations on semaphores waits.
fn only_adds(operations: usize, count: usize) -> bool {
    if count > SEMOPS_CHECKED_MAX
        || !sys::memory::can_read(operations, count * size_of::<libc::sembuf>())
    {
        return false;
    }
    let first = operations as *const libc::sembuf;
    (0..count).all(|index| {
        // SAFETY: the array was found to be readable.
        let one = unsafe { first.add(index).read_unaligned() };
        one.sem_op > 0 || i32::from(one.sem_flg) & libc::IPC_NOWAIT != 0
    })
}

/// Whether an `open` may wait for the other end of a FIFO, or for a device such as a terminal. The
/// helper that opens it checks this, because resolving the name may wait for a disk.
pub(crate) fn opens_blocking_file(job: &Job, interruptible: &Interruptible) -> bool {
    let Some(name) = job.row.file.filter(|_| may_open_blocking_file(job)) else {
        return false;
    };
    let flags = open_flags(job);
    let directory = name
        .directory
        .map_or(libc::AT_FDCWD, |arg| job.call.descriptor(arg));
    let mut how = libc::AT_NO_AUTOMOUNT;
    if flags & libc::O_NOFOLLOW != 0 {
        how |= libc::AT_SYMLINK_NOFOLLOW;
    }
    // SAFETY: plain data, for which all zeros is a valid value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    let path = job.call.args[name.path as usize];
    let args = [
        directory as usize,
        path,
        (&raw mut status) as usize,
        how as usize,
    ];
    // SAFETY: the struct lives through the call; the name is the operation's.
    let found = unsafe { interruptible.syscall(&Call::new(libc::SYS_newfstatat, args)) };
    found.is_ok() && matches!(status.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFCHR)
}

/// Whether it is an `open` whose flags let it wait for the other end of a FIFO or for a device.
pub(crate) fn may_open_blocking_file(job: &Job) -> bool {
    let opens = job.row.class == Class::Path && job.row.yields_descriptor;
    let never = libc::O_PATH | libc::O_DIRECTORY | libc::O_NONBLOCK;
    let makes_anew = libc::O_CREAT | libc::O_EXCL;
    let flags = open_flags(job);
    opens && flags & never == 0 && flags & makes_anew != makes_anew
}

fn open_flags(job: &Job) -> i32 {
    match job.row.opcode {
        // The memory of a typed operation is good.
        Some(Opcode::OpenAt2) => {
            known_how(&job.call, job.after_open.is_some()).map_or(0, |how| how.flags as i32)
        }
        _ => job.row.flags_of(&job.call),
    }
}
