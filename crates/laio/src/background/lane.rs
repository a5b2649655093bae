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
//! helper from calls on other file systems. Its limit is [`Limits::helpers`] at first, and grows with
//! each answer while calls queue ([`Limits::REMOTE_GROWTH`]): its calls wait for a server, and take no
//! processor. The limit of the bounded lane grows to [`Limits::helpers`] ([`crate::pool::growth`]).

use super::job::Job;
use crate::pool::growth::Growth;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::table::{self, Attempt, Class, Opcode, Row, known_how};
use crate::{Call, Errno, Handle, Limits, sys};
use std::collections::VecDeque;
use std::time::Instant;

/// The lane that a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// File I/O, names, metadata: it ends by itself.
    Bounded,
    /// It asks the remote file system with this device number.
    Remote(u64),
    /// It may wait for another process, a peer, a terminal, a lock or a time.
    Unbounded,
}

impl Lane {
    /// The device number of the remote file systems that share a lane, because [`Limits::REMOTE_LANES`]
    /// others have one of their own, or because the engine does not know them.
    pub(crate) const SHARED: u64 = 0;

    /// The lane that a call gets while the lanes of `present` exist.
    pub(crate) fn among(self, present: impl Iterator<Item = u64> + Clone) -> Lane {
        match self {
            Lane::Remote(device)
                if present.clone().all(|other| other != device)
                    && present.count() >= Limits::REMOTE_LANES =>
            {
                Lane::Remote(Lane::SHARED)
            }
            lane => lane,
        }
    }

    /// The device number of its remote file system.
    pub(crate) fn device(self) -> Option<u64> {
        match self {
            Lane::Remote(device) => Some(device),
            _ => None,
        }
    }
}

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

/// The queued jobs of the lanes, and the number of running ones.
#[derive(Debug)]
pub(crate) struct Lanes {
    bounded: Track,
    unbounded: Track,
    /// [`Limits::helpers`].
    helpers: usize,
    /// Those of remote file systems with jobs, by device number.
    remote: Vec<(u64, Track)>,
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
    /// The number of running jobs of the current generation; the loads of one helper count as one.
    running: usize,
    limit: Limit,
    /// For a remote file system: when it has last answered while jobs were running, or when the first of
    /// them began.
    unanswered_since: Option<Instant>,
}

/// How many jobs of a track run at a time.
#[derive(Debug)]
enum Limit {
    /// As many as are useful, as the rate shows at which they end.
    ByRate(Growth),
    /// For a remote file system: one more with each answer while jobs are queued, up to `most`.
    ByAnswers { now: usize, most: usize },
}

impl Limit {
    fn get(&self) -> usize {
        match self {
            Limit::ByRate(growth) => growth.limit(),
            Limit::ByAnswers { now, .. } => *now,
        }
    }

    /// A job has ended. Returns whether the limit has grown.
    fn ended(&mut self, any_queued: bool, at: Instant) -> bool {
        match self {
            Limit::ByRate(growth) => growth.ended(any_queued, at),
            Limit::ByAnswers { now, most } => {
                let grows = any_queued && *now < *most;
                *now += usize::from(grows);
                grows
            }
        }
    }
}

impl Track {
    fn new(limit: Limit) -> Track {
        Track {
            queue: VecDeque::new(),
            running: 0,
            limit,
            unanswered_since: None,
        }
    }

    /// Takes a job that a helper can begin.
    fn begin(&mut self) -> Option<Job> {
        if self.running >= self.limit.get() {
            return None;
        }
        let job = self.queue.pop_front()?;
        self.running += 1;
        Some(job)
    }

    fn startable(&self) -> usize {
        self.needed() - self.running.min(self.limit.get())
    }

    /// The number of helpers that the lane needs now.
    fn needed(&self) -> usize {
        (self.running + self.queue.len()).min(self.limit.get())
    }
}

impl Lanes {
    pub(crate) fn new(limits: &Limits, queue_at_limit: bool) -> Lanes {
        let helpers = (limits.helpers as usize).max(1);
        let waiting = helpers.max(limits.waiting_helpers as usize);
        Lanes {
            bounded: Track::new(Limit::ByRate(Growth::new(Limits::FIRST_HELPERS, helpers))),
            unbounded: Track::new(Limit::ByRate(Growth::fixed(waiting))),
            helpers,
            remote: Vec::new(),
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
        let lane = self.existing(lane);
        let track = self.track(lane);
        let full = track.running + track.queue.len() >= track.limit.get();
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
        let Lanes {
            bounded, unbounded, ..
        } = self;
        if let Some(job) = bounded.begin() {
            return Some((Lane::Bounded, job));
        }
        if let Some(job) = unbounded.begin() {
            return Some((Lane::Unbounded, job));
        }
        self.remote.iter_mut().find_map(|(device, track)| {
            let job = track.begin()?;
            track.unanswered_since.get_or_insert_with(Instant::now);
            Some((Lane::Remote(*device), job))
        })
    }

    /// The next job, if it is a load ([`Job::is_load`]), for a helper that has begun others.
    pub(crate) fn take_load(&mut self, generation: u32) -> Option<Job> {
        let next = self.bounded.queue.front()?;
        let is_next = generation == self.generation && next.is_load();
        is_next.then(|| self.bounded.queue.pop_front())?
    }

    /// A helper has ended a load, and has others. Returns whether more helpers may begin one.
    pub(crate) fn ended_load(&mut self, generation: u32, now: Instant) -> bool {
        let any_queued = !self.bounded.queue.is_empty();
        generation == self.generation && self.bounded.limit.ended(any_queued, now)
    }

    /// A helper is done with a job. Returns whether further ones may begin besides the one that takes
    /// its place.
    pub(crate) fn done(&mut self, lane: Lane, generation: u32, now: Instant) -> bool {
        if generation != self.generation {
            return false;
        }
        let track = self.track(lane);
        track.running -= 1;
        let has_grown = track.limit.ended(!track.queue.is_empty(), now);
        if lane.device().is_some() {
            track.unanswered_since = (track.running > 0).then_some(now);
            self.drop_empty();
        }
        has_grown
    }

    /// Moves a running job of another lane to the unbounded one. Returns false if it was queued there
    /// instead, so
    /// that it runs no longer. `is_cancelled`: it ends at once, without waiting.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn move_to_unbounded(
        &mut self,
        from: Lane,
        job: &Job,
        generation: u32,
        is_cancelled: bool,
    ) -> Result<bool, Errno> {
        if generation != self.generation {
            return Ok(true);
        }
        let unbounded = &self.unbounded;
        let full = unbounded.running + unbounded.queue.len() >= unbounded.limit.get();
        if !full || is_cancelled {
            self.done(from, generation, Instant::now());
            self.unbounded.running += 1;
            return Ok(true);
        }
        if !self.queue_at_limit {
            return Err(Errno::AGAIN);
        }
        self.done(from, generation, Instant::now());
        self.unbounded.queue.push_back(*job);
        Ok(false)
    }

