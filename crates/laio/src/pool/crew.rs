//! The jobs and helpers of a pool, under its lock: which helper takes which job, and who is woken or
//! started for it.
//!
//! The model checker runs this file as a part of the queue; see `tests/model.rs`.

use super::lanes::{Lane, Lanes, Queued};
use crate::Errno;
use crate::sys::interrupt::Interruptible;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Crew<J: Queued> {
    /// The queued jobs. Renewing the pool increments their generation; a helper serves only the jobs
    /// of its own generation.
    pub(crate) lanes: Lanes<J>,
    helpers: Vec<Helper<J::Id>>,
    starts: Starts,
    /// The number of helpers of the current generation that sleep.
    idle: usize,
    /// How many of these were woken.
    woken: usize,
    /// How many others look for a job although nothing else happens: they were just done with one, or spun.
    looking: usize,
    /// How many were ordered and have not begun.
    starting: usize,
    spinner: Spinner,
    /// Whether the jobs that could begin are brief, and wait for the helper of those before them.
    pub(super) shares: bool,
    /// Whether the queued loads wait for no helper that opens another file.
    spreads_loads: bool,
    brief_queued: usize,
    brief_running: usize,
    /// The number of jobs begun.
    pub(crate) begun: u64,
    /// How often a helper was woken.
    pub(crate) wakeups: u64,
    pub(super) phase: Phase,
    /// When a helper was last done with a job.
    pub(super) done_at: Instant,
    /// See [`Lull::gap`].
    pub(super) gap: Duration,
}

/// Who starts helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starts {
    /// The thread that adds jobs, one for each that has none.
    Adder,
    /// Another thread, one at a time: who takes a job may order the next one.
    Ordered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Helpers end when there are no jobs.
    Finishing,
    /// No job is taken any more.
    Stopped,
}

/// Whether a helper of the current generation looks for a job without sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spinner {
    Absent,
    Free,
    /// A job was queued for it.
    Taken,
}

/// Who must be made to look for a job.
pub(super) enum Bring {
    NoHelper,
    Spinner,
    Sleeper,
    New(Member),
}

/// Why a helper has nothing to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lull {
    /// How long helpers had nothing to do before the newest job was added.
    pub(crate) gap: Duration,
    /// Whether no other helper makes a call that ends by itself, for which it needs a processor.
    pub(crate) is_alone: bool,
}

/// A helper as it knows itself.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) generation: u32,
    pub(crate) interruptible: Arc<Interruptible>,
}

#[derive(Debug)]
pub(crate) struct Helper<I> {
    pub(crate) member: Member,
    /// What it does, if that can be cancelled.
    pub(crate) current: Option<I>,
    /// The lane of its job.
    lane: Option<Lane>,
    /// It opens the file of a load, and will look for another load before it waits for the disk.
    collects: bool,
    has_begun: bool,
}

impl<J: Queued> Crew<J> {
    pub(super) fn new(lanes: Lanes<J>, starts: Starts) -> Crew<J> {
        Crew {
            lanes,
            helpers: Vec::new(),
            starts,
            idle: 0,
            woken: 0,
            looking: 0,
            starting: 0,
            spinner: Spinner::Absent,
            shares: false,
            spreads_loads: false,
            brief_queued: 0,
            brief_running: 0,
            begun: 0,
            wakeups: 0,
            phase: Phase::Open,
            done_at: Instant::now(),
            gap: Duration::MAX,
        }
    }

