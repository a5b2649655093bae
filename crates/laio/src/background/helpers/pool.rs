//! The jobs and helpers of a pool, under its lock: which helper takes which job, and which must be
//! woken for it.

use crate::Handle;
use crate::background::job::Job;
use crate::background::lane::{Lane, Lanes};
use crate::pool::patience::Patience;
use crate::sys::interrupt::Interruptible;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Pool {
    /// The queued jobs. Renewing the pool increments their generation; a helper serves only the jobs
    /// of its own generation.
    pub(super) lanes: Lanes,
    pub(super) helpers: Vec<Helper>,
    /// The number of idle helpers of the current generation, which sleep.
    pub(super) idle: usize,
    /// How many of these were notified of a job.
    pub(super) notified: usize,
    /// The helper of the current generation that spins, if one does.
    pub(super) spinner: Spinner,
    /// That of the helpers together; `None` while one of them spins.
    pub(super) patience: Option<Patience>,
    /// The number of queued brief jobs for which a helper was woken or started, or will stop spinning.
    pub(super) brief_announced: usize,
    /// The number of brief jobs that helpers of the current generation have begun.
    pub(super) brief_running: usize,
    /// The number of jobs begun.
    pub(super) begun: u64,
    /// How long the context had nothing for helpers, or did not look, before it queued the last job.
    pub(super) gap: Duration,
    pub(super) closing: bool,
    /// Whether a helper will look for loads ([`Job::is_load`]) before it waits for the disk.
    pub(super) collects_loads: bool,
}

/// Whether a helper looks for a job without sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spinner {
    Absent,
    Free,
    /// A job was queued for it.
    Taken,
}

/// How a queued job gets to a helper.
pub(super) enum Announcement {
    /// A helper that does not sleep takes it next.
    Seen,
    /// The helper of earlier brief jobs or loads takes it after them.
    Shared,
    /// An idle helper must be woken.
    Wake,
    /// A helper must be started.
    Start,
}

#[derive(Debug)]
pub(super) struct Helper {
    pub(super) generation: u32,
    pub(super) current: Option<Handle>,
    /// The lane of its job.
    pub(super) lane: Option<Lane>,
    pub(super) interruptible: Arc<Interruptible>,
}

impl Pool {
    pub(super) fn new(lanes: Lanes, spin_us: u32) -> Pool {
        Pool {
            lanes,
            helpers: Vec::new(),
            idle: 0,
            notified: 0,
            spinner: Spinner::Absent,
            patience: Some(Patience::new(spin_us)),
            brief_announced: 0,
            brief_running: 0,
            begun: 0,
            gap: Duration::MAX,
            closing: false,
            collects_loads: false,
        }
    }

    /// Begins a new generation: queued jobs stay with the helpers of the old one.
    pub(super) fn renew(&mut self) {
        self.lanes.renew();
        (self.idle, self.notified) = (0, 0);
        (self.brief_announced, self.brief_running) = (0, 0);
        self.spinner = Spinner::Absent;
        self.collects_loads = false;
    }

    /// A helper of this generation is done with a job. Returns whether more helpers are needed now.
    pub(super) fn done(
        &mut self,
        interruptible: &Arc<Interruptible>,
        job: &Job,
        (lane, generation): (Lane, u32),
        now: Instant,
    ) -> bool {
        let has_grown = self.lanes.done(lane, generation, now);
        if job.is_brief && self.lanes.generation() == generation {
            self.brief_running -= 1;
        }
        let helper = self.helper(interruptible);
        (helper.current, helper.lane) = (None, None);
        has_grown && self.is_short()
    }

    /// Decides how a job that was just queued gets to a helper. `at_once`: one can begin it.
    pub(super) fn announce(
        &mut self,
        at_once: bool,
        is_brief: bool,
        is_load: bool,
    ) -> Announcement {
        if is_load && self.collects_loads {
            // If that helper waits for the disk in an `open`, the context wakes another one.
            return Announcement::Shared;
        }
        let announcement = self.announce_alone(at_once, is_brief);
        self.collects_loads |=
            is_load && matches!(announcement, Announcement::Wake | Announcement::Start);
        announcement
    }

    fn announce_alone(&mut self, at_once: bool, is_brief: bool) -> Announcement {
        if is_brief && self.brief_announced + self.brief_running > 0 {
            return Announcement::Shared;
        }
        self.brief_announced += usize::from(is_brief);
        if at_once && self.spinner == Spinner::Free {
            self.spinner = Spinner::Taken;
            Announcement::Seen
        } else if self.is_short() {
            Announcement::Start
        } else if at_once && self.idle > self.notified {
            Announcement::Wake
        } else {
            Announcement::Seen
        }
    }

