//! The queues of a pool: what waits for a helper in each lane, and how much of each lane runs at a time.
//!
//! This file has no locks; the model checker runs it as a part of the queue (`tests/model.rs`).

use super::growth::Growth;
use crate::{Errno, Limits};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Instant;

/// How many loads a helper begins before it waits for the first; as few as possible for the model checker.
pub(crate) const LOADS_AT_ONCE: usize = if cfg!(loom) { 2 } else { 8 };

/// A job as its queue sees it.
pub(crate) trait Queued {
    /// What a cancellation names.
    type Id: Copy + Debug + Eq;

    /// `None` for a job that is not cancelled by its pool.
    fn id(&self) -> Option<Self::Id>;

    /// Whether it rarely waits, so that it may share a helper with others that do.
    fn is_brief(&self) -> bool {
        false
    }

    /// Whether it is a load, if this is its lane. A helper begins several loads before it waits for the
    /// first.
    fn is_load(&self, _lane: Lane) -> bool {
        false
    }
}

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

/// The queued jobs of the lanes, and the number of running ones.
#[derive(Debug)]
pub(crate) struct Lanes<J> {
    bounded: Track<J>,
    /// How many of its queued jobs are loads.
    loads: usize,
    unbounded: Track<J>,
    /// [`Limits::helpers`].
    helpers: usize,
    /// Those of remote file systems with jobs, by device number.
    remote: Vec<(u64, Track<J>)>,
    /// At the limit of unbounded calls, further ones queue rather than fail.
    queue_at_limit: bool,
    /// Jobs queued before the calling thread's identity changed, with the generation of their helpers.
    earlier: Vec<(u32, Lane, J)>,
    /// How often the pool was renewed. Each new version of the calling thread's rights
    /// ([`crate::background::rights`]) renews it, and so does a change of only its FS state.
    generation: u32,
}

#[derive(Debug)]
struct Track<J> {
    queue: VecDeque<J>,
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

impl<J> Track<J> {
    fn new(limit: Limit) -> Track<J> {
        Track {
            queue: VecDeque::new(),
            running: 0,
            limit,
            unanswered_since: None,
        }
    }