    /// Decides who comes for the jobs that can begin. `may_start`: the caller has added one, and may start a
    /// helper for it.
    pub(super) fn bring(&mut self, may_start: bool) -> Bring {
        // Brief jobs wait for the helper that they share.
        let wanted = if self.shares {
            0
        } else {
            self.lanes.startable()
        };
        if wanted == 0 || self.collects_next() {
            return Bring::NoHelper;
        }
        if self.spinner == Spinner::Free {
            self.spinner = Spinner::Taken;
            self.looking += 1;
            return Bring::Spinner;
        }
        if may_start && self.starts == Starts::Adder && self.is_short() {
            return Bring::New(self.order());
        }
        if self.is_one_awake() || wanted <= self.starting {
            // Who comes brings the next one.
            return Bring::NoHelper;
        }
        if self.idle > 0 {
            self.woken += 1;
            self.wakeups += 1;
            return Bring::Sleeper;
        }
        if self.starts == Starts::Ordered && self.starting == 0 && self.is_short() {
            return Bring::New(self.order());
        }
        Bring::NoHelper
    }

    /// Whether a helper will look for a job soon.
    pub(super) fn is_one_coming(&self) -> bool {
        self.is_one_awake() || self.starting > 0
    }

    fn is_one_awake(&self) -> bool {
        self.woken + self.looking > 0
    }

    /// Whether the next job waits for a helper that opens a file, and takes it afterwards. The thread that
    /// adds jobs must see to it that this does not take long.
    fn collects_next(&self) -> bool {
        let mut helpers = self.helpers.iter();
        let may_wait = self.starts == Starts::Adder && !self.spreads_loads;
        may_wait && self.lanes.next_is_load() && helpers.any(|one| one.collects)
    }

    /// Lets jobs wait no longer for the helpers that have others before them. Loads may then wait for
    /// another helper that opens a file, unless `spreads_loads`.
    pub(super) fn unshare(&mut self, spreads_loads: bool) {
        self.shares = false;
        self.spreads_loads = spreads_loads && self.lanes.next_is_load();
        self.helpers.iter_mut().for_each(|one| one.collects = false);
    }

    /// Lists a helper that is about to be started.
    pub(super) fn order(&mut self) -> Member {
        let member = Member {
            generation: self.lanes.generation(),
            interruptible: Arc::default(),
        };
        self.helpers.push(Helper {
            member: member.clone(),
            current: None,
            lane: None,
            collects: false,
            has_begun: false,
        });
        self.starting += 1;
        member
    }

    /// Queues a job.
    ///
    /// # Errors
    /// As [`Lanes::add`].
    pub(crate) fn push(&mut self, lane: Lane, job: J) -> Result<(), J> {
        let is_brief = job.is_brief();
        self.lanes.add(lane, job)?;
        self.brief_queued += usize::from(is_brief);
        Ok(())
    }

    /// Removes a job that no helper has begun.
    pub(crate) fn remove(&mut self, id: J::Id) -> Option<J> {
        let (generation, job) = self.lanes.remove(id)?;
        self.brief_queued -= usize::from(job.is_brief() && generation == self.lanes.generation());
        Some(job)
    }

    /// Whether a brief job is queued or running, whose helper may take another one, and no other jobs are
    /// queued.
    pub(super) fn has_only_brief(&self) -> bool {
        self.brief_queued + self.brief_running > 0 && self.brief_queued == self.lanes.queued()
    }

    /// A helper looks for a job, which has begun just now or was done with another one.
    pub(super) fn arrive(&mut self, member: &Member) {
        let helper = self.helper(member);
        let was_starting = !std::mem::replace(&mut helper.has_begun, true);
        if !self.is_current(member) {
            return;
        }
        if was_starting {
            self.starting -= 1;
        } else {
            self.looking -= 1;
        }
    }

    /// A helper takes the next job of its generation.
    pub(super) fn take(&mut self, member: &Member) -> Option<(Lane, J)> {
        let (lane, job) = self.lanes.take(member.generation)?;
        let collects = job.is_load(lane) && self.begin_load(member);
        let helper = self.helper(member);
        (helper.current, helper.lane) = (job.id(), Some(lane));
        helper.collects = collects;
        self.begun += 1;
        if job.is_brief() && self.is_current(member) {
            self.brief_queued -= 1;
            self.brief_running += 1;
        }
        self.shares &= self.brief_queued > 0;
        Some((lane, job))
    }

