//! The queue of a pool: threads add jobs, helpers take them.
//!
//! One helper is on its way at a time: who adds a job wakes one only if none is, and a helper that takes
//! a job wakes the next one if some are left. So jobs that come together do not cost their thread a wakeup
//! each, and no job waits behind one that takes long. Brief jobs ([`Queued::is_brief`]) that are queued
//! together wait for one helper until [`JobQueue::unshare`], because waking another one takes longer than
//! they do. So do loads ([`Queued::is_load`]), of which a helper begins several before it waits for the disk.
//!
//! This file uses only locks and one atomic, so that the model checker can run it; see `tests/model.rs`.

use super::crew::{Bring, Crew, Lull, Member, Phase, Starts};
use super::lanes::{LOADS_AT_ONCE, Lane, Lanes, Queued};
use super::locks::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering::Relaxed};
use crate::Errno;
use crate::sys::interrupt::Interruptible;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct JobQueue<J: Queued> {
    crew: Mutex<Crew<J>>,
    wakeup: Condvar,
    /// Changes when the helper that spins must look.
    posted: AtomicU32,
}

/// Who comes for a job.
#[derive(Debug)]
pub(crate) enum Coming {
    /// A helper that runs, or no helper is needed.
    Helper,
    /// The helper of earlier brief jobs or loads; [`JobQueue::help_shared`] if it makes no progress.
    Shared,
    /// A helper that the caller must start; [`JobQueue::not_started`] if that fails.
    ToBeStarted(Member),
}

/// A job for a helper.
pub(crate) struct Taken<J> {
    pub(crate) lane: Lane,
    pub(crate) job: J,
    /// Who comes for what is left.
    pub(crate) coming: Coming,
}

/// What a helper does that has begun or ended a load.
pub(crate) struct AfterLoad<J> {
    /// The load that it begins next.
    pub(crate) next: Option<J>,
    /// Who comes for the jobs that are left.
    pub(crate) coming: Coming,
    /// Whether they need more helpers than there are.
    pub(crate) is_short: bool,
}

/// The end of a helper.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Whether the queue is finished and empty, and no other helper is left.
    pub(crate) was_last: bool,
}

/// Where a job was that must be cancelled.
pub(crate) enum Found<J, R> {
    /// In the queue, which it has left.
    Queued(J),
    Running(R),
    Nowhere,
}

/// A job that turned out to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The helper goes on with it.
    Runs { is_short: bool },
    /// It waits for room in its lane, and its helper has none.
    Queued,
}

impl<J: Queued> JobQueue<J> {
    pub(crate) fn new(lanes: Lanes<J>, starts: Starts) -> JobQueue<J> {
        JobQueue {
            crew: Mutex::new(Crew::new(lanes, starts)),
            wakeup: Condvar::new(),
            posted: AtomicU32::new(0),
        }
    }

