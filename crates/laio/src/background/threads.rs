//! The threads that make plain calls: a pool of helpers, one-shot threads for calls that no thread
//! started earlier may make, and the rights that decide between the two.

use super::doorbell::Doorbell;
use super::helpers::{Helpers, UnansweredCalls};
use super::job::{Cancelled, Job};
use super::lane;
use super::one_shot::OneShotThreads;
use super::rights::{Maker, Rights};
use super::unanswered::Unanswered;
use crate::operations::InFlight;
use crate::step::may_lose_terminal;
use crate::table::Row;
use crate::{BackPressure, Errno, Handle, Options};
use std::sync::Arc;
use std::time::Duration;

/// The threads of one context.
#[derive(Debug)]
pub(crate) struct Threads {
    pool: Helpers,
    one_shot: OneShotThreads,
    rights: Rights,
    /// The number of helpers of all generations above which calls go to one-shot threads, which
    /// have their own limit.
    most: usize,
}

impl Threads {
    /// Starts no thread yet.
    pub(crate) fn new(doorbell: &Arc<Doorbell>, options: &Options) -> Threads {
        let limits = &options.limits;
        let queue = options.back_pressure == BackPressure::Wait;
        let signal = options.cancel_signal;
        let mut pool = Helpers::new(doorbell.clone(), limits, queue, signal);
        let mut one_shot = OneShotThreads::new(doorbell.clone(), limits, queue, signal);
        pool.caller_makes_calls = options.caller_makes_calls();
        one_shot.caller_makes_calls = options.caller_makes_calls();
        Threads {
            pool,
            one_shot,
            rights: Rights::new(options.whose_rights()),
            most: limits.helpers as usize + limits.waiting_helpers as usize,
        }
    }

    /// Makes a thread make the rest of an operation. `short`: the injected bound of one step, which
    /// the thread applies itself. `is_brief`: see [`Job::is_brief`].
    pub(crate) fn start(
        &mut self,
        handle: Handle,
        operation: &mut InFlight,
        short: usize,
        is_brief: bool,
    ) -> Result<(), Errno> {
        let call = operation.rest();
        let (pool, row) = (&mut self.pool, operation.row);
        let maker = self.rights.maker(pool, self.most, row, &call);
        self.rights.stamp(operation)?;
        let is_unbounded = operation.is_provisional();
        let (regular, remote) = (operation.regular, operation.remote);
        let lane = lane::of(operation.row, &call, regular, is_unbounded, remote);
        let job = Job {
            handle,
            row: operation.row,
            call,
            regular: operation.regular,
            status: operation.status.map(|status| (status, operation.done)),
            short,
            may_lose_terminal: may_lose_terminal(operation),
            is_brief,
            after_open: operation.after_open(),
        };
        match maker {
            Maker::Helper => self.pool.start(lane, job),
            Maker::OneShotThreads => self.one_shot.start(lane, self.rights.version(), job),
        }
    }

    pub(crate) fn cancel(&mut self, handle: Handle) -> Cancelled {
        match self.one_shot.cancel(handle) {
            Some(cancelled) => cancelled,
            None => self.pool.cancel(handle),
        }
    }

    pub(crate) fn any_finished(&self) -> bool {
        self.pool.any_finished() || self.one_shot.any_finished()
    }

    /// The number of calls whose results have not been reaped.
    pub(crate) fn outstanding(&self) -> usize {
        self.pool.outstanding() + self.one_shot.outstanding()
    }

    /// Takes the results of finished calls.
    pub(crate) fn reap(&mut self) -> Vec<(Handle, Result<usize, Errno>)> {
        let Threads {
            pool,
            one_shot,
            rights,
            ..
        } = self;
        if one_shot.any_queued() {
            rights.note(pool);
        }
        let mut finished = pool.reap(|pool| rights.renew_if_changed(pool));
        finished.append(&mut one_shot.reap(rights.version()));
        finished
    }

    /// The number of live threads.
    pub(crate) fn count(&self) -> usize {
        self.pool.threads() + self.one_shot.threads()
    }

    /// What remote file systems have not answered.
    pub(crate) fn unanswered(&self) -> Unanswered {
        self.pool.unanswered().and(self.one_shot.unanswered())
    }

    /// The same for other threads, without calls of one-shot threads.
    pub(crate) fn unanswered_calls(&self) -> UnansweredCalls {
        self.pool.unanswered_calls()
    }

    /// How long a thread may spin, see [`Limits::spin_us`](crate::Limits::spin_us); 0 before the
    /// first helper is started.
    pub(crate) fn spin_us(&self) -> u32 {
        self.pool.spin_us()
    }

    /// How long a context waits for the next result of a helper if no thread sleeps.
    pub(crate) fn expected_wait(&self) -> Duration {
        self.pool.expected_wait()
    }

    /// Wakes helpers for jobs that share a helper which makes no progress. Returns whether to look
    /// again after [`Helpers::SHARED_AT_MOST`].
    pub(crate) fn help_shared(&mut self) -> bool {
        let Threads { pool, rights, .. } = self;
        pool.help_shared(|pool| rights.renew_if_changed(pool))
    }

    /// Wakes helpers for all jobs that share one.
    pub(crate) fn wake_for_shared(&mut self) {
        let Threads { pool, rights, .. } = self;
        pool.wake_for_shared(|pool| rights.renew_if_changed(pool));
    }

    /// How often a helper was started or woken.
    pub(crate) fn wakeups(&self) -> u64 {
        self.pool.wakeups()
    }

    /// How many calls the calling thread has made, because no thread could be started.
    pub(crate) fn made_by_caller(&self) -> u64 {
        self.pool.made_by_caller() + self.one_shot.made_by_caller()
    }

    /// In a forked child: forgets the threads, which are the parent's.
    pub(crate) fn forget_in_child(&mut self) {
        self.pool.forget_in_child();
        self.one_shot.forget_in_child();
    }
}

/// What the rights of the calling thread allow, compared with those of the helpers; see [`Rights`].
impl Threads {
    pub(super) fn ring_may_take(&mut self, row: &Row) -> bool {
        self.rights.ring_may_take(&mut self.pool, row)
    }

    pub(super) fn posix_aio_may_take(&mut self) -> bool {
        self.rights.posix_aio_may_take(&mut self.pool)
    }

    pub(super) fn linux_aio_may_take(&self) -> bool {
        self.rights.linux_aio_may_take()
    }

    pub(super) fn stamp_rights(&self, operation: &mut InFlight) -> Result<(), Errno> {
        self.rights.stamp(operation)
    }

    /// Whether a call was refused, and the rights are not the same as at the hand-over.
    pub(super) fn refused_by_other_rights(
        &mut self,
        operation: &InFlight,
        result: Result<usize, Errno>,
    ) -> bool {
        self.rights.have_refused(&mut self.pool, operation, result)
    }

    pub(super) fn take_new_rights(&mut self) -> bool {
        self.rights.take_new()
    }

    pub(super) fn rights_changed(&mut self, by: &Row) {
        self.rights.change(&mut self.pool, by);
    }
}