    /// A helper that has begun loads takes another one.
    pub(super) fn take_load(&mut self, member: &Member) -> Option<J> {
        let job = self.lanes.take_load(member.generation)?;
        let collects = self.begin_load(member);
        let helper = self.helper(member);
        (helper.current, helper.collects) = (job.id(), collects);
        self.begun += 1;
        Some(job)
    }

    /// Returns whether later loads wait for this helper.
    fn begin_load(&mut self, member: &Member) -> bool {
        let collects = self.is_current(member) && !self.spreads_loads;
        self.spreads_loads &= self.lanes.next_is_load();
        collects
    }

    /// A helper has begun a load that it took.
    pub(super) fn end_collecting(&mut self, member: &Member) {
        let helper = self.helper(member);
        (helper.current, helper.collects) = (None, false);
    }

    /// A helper has ended a load, and has others. Returns as [`Crew::done`].
    pub(super) fn ended_load(&mut self, member: &Member, now: Instant) -> bool {
        self.done_at = now;
        self.lanes.ended_load(member.generation, now) && self.is_short()
    }

    pub(crate) fn set_current(&mut self, member: &Member, id: Option<J::Id>) {
        self.helper(member).current = id;
    }

    /// A helper is done with a job. Returns whether more helpers are needed now, because the limit of its
    /// lane has grown.
    pub(super) fn done(
        &mut self,
        member: &Member,
        lane: Lane,
        is_brief: bool,
        now: Instant,
    ) -> bool {
        let has_grown = self.lanes.done(lane, member.generation, now);
        if is_brief && self.is_current(member) {
            self.brief_running -= 1;
        }
        self.done_at = now;
        self.forget_current(member);
        has_grown && self.is_short()
    }

    /// A helper has no job any more, and will look for the next one.
    pub(crate) fn forget_current(&mut self, member: &Member) {
        self.looking += usize::from(self.is_current(member));
        let helper = self.helper(member);
        (helper.current, helper.lane) = (None, None);
    }

    /// As [`Lanes::move_to_unbounded`].
    pub(super) fn move_to_unbounded(
        &mut self,
        member: &Member,
        from: Lane,
        job: &J,
    ) -> Result<bool, Errno>
    where
        J: Clone,
    {
        // No cancellation would find a cancelled job in the queue.
        let is_cancelled = member.interruptible.is_interrupted();
        let generation = member.generation;
        let runs = self
            .lanes
            .move_to_unbounded(from, job, generation, is_cancelled)?;
        if !runs {
            self.forget_current(member);
        } else if !is_cancelled {
            // A cancelled call ends at once.
            self.helper(member).lane = Some(Lane::Unbounded);
        }
        Ok(runs)
    }

    /// The helper that asks becomes the one that spins, if no other one does.
    pub(super) fn lull(&mut self) -> Option<Lull> {
        if self.spinner != Spinner::Absent {
            return None;
        }
        self.spinner = Spinner::Free;
        Some(Lull {
            gap: self.gap,
            is_alone: self.lanes.running_bounded() == 0,
        })
    }

    pub(super) fn end_spin(&mut self, member: &Member) {
        if self.is_current(member) {
            self.looking -= usize::from(self.spinner == Spinner::Taken);
            self.spinner = Spinner::Absent;
        }
    }

    pub(super) fn begin_sleep(&mut self) {
        self.idle += 1;
    }

    /// A new generation begins with no idle helper.
    pub(super) fn end_sleep(&mut self, member: &Member) {
        if self.is_current(member) {
            self.idle -= 1;
            self.woken = self.woken.saturating_sub(1);
        }
    }

