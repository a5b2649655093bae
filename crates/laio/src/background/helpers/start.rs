//! Starting helpers, and what is done with jobs for which none can be started.

use super::Helpers;
use super::pool::Helper;
use crate::background::job::{Job, run_by_caller};
use crate::background::lane::Lane;
use crate::pool::patience::has_processors;
use crate::rights::{depends_on_rights, has_filters};
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::{Errno, Handle};
use std::sync::Arc;

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
    pub(super) fn spawn_for(&mut self, lane: Lane, handle: Handle) -> Result<(), Errno> {
        let Err(errno) = self.spawn() else {
            return Ok(());
        };
        let mut pool = self.shared.lock();
        let lane = pool.lanes.existing(lane);
        let served = match lane {
            Lane::Bounded => pool.present() > pool.lanes.helpers_for_others(),
            Lane::Remote(_) => pool.has_helper_for(pool.lanes.generation(), lane),
            Lane::Unbounded => false,
        };
        // If the job is no longer queued, a helper has taken it.
        if served || !pool.lanes.remove(handle) {
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
        let pool = self.shared.lock();
        let is_needed = pool.is_short() || pool.any_stuck();
        drop(pool);
        if !is_needed {
            // A call that turns out to wait after this makes the next `reap` look again.
            return;
        }
        renew(self);
        let mut failed = Vec::new();
        let mut pool = self.shared.lock();
        for (lane, job) in pool.take_stuck() {
            let needs_rights = depends_on_rights(job.row) || has_filters();
            if needs_rights || pool.lanes.add(lane, job).is_err() {
                failed.push((job, Errno::AGAIN));
            }
        }
        drop(pool);
        while self.shared.lock().is_short() {
            if let Err(errno) = self.spawn() {
                let unserved = self.shared.lock().take_unserved();
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

    fn spawn(&mut self) -> Result<(), Errno> {
        if self.threads.is_empty() && self.spin_us > 0 && !has_processors() {
            self.spin_us = 0;
        }
        self.threads.retain(|thread| !thread.is_finished());
        let interruptible = Arc::new(Interruptible::default());
        let mut pool = self.shared.lock();
        let generation = pool.lanes.generation();
        pool.helpers.push(Helper {
            generation,
            current: None,
            lane: None,
            interruptible: interruptible.clone(),
        });
        drop(pool);
        match self.spawn_thread(generation, interruptible.clone()) {
            Ok(thread) => {
                self.threads.push(thread);
                self.wakeups += 1;
                Ok(())
            }
            Err(errno) => {
                let mut pool = self.shared.lock();
                pool.leave(&interruptible);
                pool.collects_loads = false;
                Err(errno)
            }
        }
    }

    fn spawn_thread(
        &self,
        generation: u32,
        interruptible: Arc<Interruptible>,
    ) -> Result<Thread, Errno> {
        // A helper without a signal makes calls that end by themselves.
        let signal = Signal::install(self.shared.signal).ok();
        let shared = self.shared.clone();
        let spin_us = self.spin_us;
        Thread::start(c"laio-helper", move || {
            interruptible.adopt_thread(signal);
            shared.serve(&interruptible, generation, spin_us);
            interruptible.release_thread();
        })
    }
}
