//! Starting helpers, and what is done with jobs for which none can be started.

use super::Helpers;
use crate::background::job::{Job, run_by_caller};
use crate::pool::crew::Member;
use crate::pool::lanes::Lane;
use crate::rights::{depends_on_rights, has_filters};
use crate::sys::interrupt::Signal;
use crate::sys::thread::Thread;
use crate::{Errno, Handle};

impl Helpers {
    /// Makes a call on the calling thread, for which no helper can be started, if that is allowed. Its
    /// result is reaped as that of a helper.
    pub(super) fn make_by_caller(&mut self, lane: Lane, job: &Job) -> Option<()> {
        let allowed = self.caller_makes_calls && lane == Lane::Bounded;
        let result = allowed.then(|| run_by_caller(job)).flatten()?;
        self.made_by_caller += 1;
        self.shared.report(job.handle, result);
        Some(())
    }

    /// Starts a helper for the job just queued. If that fails, a call that ends by itself stays
    /// queued for the existing helpers, unless waiting calls occupy all of them; any other job is
    /// removed and the start fails.
    pub(super) fn spawn_for(
        &mut self,
        lane: Lane,
        handle: Handle,
        member: Member,
    ) -> Result<(), Errno> {
        let Err(errno) = self.spawn(member) else {
            return Ok(());
        };
        let mut crew = self.shared.jobs.lock();
        let lane = crew.lanes.existing(lane);
        let served = match lane {
            Lane::Bounded => crew.present() > crew.lanes.helpers_for_others(),
            Lane::Remote(_) => crew.has_helper_for(crew.lanes.generation(), lane),
            Lane::Unbounded => false,
        };
        // If the job is no longer queued, a helper has taken it.
        if served || crew.remove(handle).is_none() {
            return Ok(());
        }
        Err(errno)
    }

    /// Starts helpers to replace the ones whose calls turned out to wait. They have the rights that the
    /// calling thread has now, so `renew` first begins a new generation if it queued the jobs with others.
    ///
    /// Jobs of an earlier generation that no helper of theirs will take fail with `EAGAIN`, except those to
    /// which rights do not matter. If no helper can be started, the calling thread makes the jobs that no
    /// other one will take, if that is allowed; else they fail with its error.
    pub(super) fn reinforce(&mut self, renew: impl FnOnce(&mut Helpers)) {
        let crew = self.shared.jobs.lock();
        let is_needed = crew.is_short() || crew.any_stuck();
        drop(crew);
        if !is_needed {
            // A call that turns out to wait after this makes the next `reap` look again.
            return;
        }
        renew(self);
        let mut failed = Vec::new();
        let mut crew = self.shared.jobs.lock();
        for (lane, job) in crew.take_stuck() {
            let needs_rights = depends_on_rights(job.row) || has_filters();
            if needs_rights || crew.push(lane, job).is_err() {
                failed.push((job, Errno::AGAIN));
            }
        }
        drop(crew);
        while let Some(member) = self.shared.jobs.order() {
            if let Err(errno) = self.spawn(member) {
                let unserved = self.shared.jobs.lock().take_unserved();
                for job in unserved {
                    if self.make_by_caller(Lane::Bounded, &job).is_none() {
                        failed.push((job, errno));
                    }
                }
                break;
            }
        }
        for (job, errno) in failed {
            job.publish_status(Err(errno));
            self.shared.report(job.handle, Err(errno));
        }
    }

    fn spawn(&mut self, member: Member) -> Result<(), Errno> {
        self.threads.retain(|thread| !thread.is_finished());
        // A helper without a signal makes calls that end by themselves.
        let signal = Signal::install(self.shared.signal).ok();
        // Before the first helper spins.
        self.shared.patience.spin_us();
        let (shared, own) = (self.shared.clone(), member.clone());
        let started = Thread::start(c"laio-helper", move || {
            own.interruptible.adopt_thread(signal);
            shared.serve(&own);
            own.interruptible.release_thread();
        });
        match started {
            Ok(thread) => {
                self.threads.push(thread);
                self.started += 1;
                Ok(())
            }
            Err(errno) => {
                self.shared.jobs.not_started(&member);
                Err(errno)
            }
        }
    }
}