    /// Begins a new generation: queued jobs stay with the helpers of the old one.
    pub(super) fn renew(&mut self) {
        self.lanes.renew();
        (self.idle, self.woken, self.looking, self.starting) = (0, 0, 0, 0);
        self.helpers.iter_mut().for_each(|one| one.collects = false);
        (self.brief_queued, self.brief_running) = (0, 0);
        (self.shares, self.spreads_loads) = (false, false);
        self.spinner = Spinner::Absent;
    }

    /// Whether jobs of an earlier generation that end by themselves are queued, while every helper of that
    /// generation makes a call that may wait.
    pub(crate) fn any_stuck(&self) -> bool {
        let mut earlier = self.lanes.earlier_ending();
        earlier.any(|(generation, lane)| !self.has_helper_for(generation, lane))
    }

    /// Takes these jobs out of the queue, with their lanes.
    pub(crate) fn take_stuck(&mut self) -> Vec<(Lane, J)> {
        let helpers = &self.helpers;
        self.lanes
            .take_earlier(|generation, lane| !any_for(helpers, generation, lane))
    }

    /// Takes the queued jobs of the current generation that end by themselves, and that no helper will take.
    pub(crate) fn take_unserved(&mut self) -> Vec<J> {
        let mut unserved = Vec::new();
        for lane in self.lanes.ending() {
            if !self.has_helper_for(self.lanes.generation(), lane) {
                unserved.append(&mut self.lanes.take_queued(lane));
            }
        }
        self.brief_queued -= unserved.iter().filter(|job| job.is_brief()).count();
        unserved
    }

    pub(super) fn take_all(&mut self) -> Vec<J> {
        self.brief_queued = 0;
        self.lanes.take_all()
    }

    /// Whether the queued jobs of the current generation need more helpers.
    pub(crate) fn is_short(&self) -> bool {
        let needed = if self.spreads_loads {
            self.lanes.needed()
        } else {
            self.lanes.needed_with_shared_loads()
        };
        self.present() < needed
    }

    /// Whether a helper of this generation takes its next job as soon as calls of this lane end.
    pub(crate) fn has_helper_for(&self, generation: u32, lane: Lane) -> bool {
        any_for(&self.helpers, generation, lane)
    }

    /// The number of helpers that serve new jobs.
    pub(crate) fn present(&self) -> usize {
        let helpers = self.helpers.iter();
        helpers.filter(|one| self.is_current(&one.member)).count()
    }

    /// All helpers that have not ended.
    pub(crate) fn helpers(&self) -> &[Helper<J::Id>] {
        &self.helpers
    }

    pub(crate) fn is_current(&self, member: &Member) -> bool {
        member.generation == self.lanes.generation()
    }

    pub(super) fn leave(&mut self, member: &Member) {
        self.helpers.retain(|one| !one.is(member));
    }

    fn helper(&mut self, member: &Member) -> &mut Helper<J::Id> {
        let found = self.helpers.iter_mut().find(|one| one.is(member));
        found.expect("a helper is listed while it serves")
    }
}

impl<I> Helper<I> {
    fn is(&self, member: &Member) -> bool {
        Arc::ptr_eq(&self.member.interruptible, &member.interruptible)
    }
}

