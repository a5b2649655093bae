//! The two lanes of the helpers: calls that end by themselves, and calls that may wait without a
//! bound.
//!
//! A call of the second kind waits for an event that another call, perhaps of the same program,
//! must cause first: release a lock, write to a pipe, post a semaphore. So it never takes a helper
//! that a call of the first kind needs. Each lane has its own limit; calls that end queue at
//! theirs, while at the limit of the other lane a call fails with `EAGAIN`.

use super::helpers::Job;
use crate::sys::interrupt::Interruptible;
use crate::table::{Attempt, Class, Row};
use crate::{Call, Errno, Handle, Limits, sys};
use std::collections::VecDeque;

/// The lane that a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// File I/O, names, metadata: it ends by itself.
    Ends,
    /// It may wait for another process, a peer, a terminal, a lock or a time.
    Waits,
}

/// Returns the lane of a call. `regular`: its descriptor is a file. `found_to_wait`: an attempt has
/// opened a FIFO or device, whose open waits.
pub(crate) fn of(row: &Row, call: &Call, regular: bool, found_to_wait: bool) -> Lane {
    let waits = match row.class {
        Class::Stream => !regular,
        Class::Waiting => !never_waits(row, call),
        Class::Path => found_to_wait,
        _ => match row.attempt {
            Attempt::LockCommand => {
                matches!(call.args[1] as i32, libc::F_SETLKW | libc::F_OFD_SETLKW)
            }
            // Device commands are the drivers' own, and may wait.
            Attempt::DiskCommand => !crate::attempt::is_disk_command(call),
            _ => false,
        },
    };
    if waits { Lane::Waits } else { Lane::Ends }
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

/// Whether none of the operations on semaphores waits.
fn only_adds(operations: usize, count: usize) -> bool {
    // More operations than the kernel allows by default (`SEMOPM`) are not checked.
    const LOOKED_AT: usize = 500;
    if count > LOOKED_AT || !sys::memory::can_read(operations, count * size_of::<libc::sembuf>()) {
        return false;
    }
    let first = operations as *const libc::sembuf;
    (0..count).all(|index| {
        // SAFETY: the array was found to be readable.
        let one = unsafe { first.add(index).read_unaligned() };
        one.sem_op > 0 || i32::from(one.sem_flg) & libc::IPC_NOWAIT != 0
    })
}

/// Whether an `open` waits for the other end of a FIFO, or for a device such as a terminal. The
/// helper that opens it checks this, because resolving the name may wait for a disk.
pub(crate) fn opens_blocking_file(job: &Job, interruptible: &Interruptible) -> bool {
    let Some(name) = job.row.file.filter(|_| opens(job.row)) else {
        return false;
    };
    let flags = match name.flags {
        Some(arg) => job.call.args[arg as usize] as i32,
        None => job.row.implied as i32,
    };
    let never = libc::O_PATH | libc::O_DIRECTORY | libc::O_NONBLOCK;
    let makes_anew = libc::O_CREAT | libc::O_EXCL;
    if flags & never != 0 || flags & makes_anew == makes_anew {
        return false;
    }
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

fn opens(row: &Row) -> bool {
    row.class == Class::Path && row.yields_descriptor
}

/// The queued jobs of the two lanes, and the number of running ones.
#[derive(Debug)]
pub(crate) struct Lanes {
    ends: Track,
    waits: Track,
    /// At the limit of waiting calls, further ones queue rather than fail.
    waits_at_limit: bool,
    /// Jobs queued before the calling thread's identity changed, with the epoch of their workers.
    earlier: Vec<(u32, Lane, Job)>,
    epoch: u32,
}

#[derive(Debug)]
struct Track {
    queue: VecDeque<Job>,
    /// The number of running jobs of the current epoch.
    running: usize,
    limit: usize,
}

impl Track {
    fn new(limit: u32) -> Track {
        Track {
            queue: VecDeque::new(),
            running: 0,
            limit: (limit as usize).max(1),
        }
    }

    /// The number of workers that the lane needs now.
    fn needed(&self) -> usize {
        (self.running + self.queue.len()).min(self.limit)
    }
}

impl Lanes {
    pub(crate) fn new(limits: &Limits, waits_at_limit: bool) -> Lanes {
        Lanes {
            ends: Track::new(limits.helpers),
            waits: Track::new(limits.waiting_helpers.max(limits.helpers)),
            waits_at_limit,
            earlier: Vec::new(),
            epoch: 0,
        }
    }

    /// Queues a job. Returns whether a worker can begin it at once.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of waiting calls.
    pub(crate) fn add(&mut self, lane: Lane, job: Job) -> Result<bool, Errno> {
        let waits_at_limit = self.waits_at_limit;
        let track = self.track(lane);
        let full = track.running + track.queue.len() >= track.limit;
        if full && lane == Lane::Waits && !waits_at_limit {
            return Err(Errno::AGAIN);
        }
        track.queue.push_back(job);
        Ok(!full)
    }

    /// The next job for a worker.
    pub(crate) fn take(&mut self, epoch: u32) -> Option<(Lane, Job)> {
        if epoch != self.epoch {
            let at = self.earlier.iter().position(|(of, ..)| *of == epoch)?;
            let (_, lane, job) = self.earlier.remove(at);
            return Some((lane, job));
        }
        [Lane::Ends, Lane::Waits].into_iter().find_map(|lane| {
            let track = self.track(lane);
            if track.running >= track.limit {
                return None;
            }
            let job = track.queue.pop_front()?;
            track.running += 1;
            Some((lane, job))
        })
    }

    /// A worker is done with a job.
    pub(crate) fn done(&mut self, lane: Lane, epoch: u32) {
        if epoch == self.epoch {
            self.track(lane).running -= 1;
        }
    }

    /// Moves a running job to the waiting lane.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of waiting calls.
    pub(crate) fn found_to_wait(&mut self, epoch: u32) -> Result<(), Errno> {
        if epoch != self.epoch {
            return Ok(());
        }
        if self.waits.running + self.waits.queue.len() >= self.waits.limit {
            return Err(Errno::AGAIN);
        }
        self.ends.running -= 1;
        self.waits.running += 1;
        Ok(())
    }

    /// Removes a job that no worker has begun. Returns whether there was one.
    pub(crate) fn remove(&mut self, handle: Handle) -> bool {
        for track in [&mut self.ends, &mut self.waits] {
            if let Some(at) = track.queue.iter().position(|job| job.handle == handle) {
                track.queue.remove(at);
                return true;
            }
        }
        let before = self.earlier.len();
        self.earlier.retain(|(_, _, job)| job.handle != handle);
        self.earlier.len() < before
    }

    /// The number of workers of the current epoch that the jobs need: never more than the two
    /// limits together.
    pub(crate) fn needed(&self) -> usize {
        self.ends.needed() + self.waits.needed()
    }

    /// The number of those workers that waiting calls need.
    pub(crate) fn needed_to_wait(&self) -> usize {
        self.waits.needed()
    }

    /// Begins a new epoch: queued jobs stay with the workers of the old one.
    pub(crate) fn renew(&mut self) {
        for (lane, track) in [(Lane::Ends, &mut self.ends), (Lane::Waits, &mut self.waits)] {
            let jobs = track.queue.drain(..);
            self.earlier.extend(jobs.map(|job| (self.epoch, lane, job)));
            track.running = 0;
        }
        self.epoch += 1;
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    fn track(&mut self, lane: Lane) -> &mut Track {
        match lane {
            Lane::Ends => &mut self.ends,
            Lane::Waits => &mut self.waits,
        }
    }
}