    /// Removes a job that no helper has begun. Returns whether there was one.
    pub(crate) fn remove(&mut self, handle: Handle) -> bool {
        let others = self.remote.iter_mut().map(|(_, track)| track);
        let tracks = [&mut self.bounded, &mut self.unbounded].into_iter();
        let removed = tracks.chain(others).any(|track| {
            let at = track.queue.iter().position(|job| job.handle == handle);
            at.and_then(|at| track.queue.remove(at)).is_some()
        });
        if removed {
            self.drop_empty();
            return true;
        }
        let before = self.earlier.len();
        self.earlier.retain(|(_, _, job)| job.handle != handle);
        self.earlier.len() < before
    }

    /// The number of queued jobs that a helper can begin at once.
    pub(crate) fn startable(&self) -> usize {
        self.tracks().map(Track::startable).sum()
    }

    /// The number of running bounded jobs.
    pub(crate) fn running_bounded(&self) -> usize {
        self.bounded.running
    }

    /// The number of helpers of the current generation that the jobs need: never more than the limits of
    /// the lanes together.
    pub(crate) fn needed(&self) -> usize {
        self.tracks().map(Track::needed).sum()
    }

    /// The number of those helpers that calls of lanes other than the bounded one need.
    pub(crate) fn helpers_for_others(&self) -> usize {
        self.needed() - self.bounded.needed()
    }

    /// For each remote file system with calls: its device number, how many calls it has not answered,
    /// queued ones included, and since when it has answered none of those that run.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = (u64, usize, Option<Instant>)> {
        let remote = self.remote.iter();
        remote.map(|(device, track)| {
            let count = track.running + track.queue.len();
            (*device, count, track.unanswered_since)
        })
    }

    /// Begins a new generation: queued jobs stay with the helpers of the old one.
    pub(crate) fn renew(&mut self) {
        let remote = self.remote.iter_mut();
        let remote = remote.map(|(device, track)| (Lane::Remote(*device), track));
        for (lane, track) in [
            (Lane::Bounded, &mut self.bounded),
            (Lane::Unbounded, &mut self.unbounded),
        ]
        .into_iter()
        .chain(remote)
        {
            let jobs = track.queue.drain(..);
            self.earlier
                .extend(jobs.map(|job| (self.generation, lane, job)));
            track.running = 0;
        }
        self.remote.clear();
        self.generation += 1;
    }

    /// The lanes of calls that end by themselves, where these file systems answer.
    pub(crate) fn ending(&self) -> Vec<Lane> {
        let remote = self.remote.iter().map(|(device, _)| Lane::Remote(*device));
        std::iter::once(Lane::Bounded).chain(remote).collect()
    }

    /// Takes all queued jobs of a lane and of the current generation.
    pub(crate) fn take_queued(&mut self, lane: Lane) -> Vec<Job> {
        let jobs = self.track(lane).queue.drain(..).collect();
        self.drop_empty();
        jobs
    }

    /// The queued jobs of earlier generations that end by themselves, each with its generation and lane.
    pub(crate) fn earlier_ending(&self) -> impl Iterator<Item = (u32, Lane, Job)> {
        let earlier = self.earlier.iter();
        earlier
            .filter(|(_, lane, _)| *lane != Lane::Unbounded)
            .copied()
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    fn track(&mut self, lane: Lane) -> &mut Track {
        match lane {
            Lane::Bounded => &mut self.bounded,
            Lane::Unbounded => &mut self.unbounded,
            Lane::Remote(device) => {
                let now = self.helpers;
                let most = now.saturating_mul(Limits::REMOTE_GROWTH);
                let at = self.remote.iter().position(|(of, _)| *of == device);
                let at = at.unwrap_or_else(|| {
                    let track = Track::new(Limit::ByAnswers { now, most });
                    self.remote.push((device, track));
                    self.remote.len() - 1
                });
                &mut self.remote[at].1
            }
        }
    }

    fn tracks(&self) -> impl Iterator<Item = &Track> {
        let remote = self.remote.iter().map(|(_, track)| track);
        [&self.bounded, &self.unbounded].into_iter().chain(remote)
    }

    /// The lane for a new call: one that exists, or may.
    pub(crate) fn existing(&self, lane: Lane) -> Lane {
        lane.among(self.remote.iter().map(|(device, _)| *device))
    }

    /// Forgets remote file systems without jobs.
    fn drop_empty(&mut self) {
        self.remote
            .retain(|(_, track)| track.running > 0 || !track.queue.is_empty());
    }
}