fn any_for<I>(helpers: &[Helper<I>], generation: u32, lane: Lane) -> bool {
    helpers.iter().any(|helper| {
        let comes = match helper.lane {
            None | Some(Lane::Bounded) => true,
            Some(other) => other == lane,
        };
        helper.member.generation == generation && comes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// A job is its number.
    impl Queued for u64 {
        type Id = u64;

        fn id(&self) -> Option<u64> {
            Some(*self)
        }
    }

    fn crew(limits: &Limits) -> Crew<u64> {
        Crew::new(Lanes::new(limits, false), Starts::Adder)
    }

    fn crew_with_helper(lane: Option<Lane>) -> Crew<u64> {
        let mut crew = crew(&Limits::default());
        crew.order();
        crew.helpers[0].lane = lane;
        crew
    }

    #[test]
    fn jobs_of_a_generation_whose_helpers_all_wait_are_taken_once() {
        let mut crew = crew_with_helper(Some(Lane::Unbounded));
        crew.lanes.add(Lane::Bounded, 1).expect("room");
        crew.lanes.add(Lane::Unbounded, 2).expect("room");
        assert!(!crew.any_stuck());
        crew.renew();
        assert!(crew.any_stuck());
        let stuck = crew.take_stuck();
        assert_eq!(stuck.len(), 1);
        assert_eq!(stuck[0].1, 1);
        assert!(!crew.any_stuck() && crew.take_stuck().is_empty());
    }

    #[test]
    fn jobs_stay_with_a_helper_of_their_generation() {
        let mut crew = crew_with_helper(None);
        crew.lanes.add(Lane::Bounded, 1).expect("room");
        assert!(crew.take_unserved().is_empty());
        crew.renew();
        assert!(!crew.any_stuck() && crew.take_stuck().is_empty());
        assert!(crew.lanes.take(0).is_some());
    }

    #[test]
    fn without_a_helper_jobs_that_end_by_themselves_are_taken() {
        let mut crew = crew_with_helper(Some(Lane::Unbounded));
        crew.lanes.add(Lane::Bounded, 1).expect("room");
        crew.lanes.add(Lane::Unbounded, 2).expect("room");
        assert_eq!(crew.take_unserved().len(), 1);
        assert!(crew.take_unserved().is_empty());
    }

    #[test]
    fn jobs_of_a_remote_file_system_wait_for_the_helpers_of_their_own_lane() {
        let (one, other) = (Lane::Remote(1), Lane::Remote(2));
        let mut crew = crew_with_helper(Some(one));
        crew.lanes.add(one, 1).expect("room");
        assert!(crew.take_unserved().is_empty());
        crew.lanes.add(other, 2).expect("room");
        crew.lanes.add(Lane::Bounded, 3).expect("room");
        let unserved = crew.take_unserved();
        assert_eq!(unserved, [3, 2]);
        crew.renew();
        assert!(!crew.any_stuck() && crew.take_stuck().is_empty());
    }

    #[test]
    fn a_lane_of_a_remote_file_system_grows_with_its_answers() {
        let limits = Limits {
            helpers: 2,
            ..Limits::default()
        };
        let (mut crew, lane) = (crew(&limits), Lane::Remote(1));
        for number in 0..60 {
            crew.lanes.add(lane, number + 1).expect("room");
        }
        let mut running = 0;
        let mut rounds = Vec::new();
        while let Some((taken, _)) = crew.lanes.take(0) {
            assert_eq!(taken, lane);
            running += 1;
            while let Some((_, _)) = crew.lanes.take(0) {
                running += 1;
            }
            rounds.push(running);
            (0..running).for_each(|_| {
                crew.lanes.done(lane, 0, Instant::now());
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
        let mut crew = crew(&limits);
        let devices = Limits::REMOTE_LANES as u64 + 5;
        for number in 0..4 * devices {
            let lane = Lane::Remote(1 + number % devices);
            crew.lanes.add(lane, number + 1).expect("room");
        }
        let most = 2 * (Limits::REMOTE_LANES + 1);
        assert_eq!(crew.lanes.needed(), most);
        let mut begun = Vec::new();
        while let Some((lane, job)) = crew.lanes.take(0) {
            begun.push((lane, job));
        }
        assert_eq!(begun.len(), most);
        let shared = begun.iter().filter(|(lane, _)| lane.device() == Some(0));
        assert_eq!(shared.count(), 2);
        for (lane, _) in begun {
            crew.lanes.done(lane, 0, Instant::now());
        }
        while let Some((lane, _)) = crew.lanes.take(0) {
            crew.lanes.done(lane, 0, Instant::now());
        }
        assert_eq!((crew.lanes.needed(), crew.lanes.ending().len()), (0, 1));
    }
}
