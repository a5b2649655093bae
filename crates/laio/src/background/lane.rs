//! The two lanes of the helpers: calls that end by themselves, and calls that may wait without a
//! bound.
//!
//! A call of the second kind waits for an event that another call, perhaps of the same program,
//! must cause first: release a lock, write to a pipe, post a semaphore. So it never takes a helper
//! that a call of the first kind needs. Each lane has its own limit. Bounded calls queue at theirs.
//! At the limit of the unbounded lane a call fails with `EAGAIN`, or queues with
//! [`BackPressure::Wait`](crate::BackPressure::Wait). So does an `open` that a helper finds to be
//! unbounded.

use super::job::Job;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::table::{self, Attempt, Class, Row};
use crate::{Call, Errno, Handle, Limits, sys};
use std::collections::VecDeque;

/// The lane that a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// File I/O, names, metadata: it ends by itself.
    Bounded,
    /// It may wait for another process, a peer, a terminal, a lock or a time.
    Unbounded,
}

/// Returns the lane of a call. `regular`: see [`crate::operations::InFlight::regular`].
/// `is_unbounded`: an attempt has opened a FIFO or device, whose open may wait.
pub(crate) fn of(row: &Row, call: &Call, regular: bool, is_unbounded: bool) -> Lane {
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
    if may_wait {
        Lane::Unbounded
    } else {
        Lane::Bounded
    }
}

/// Checks that a call of this lane can be cancelled if it must be. `wanted`: see [`Signal::install`].
///
/// # Errors
/// `EBUSY` if the call may wait without a bound, and no signal is free for interrupting it.
pub(crate) fn check_interruptible(lane: Lane, wanted: Option<i32>) -> Result<(), Errno> {
    match lane {
        Lane::Bounded => Ok(()),
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
    let Some(name) = job.row.file.filter(|_| opens(job.row)) else {
        return false;
    };
    let flags = job.row.flags_of(&job.call);
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
    bounded: Track,
    unbounded: Track,
    /// At the limit of unbounded calls, further ones queue rather than fail.
    queue_at_limit: bool,
    /// Jobs queued before the calling thread's identity changed, with the generation of their helpers.
    earlier: Vec<(u32, Lane, Job)>,
    /// How often the pool was renewed. Each new version of the calling thread's rights
    /// ([`crate::background::rights`]) renews it, and so does a change of only its FS state.
    generation: u32,
}

#[derive(Debug)]
struct Track {
    queue: VecDeque<Job>,
    /// The number of running jobs of the current generation.
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

    /// The number of helpers that the lane needs now.
    fn needed(&self) -> usize {
        (self.running + self.queue.len()).min(self.limit)
    }
}

impl Lanes {
    pub(crate) fn new(limits: &Limits, queue_at_limit: bool) -> Lanes {
        Lanes {
            bounded: Track::new(limits.helpers),
            unbounded: Track::new(limits.waiting_helpers.max(limits.helpers)),
            queue_at_limit,
            earlier: Vec::new(),
            generation: 0,
        }
    }

    /// Queues a job. Returns whether a helper can begin it at once.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn add(&mut self, lane: Lane, job: Job) -> Result<bool, Errno> {
        let queue_at_limit = self.queue_at_limit;
        let track = self.track(lane);
        let full = track.running + track.queue.len() >= track.limit;
        if full && lane == Lane::Unbounded && !queue_at_limit {
            return Err(Errno::AGAIN);
        }
        track.queue.push_back(job);
        Ok(!full)
    }

    /// The next job for a helper.
    pub(crate) fn take(&mut self, generation: u32) -> Option<(Lane, Job)> {
        if generation != self.generation {
            let at = self.earlier.iter().position(|(of, ..)| *of == generation)?;
            let (_, lane, job) = self.earlier.remove(at);
            return Some((lane, job));
        }
        [Lane::Bounded, Lane::Unbounded]
            .into_iter()
            .find_map(|lane| {
                let track = self.track(lane);
                if track.running >= track.limit {
                    return None;
                }
                let job = track.queue.pop_front()?;
                track.running += 1;
                Some((lane, job))
            })
    }

    /// A helper is done with a job.
    pub(crate) fn done(&mut self, lane: Lane, generation: u32) {
        if generation == self.generation {
            self.track(lane).running -= 1;
        }
    }

    /// Moves a running job to the unbounded lane. Returns false if it was queued there instead, so
    /// that it runs no longer. `is_cancelled`: it ends at once, without waiting.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn move_to_unbounded(
        &mut self,
        job: &Job,
        generation: u32,
        is_cancelled: bool,
    ) -> Result<bool, Errno> {
        if generation != self.generation {
            return Ok(true);
        }
        let full = self.unbounded.running + self.unbounded.queue.len() >= self.unbounded.limit;
        if !full || is_cancelled {
            self.bounded.running -= 1;
            self.unbounded.running += 1;
            return Ok(true);
        }
        if !self.queue_at_limit {
            return Err(Errno::AGAIN);
        }
        self.bounded.running -= 1;
        self.unbounded.queue.push_back(*job);
        Ok(false)
    }

    /// Removes a job that no helper has begun. Returns whether there was one.
    pub(crate) fn remove(&mut self, handle: Handle) -> bool {
        for track in [&mut self.bounded, &mut self.unbounded] {
            if let Some(at) = track.queue.iter().position(|job| job.handle == handle) {
                track.queue.remove(at);
                return true;
            }
        }
        let before = self.earlier.len();
        self.earlier.retain(|(_, _, job)| job.handle != handle);
        self.earlier.len() < before
    }

    /// The number of queued jobs that a helper can begin at once.
    pub(crate) fn startable(&self) -> usize {
        let startable = |track: &Track| track.needed() - track.running.min(track.limit);
        startable(&self.bounded) + startable(&self.unbounded)
    }

    /// The number of running bounded jobs.
    pub(crate) fn running_bounded(&self) -> usize {
        self.bounded.running
    }

    /// The number of helpers of the current generation that the jobs need: never more than the two
    /// limits together.
    pub(crate) fn needed(&self) -> usize {
        self.bounded.needed() + self.unbounded.needed()
    }

    /// The number of those helpers that unbounded calls need.
    pub(crate) fn helpers_for_unbounded(&self) -> usize {
        self.unbounded.needed()
    }

    /// Begins a new generation: queued jobs stay with the helpers of the old one.
    pub(crate) fn renew(&mut self) {
        for (lane, track) in [
            (Lane::Bounded, &mut self.bounded),
            (Lane::Unbounded, &mut self.unbounded),
        ] {
            let jobs = track.queue.drain(..);
            self.earlier
                .extend(jobs.map(|job| (self.generation, lane, job)));
            track.running = 0;
        }
        self.generation += 1;
    }

    /// Takes all queued jobs of the current generation that end by themselves.
    pub(crate) fn take_bounded(&mut self) -> Vec<Job> {
        self.bounded.queue.drain(..).collect()
    }

    /// The queued jobs of earlier generations that end by themselves, each with its generation.
    pub(crate) fn earlier_bounded(&self) -> impl Iterator<Item = (u32, Job)> {
        let earlier = self.earlier.iter();
        let bounded = earlier.filter(|(_, lane, _)| *lane == Lane::Bounded);
        bounded.map(|(generation, _, job)| (*generation, *job))
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    fn track(&mut self, lane: Lane) -> &mut Track {
        match lane {
            Lane::Bounded => &mut self.bounded,
            Lane::Unbounded => &mut self.unbounded,
        }
    }
}