    /// Whether a helper should look for the next job: soon there may be one, no other helper looks,
    /// and none needs the processor for a call that ends by itself. `spin_us`: 0 if it never should.
    pub(super) fn expects_job(&mut self, spin_us: u32) -> bool {
        let gap = self.gap;
        let is_alone = self.spinner == Spinner::Absent && self.lanes.running_bounded() == 0;
        self.patience.as_mut().is_some_and(|patience| {
            patience.note_wait(gap);
            spin_us > 0 && is_alone && patience.expects_soon()
        })
    }

    /// A helper begins a job.
    pub(super) fn begin(
        &mut self,
        interruptible: &Arc<Interruptible>,
        job: &Job,
        lane: Lane,
        generation: u32,
    ) {
        let helper = self.helper(interruptible);
        (helper.current, helper.lane) = (Some(job.handle), Some(lane));
        self.begun += 1;
        if job.is_brief && self.lanes.generation() == generation {
            self.brief_announced = self.brief_announced.saturating_sub(1);
            self.brief_running += 1;
        }
    }

    /// Whether jobs of an earlier generation that end by themselves are queued, while every helper of that generation
    /// makes a call that may wait.
    pub(super) fn any_stuck(&self) -> bool {
        let mut earlier = self.lanes.earlier_ending();
        earlier.any(|(generation, lane, _)| !self.has_helper_for(generation, lane))
    }

    /// Takes these jobs out of the queue, with their lanes.
    pub(super) fn take_stuck(&mut self) -> Vec<(Lane, Job)> {
        let mut stuck: Vec<_> = self.lanes.earlier_ending().collect();
        stuck.retain(|(generation, lane, _)| !self.has_helper_for(*generation, *lane));
        let jobs = stuck.into_iter().map(|(_, lane, job)| (lane, job));
        jobs.filter(|(_, job)| self.lanes.remove(job.handle))
            .collect()
    }

    /// Takes the queued jobs of the current generation that end by themselves, and that no helper will take.
    pub(super) fn take_unserved(&mut self) -> Vec<Job> {
        let mut unserved = Vec::new();
        for lane in self.lanes.ending() {
            if !self.has_helper_for(self.lanes.generation(), lane) {
                unserved.append(&mut self.lanes.take_queued(lane));
            }
        }
        unserved
    }

    /// Whether the queued jobs of the current generation need more helpers.
    pub(super) fn is_short(&self) -> bool {
        self.present() < self.lanes.needed()
    }

    /// Whether a helper of this generation takes its next job as soon as calls of this lane end.
    pub(super) fn has_helper_for(&self, generation: u32, lane: Lane) -> bool {
        let mut helpers = self.helpers.iter();
        helpers.any(|helper| {
            let comes = match helper.lane {
                None | Some(Lane::Bounded) => true,
                Some(other) => other == lane,
            };
            helper.generation == generation && comes
        })
    }

    /// The number of helpers that serve new jobs.
    pub(super) fn present(&self) -> usize {
        self.helpers
            .iter()
            .filter(|helper| helper.generation == self.lanes.generation())
            .count()
    }

    pub(super) fn helper(&mut self, interruptible: &Arc<Interruptible>) -> &mut Helper {
        let found = self
            .helpers
            .iter_mut()
            .find(|helper| Arc::ptr_eq(&helper.interruptible, interruptible));
        found.expect("a helper is in the pool while it serves")
    }

    pub(super) fn leave(&mut self, interruptible: &Arc<Interruptible>) {
        self.helpers
            .retain(|helper| !Arc::ptr_eq(&helper.interruptible, interruptible));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Limits, table};

    fn job(number: u64) -> Job {
        let call = Call::new(libc::SYS_mkdirat, []);
        Job {
            handle: Handle::from_raw(number).expect("not 0"),
            ..Job::new(table::row(call.number), call)
        }
    }

    fn pool_with_helper(lane: Option<Lane>) -> Pool {
        let mut pool = Pool::new(Lanes::new(&Limits::default(), false), 0);
        pool.helpers.push(Helper {
            generation: 0,
            current: None,
            lane,
            interruptible: Arc::default(),
        });
        pool
    }