    /// Takes a job that a helper can begin.
    fn begin(&mut self) -> Option<J> {
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

    fn needed(&self) -> usize {
        self.needed_for(self.queue.len())
    }

    /// The number of helpers that the running jobs and so many others need.
    fn needed_for(&self, queued: usize) -> usize {
        (self.running + queued).min(self.limit.get())
    }
}

impl<J: Queued> Lanes<J> {
    pub(crate) fn new(limits: &Limits, queue_at_limit: bool) -> Lanes<J> {
        let helpers = (limits.helpers as usize).max(1);
        let waiting = helpers.max(limits.waiting_helpers as usize);
        Lanes {
            bounded: Track::new(Limit::ByRate(Growth::new(Limits::FIRST_HELPERS, helpers))),
            loads: 0,
            unbounded: Track::new(Limit::ByRate(Growth::fixed(waiting))),
            helpers,
            remote: Vec::new(),
            queue_at_limit,
            earlier: Vec::new(),
            generation: 0,
        }
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The job, at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn add(&mut self, lane: Lane, job: J) -> Result<(), J> {
        let queue_at_limit = self.queue_at_limit;
        let lane = self.existing(lane);
        let is_load = job.is_load(lane);
        let track = self.track(lane);
        let full = track.running + track.queue.len() >= track.limit.get();
        if full && lane == Lane::Unbounded && !queue_at_limit {
            return Err(job);
        }
        track.queue.push_back(job);
        self.loads += usize::from(is_load);
        Ok(())
    }

    /// The next job for a helper.
    pub(crate) fn take(&mut self, generation: u32) -> Option<(Lane, J)> {
        if generation != self.generation {
            let at = self.earlier.iter().position(|(of, ..)| *of == generation)?;
            let (_, lane, job) = self.earlier.remove(at);
            return Some((lane, job));
        }
        let Lanes {
            bounded, unbounded, ..
        } = self;
        if let Some(job) = bounded.begin() {
            self.loads -= usize::from(job.is_load(Lane::Bounded));
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

    /// Whether the next bounded job is a load.
    pub(crate) fn next_is_load(&self) -> bool {
        let next = self.bounded.queue.front();
        next.is_some_and(|job| job.is_load(Lane::Bounded))
    }

    /// The next job, if it is a load, for a helper that has begun others.
    pub(crate) fn take_load(&mut self, generation: u32) -> Option<J> {
        let is_next = generation == self.generation && self.next_is_load();
        self.loads -= usize::from(is_next);
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
    /// instead, so that it runs no longer. `is_cancelled`: it ends at once, without waiting.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn move_to_unbounded(
        &mut self,
        from: Lane,
        job: &J,
        generation: u32,
        is_cancelled: bool,
    ) -> Result<bool, Errno>
    where
        J: Clone,
    {
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
        self.unbounded.queue.push_back(job.clone());
        Ok(false)
    }

    /// Removes a job that no helper has begun. Returns it with its generation, if there was one.
    pub(crate) fn remove(&mut self, id: J::Id) -> Option<(u32, J)> {
        let is_it = |job: &J| job.id() == Some(id);
        let others = self.remote.iter_mut().map(|(_, track)| track);
        let tracks = [&mut self.bounded, &mut self.unbounded].into_iter();
        let removed = tracks.chain(others).find_map(|track| {
            let at = track.queue.iter().position(is_it)?;
            track.queue.remove(at)
        });
        self.drop_empty();
        if let Some(job) = removed {
            self.count_loads();
            return Some((self.generation, job));
        }
        let at = self.earlier.iter().position(|(.., job)| is_it(job))?;
        let (generation, _, job) = self.earlier.remove(at);
        Some((generation, job))
    }

    /// The number of queued jobs that a helper can begin at once.
    pub(crate) fn startable(&self) -> usize {
        self.tracks().map(Track::startable).sum()
    }

    /// The number of queued jobs of the current generation.
    pub(crate) fn queued(&self) -> usize {
        self.tracks().map(|track| track.queue.len()).sum()
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

    /// As [`Lanes::needed`], where loads share helpers.
    pub(crate) fn needed_with_shared_loads(&self) -> usize {
        let others = self.bounded.queue.len() - self.loads;
        let shared = others + self.loads.div_ceil(LOADS_AT_ONCE);
        self.helpers_for_others() + self.bounded.needed_for(shared)
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
        self.loads = 0;
        self.generation += 1;
    }

    /// The lanes of calls that end by themselves, where these file systems answer.
    pub(crate) fn ending(&self) -> Vec<Lane> {
        let remote = self.remote.iter().map(|(device, _)| Lane::Remote(*device));
        std::iter::once(Lane::Bounded).chain(remote).collect()
    }

    /// Takes all queued jobs of a lane and of the current generation.
    pub(crate) fn take_queued(&mut self, lane: Lane) -> Vec<J> {
        let jobs = self.track(lane).queue.drain(..).collect();
        self.drop_empty();
        self.count_loads();
        jobs
    }

    fn count_loads(&mut self) {
        let is_load = |job: &&J| job.is_load(Lane::Bounded);
        self.loads = self.bounded.queue.iter().filter(is_load).count();
    }

    /// The generations and lanes of the jobs of earlier generations that end by themselves.
    pub(crate) fn earlier_ending(&self) -> impl Iterator<Item = (u32, Lane)> {
        let earlier = self.earlier.iter().map(|(of, lane, _)| (*of, *lane));
        earlier.filter(|(_, lane)| *lane != Lane::Unbounded)
    }

    /// Takes the ones that `is_stuck` selects.
    pub(crate) fn take_earlier(&mut self, is_stuck: impl Fn(u32, Lane) -> bool) -> Vec<(Lane, J)> {
        let stuck = self.earlier.extract_if(.., |(of, lane, _)| {
            *lane != Lane::Unbounded && is_stuck(*of, *lane)
        });
        stuck.map(|(_, lane, job)| (lane, job)).collect()
    }

    /// Takes all queued jobs.
    pub(crate) fn take_all(&mut self) -> Vec<J> {
        let mut lanes = self.ending();
        lanes.push(Lane::Unbounded);
        let queued = lanes.into_iter().flat_map(|lane| self.take_queued(lane));
        let mut jobs: Vec<J> = queued.collect();
        jobs.extend(self.earlier.drain(..).map(|(.., job)| job));
        jobs
    }

    /// Whether no job of the current generation is queued or running.
    pub(crate) fn is_empty(&self) -> bool {
        self.tracks()
            .all(|track| track.running == 0 && track.queue.is_empty())
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    fn track(&mut self, lane: Lane) -> &mut Track<J> {
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

    fn tracks(&self) -> impl Iterator<Item = &Track<J>> {
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