    /// Queues a job. `gap`: how long helpers had nothing to do; `None`: since one of them was done.
    ///
    /// # Errors
    /// The job, if the queue was stopped, or at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn add(&self, lane: Lane, job: J, gap: Option<Duration>) -> Result<Coming, J> {
        let mut crew = self.lock();
        if crew.phase == Phase::Stopped {
            return Err(job);
        }
        // A job that is not brief must not wait behind those that share a helper.
        let is_brief = job.is_brief();
        let is_load = job.is_load(lane);
        let shares = is_brief && crew.has_only_brief();
        crew.push(lane, job)?;
        crew.gap = gap.unwrap_or_else(|| crew.done_at.elapsed());
        crew.shares = shares;
        if shares {
            return Ok(Coming::Shared);
        }
        // A helper that comes takes this load besides others.
        let may_start = !is_load || !crew.is_one_coming();
        match crew.bring(may_start) {
            // It may open another file first.
            Bring::NoHelper if is_load => Ok(Coming::Shared),
            bring => Ok(self.act(crew, bring)),
        }
    }

    /// Waits for a job, at most `idle` long. `spin` may look for one by its second argument.
    ///
    /// # Errors
    /// The helper must end: it has waited that long, or is no longer needed.
    pub(crate) fn next(
        &self,
        member: &Member,
        idle: Duration,
        spin: impl FnOnce(Lull, &dyn Fn() -> bool),
    ) -> Result<Taken<J>, Ended> {
        let mut crew = self.lock();
        let (mut spin, mut timed_out) = (Some(spin), false);
        crew.arrive(member);
        loop {
            if let Some((lane, job)) = crew.take(member) {
                let bring = crew.bring(false);
                let coming = self.act(crew, bring);
                return Ok(Taken { lane, job, coming });
            }
            let is_over = crew.phase != Phase::Open && crew.lanes.is_empty();
            if is_over || timed_out || !crew.is_current(member) {
                crew.leave(member);
                if is_over {
                    // Those that have looked while this one worked.
                    self.wake_all();
                }
                return Err(Ended {
                    was_last: is_over && crew.helpers().is_empty(),
                });
            }
            if spin.is_some()
                && let Some(lull) = crew.lull()
                && let Some(spin) = spin.take()
            {
                let before = self.posted.load(Relaxed);
                drop(crew);
                spin(lull, &|| self.posted.load(Relaxed) != before);
                crew = self.lock();
                crew.end_spin(member);
                continue;
            }
            crew.begin_sleep();
            let waited = self.wakeup.wait_timeout(crew, idle);
            let (guard, wait) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            crew = guard;
            crew.end_sleep(member);
            timed_out = wait.timed_out();
        }
    }

    /// A helper is done with a job, and will look for the next one. Returns whether more helpers are needed
    /// than there are.
    pub(crate) fn done(&self, member: &Member, lane: Lane, is_brief: bool) -> bool {
        self.done_with(self.lock(), member, lane, is_brief)
    }

    /// The same with the lock, which it releases.
    pub(crate) fn done_with(
        &self,
        mut crew: MutexGuard<'_, Crew<J>>,
        member: &Member,
        lane: Lane,
        is_brief: bool,
    ) -> bool {
        let is_short = crew.done(member, lane, is_brief, Instant::now());
        // Under the lock, so that a late cancellation of this job cannot interrupt the next one.
        member.interruptible.rearm();
        is_short
    }

    /// A helper has begun a load, and takes another one if it has room. If not, it will wait for the disk:
    /// another helper comes for what is left. `held`: how many loads it has begun; without loads it is done.
    pub(crate) fn begun_load(&self, member: &Member, held: usize) -> AfterLoad<J> {
        let mut crew = self.lock();
        member.interruptible.rearm();
        crew.end_collecting(member);
        let has_room = held < LOADS_AT_ONCE;
        if let Some(next) = has_room.then(|| crew.take_load(member)).flatten() {
            return AfterLoad {
                next: Some(next),
                coming: Coming::Helper,
                is_short: false,
            };
        }
        if held == 0 {
            crew.done(member, Lane::Bounded, false, Instant::now());
        }
        let bring = crew.bring(false);
        let is_short = crew.lanes.startable() > 0 && crew.is_short();
        AfterLoad {
            next: None,
            coming: self.act(crew, bring),
            is_short,
        }
    }

    /// A cancellation of this job interrupts the helper's call from now on.
    pub(crate) fn waits_for(&self, member: &Member, id: Option<J::Id>) {
        self.lock().set_current(member, id);
    }

    /// A helper has ended a load, and takes another one. Without loads it is done.
    pub(crate) fn ended_load(&self, member: &Member, is_last: bool) -> AfterLoad<J> {
        let mut crew = self.lock();
        let now = Instant::now();
        crew.set_current(member, None);
        let next = crew.take_load(member);
        let is_short = if is_last && next.is_none() {
            crew.done(member, Lane::Bounded, false, now)
        } else {
            crew.ended_load(member, now)
        };
        // Under the lock, so that a late cancellation of this job cannot interrupt the next one.
        member.interruptible.rearm();
        AfterLoad {
            next,
            coming: Coming::Helper,
            is_short,
        }
    }

    /// Cancels a job: removes it, or interrupts its call, with the lock, so that its helper cannot go on
    /// meanwhile.
    pub(crate) fn cancel<R>(
        &self,
        id: J::Id,
        interrupt: impl FnOnce(&Interruptible) -> R,
    ) -> Found<J, R> {
        let mut crew = self.lock();
        if let Some(job) = crew.remove(id) {
            return Found::Queued(job);
        }
        match crew.helpers().iter().find(|one| one.current == Some(id)) {
            Some(one) => Found::Running(interrupt(&one.member.interruptible)),
            None => Found::Nowhere,
        }
    }

    /// Moves a helper's job to the unbounded lane, so that another one of its lane may begin.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn move_to_unbounded(
        &self,
        member: &Member,
        from: Lane,
        job: &J,
    ) -> Result<Moved, Errno>
    where
        J: Clone,
    {
        let mut crew = self.lock();
        if !crew.move_to_unbounded(member, from, job)? {
            return Ok(Moved::Queued);
        }
        let is_short = crew.is_short() || crew.any_stuck();
        if !is_short {
            let bring = crew.bring(false);
            self.act(crew, bring);
        }
        Ok(Moved::Runs { is_short })
    }

    /// Lets brief jobs and loads wait no longer for a helper that they share.
    pub(crate) fn unshare(&self) {
        self.bring_another(true);
    }

    /// Brings a helper besides the one that brief jobs or loads share, which makes no progress. Returns
    /// whether loads may wait for that helper in turn.
    pub(crate) fn help_shared(&self) -> bool {
        self.bring_another(false)
    }

    fn bring_another(&self, spreads_loads: bool) -> bool {
        let mut crew = self.lock();
        crew.unshare(spreads_loads);
        let any_loads = crew.lanes.next_is_load();
        let bring = crew.bring(false);
        self.act(crew, bring);
        any_loads
    }

    /// Returns a helper that the caller must start, if the jobs need more.
    pub(crate) fn order(&self) -> Option<Member> {
        let mut crew = self.lock();
        crew.is_short().then(|| crew.order())
    }

    /// A helper could not be started.
    pub(crate) fn not_started(&self, member: &Member) {
        let mut crew = self.lock();
        crew.arrive(member);
        crew.leave(member);
    }

    /// Takes the jobs that no helper will take, because all have ended.
    pub(crate) fn take_forsaken(&self) -> Vec<J> {
        let mut crew = self.lock();
        if crew.helpers().is_empty() {
            crew.take_all()
        } else {
            Vec::new()
        }
    }

    /// Begins a new generation of helpers: jobs queued before stay with helpers of the old one.
    pub(crate) fn renew(&self) {
        self.lock().renew();
        self.wake_all();
    }

    /// Lets the helpers end when there are no jobs.
    pub(crate) fn finish(&self) {
        let mut crew = self.lock();
        if crew.phase == Phase::Open {
            crew.phase = Phase::Finishing;
        }
        self.wake_all();
    }

    /// Lets the helpers end now, and interrupts their calls. Returns the jobs that none of them has begun.
    pub(crate) fn stop(&self, interrupt: impl Fn(&Interruptible)) -> Vec<J> {
        let mut crew = self.lock();
        crew.phase = Phase::Stopped;
        self.wake_all();
        let busy = crew.helpers().iter().filter(|one| one.current.is_some());
        busy.for_each(|one| interrupt(&one.member.interruptible));
        crew.take_all()
    }

    /// Whether there are no jobs, neither waiting nor begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().lanes.is_empty()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Crew<J>> {
        // Under the lock, code panics only where an invariant is broken (`expect`). Counts may then
        // be wrong, but the data can still be used and dropped.
        self.crew
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn act(&self, crew: MutexGuard<'_, Crew<J>>, bring: Bring) -> Coming {
        match bring {
            Bring::NoHelper => {}
            Bring::Spinner => drop(self.posted.fetch_add(1, Relaxed)),
            Bring::Sleeper => {
                // Else the helper would wait for the lock as soon as it is awake.
                drop(crew);
                self.wakeup.notify_one();
            }
            Bring::New(member) => return Coming::ToBeStarted(member),
        }
        Coming::Helper
    }

    fn wake_all(&self) {
        self.posted.fetch_add(1, Relaxed);
        self.wakeup.notify_all();
    }
}
