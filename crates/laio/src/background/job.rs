//! A call for a thread to make.

use super::after_open::AfterOpenAddress;
use super::lane;
use crate::status_word::StatusTarget;
use crate::sys::interrupt::Interruptible;
use crate::sys::terminal::has_lost_its_master;
use crate::table::Row;
use crate::transfer;
use crate::{Call, Errno, Handle};
use std::os::fd::RawFd;

/// A call for a helper or a one-shot thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) handle: Handle,
    pub(crate) row: &'static Row,
    pub(crate) call: Call,
    /// Whether a short read may be continued (see [`transfer::continues`]).
    pub(crate) regular: bool,
    /// The status word that receives the result, and the bytes moved before this job.
    pub(crate) status: Option<(StatusTarget, usize)>,
    /// Injected bound of one step; 0 for none.
    pub(crate) short: usize,
    /// Whether it is the read of a stream that was no hung-up terminal when the read was started.
    pub(crate) may_lose_terminal: bool,
    /// Whether it rarely waits: a buffered write that is here only because its file system has no
    /// non-blocking form of it. Such jobs share a helper.
    pub(crate) is_brief: bool,
    /// What the thread does with a file that the call has opened.
    pub(crate) after_open: Option<AfterOpenAddress>,
}

impl Job {
    /// A call for a thread that no context has.
    pub(crate) fn new(row: &'static Row, call: Call) -> Job {
        Job {
            // Only a context needs it.
            handle: Handle::from_raw(1).expect("not 0"),
            row,
            call,
            regular: false,
            status: None,
            short: 0,
            may_lose_terminal: false,
            is_brief: false,
            after_open: None,
        }
    }

    /// Publishes the result to the status word, except a cancellation, which the context publishes.
    pub(super) fn publish_status(&self, result: Result<usize, Errno>) {
        match (self.status, result) {
            (None, _) | (_, Err(Errno::CANCELED)) => {}
            (Some((status, before)), Ok(moved)) => status.publish(Ok(before + moved)),
            (Some((status, 0)), error) => status.publish(error),
            (Some((status, before)), Err(_)) => status.publish(Ok(before)),
        }
    }
}

/// The outcome of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The job had not begun, and was removed.
    Removed,
    /// The job is running or finished: its result will come.
    Running,
    /// The job is running, and the kernel has refused the signal that interrupts it: the cancellation
    /// must be repeated.
    Refused,
}

impl Cancelled {
    /// The outcome for a running job. `interrupted`: see [`Interruptible::interrupt`].
    pub(super) fn running(interrupted: bool) -> Cancelled {
        if interrupted {
            Cancelled::Running
        } else {
            Cancelled::Refused
        }
    }
}

/// Makes a call on the context's own thread, for which no other thread can be started, and publishes
/// its status. Returns `None` for an `open` that may wait for another process.
pub(super) fn run_by_caller(job: &Job) -> Option<Result<usize, Errno>> {
    // No other thread interrupts it.
    let interruptible = Interruptible::default();
    if lane::opens_blocking_file(job, &interruptible) {
        return None;
    }
    let result = run(job, &interruptible);
    job.publish_status(result);
    Some(result)
}

/// Makes the call, and does what follows an `open`.
pub(crate) fn run(job: &Job, interruptible: &Interruptible) -> Result<usize, Errno> {
    let result = make(job, interruptible);
    if let (Some(after_open), Ok(fd)) = (job.after_open, result) {
        // SAFETY: the context keeps the operation's memory until this job's result is delivered.
        unsafe { after_open.run(fd as RawFd, interruptible) };
    }
    result
}

/// The first part of [`run`] for a load (`Queued::is_load`). It does not wait for the data: [`end_load`]
/// does.
pub(crate) fn begin_load(job: &Job, interruptible: &Interruptible) -> Result<usize, Errno> {
    let result = make(job, interruptible);
    if let (Some(after_open), Ok(fd)) = (job.after_open, result) {
        // SAFETY: as in `run`.
        unsafe { after_open.begin(fd as RawFd, interruptible) };
    }
    result
}

/// `opened`: what [`begin_load`] returned.
pub(crate) fn end_load(job: &Job, opened: Result<usize, Errno>, interruptible: &Interruptible) {
    if let (Some(after_open), Ok(fd)) = (job.after_open, opened) {
        // SAFETY: as in `run`.
        unsafe { after_open.end(fd as RawFd, interruptible) };
    }
}

/// Makes the call until it is complete or interrupted.
fn make(job: &Job, interruptible: &Interruptible) -> Result<usize, Errno> {
    let mut scratch = None;
    let mut done = 0;
    loop {
        // SAFETY: the context keeps the call's memory alive until this job's result is delivered, and
        // `done` is not 0 only after the kernel has accepted the pointers.
        let result = unsafe {
            let mut step = transfer::remaining(job.row, &job.call, done, &mut scratch);
            if job.short > 0 {
                step = transfer::shortened(job.row, &step, job.short, &mut scratch);
            }
            interruptible.syscall(&step)
        };
        match result {
            // The master was closed before this thread began to read. The plain call would have been
            // waiting then.
            Ok(0) if job.may_lose_terminal && has_lost_its_master(job.call.descriptor(0)) => {
                return Err(Errno::IO);
            }
            Ok(moved) => {
                done += moved;
                // The kernel completes a blocking transfer itself; only an injected bound makes a
                // step short.
                let bounded = job.short > 0 && moved == job.short;
                // SAFETY: the kernel has just accepted the pointers.
                let wanted = unsafe { transfer::wanted(job.row, &job.call) };
                let more = bounded && wanted.is_some_and(|wanted| done < wanted);
                if !(more && transfer::continues(job.row, &job.call, job.regular)) {
                    return Ok(done);
                }
            }
            Err(Errno::INTR) if !interruptible.is_interrupted() => {}
            Err(_) if done > 0 => return Ok(done),
            Err(Errno::INTR) => return Err(Errno::CANCELED),
            Err(errno) => return Err(errno),
        }
    }
}