    #[test]
    fn jobs_of_a_generation_whose_helpers_all_wait_are_taken_once() {
        let mut pool = pool_with_helper(Some(Lane::Unbounded));
        pool.lanes.add(Lane::Bounded, job(1)).expect("room");
        pool.lanes.add(Lane::Unbounded, job(2)).expect("room");
        assert!(!pool.any_stuck());
        pool.renew();
        assert!(pool.any_stuck());
        let stuck = pool.take_stuck();
        assert_eq!(stuck.len(), 1);
        assert_eq!(stuck[0].1.handle, job(1).handle);
        assert!(!pool.any_stuck() && pool.take_stuck().is_empty());
    }

    #[test]
    fn jobs_stay_with_a_helper_of_their_generation() {
        let mut pool = pool_with_helper(None);
        pool.lanes.add(Lane::Bounded, job(1)).expect("room");
        assert!(pool.take_unserved().is_empty());
        pool.renew();
        assert!(!pool.any_stuck() && pool.take_stuck().is_empty());
        assert!(pool.lanes.take(0).is_some());
    }

    #[test]
    fn without_a_helper_jobs_that_end_by_themselves_are_taken() {
        let mut pool = pool_with_helper(Some(Lane::Unbounded));
        pool.lanes.add(Lane::Bounded, job(1)).expect("room");
        pool.lanes.add(Lane::Unbounded, job(2)).expect("room");
        assert_eq!(pool.take_unserved().len(), 1);
        assert!(pool.take_unserved().is_empty());
    }

    #[test]
    fn jobs_of_a_remote_file_system_wait_for_the_helpers_of_their_own_lane() {
        let (one, other) = (Lane::Remote(1), Lane::Remote(2));
        let mut pool = pool_with_helper(Some(one));
        pool.lanes.add(one, job(1)).expect("room");
        assert!(pool.take_unserved().is_empty());
        pool.lanes.add(other, job(2)).expect("room");
        pool.lanes.add(Lane::Bounded, job(3)).expect("room");
        let unserved: Vec<_> = pool.take_unserved().iter().map(|job| job.handle).collect();
        assert_eq!(unserved, [job(3).handle, job(2).handle]);
        pool.renew();
        assert!(!pool.any_stuck() && pool.take_stuck().is_empty());
    }

    #[test]
    fn a_lane_of_a_remote_file_system_grows_with_its_answers() {
        let limits = Limits {
            helpers: 2,
            ..Limits::default()
        };
        let (mut pool, lane) = (Pool::new(Lanes::new(&limits, false), 0), Lane::Remote(1));
        for number in 0..60 {
            pool.lanes.add(lane, job(number + 1)).expect("room");
        }
        let mut running = 0;
        let mut rounds = Vec::new();
        while let Some((taken, _)) = pool.lanes.take(0) {
            assert_eq!(taken, lane);
            running += 1;
            while let Some((_, _)) = pool.lanes.take(0) {
                running += 1;
            }
            rounds.push(running);
            (0..running).for_each(|_| {
                pool.lanes.done(lane, 0, Instant::now());
            });
            running = 0;
        }
        assert_eq!(rounds, [2, 4, 8, 16, 16, 14]);
    }

    /// Each file system has as many helpers as calls that end by themselves have, and those beyond the
    /// limit of lanes share one.
    #[test]
    fn lanes_of_remote_file_systems_are_bounded() {
        let limits = Limits {
            helpers: 2,
            ..Limits::default()
        };
        let mut pool = Pool::new(Lanes::new(&limits, false), 0);
        let devices = Limits::REMOTE_LANES as u64 + 5;
        for number in 0..4 * devices {
            let lane = Lane::Remote(1 + number % devices);
            pool.lanes.add(lane, job(number + 1)).expect("room");
        }
        let most = 2 * (Limits::REMOTE_LANES + 1);
        assert_eq!(pool.lanes.needed(), most);
        let mut begun = Vec::new();
        while let Some((lane, job)) = pool.lanes.take(0) {
            begun.push((lane, job));
        }
        assert_eq!(begun.len(), most);
        let shared = begun.iter().filter(|(lane, _)| lane.device() == Some(0));
        assert_eq!(shared.count(), 2);
        for (lane, _) in begun {
            pool.lanes.done(lane, 0, Instant::now());
        }
        while let Some((lane, _)) = pool.lanes.take(0) {
            pool.lanes.done(lane, 0, Instant::now());
        }
        assert_eq!((pool.lanes.needed(), pool.lanes.ending().len()), (0, 1));
    }
}
