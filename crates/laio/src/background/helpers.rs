//! Helper threads, which make the calls that no other part of the back end can take.
//!
//! A pool belongs to one context. The context's own thread starts the helpers, so they inherit its
//! credentials, namespaces and filters; when those change, new helpers replace them. Helpers block
//! all signals except the one that interrupts a cancelled call. [`super::lane`] limits how many
//! helpers each kind of call may use.

use super::doorbell::Doorbell;
use super::job::{Cancelled, Job, run};
use super::lane::{self, Lane, Lanes};
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::{Errno, Handle, Limits};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The pool of one context.
#[derive(Debug)]
pub(crate) struct Helpers {
    shared: Arc<HelperShared>,
    threads: Vec<Thread>,
    signal: Option<i32>,
    /// Jobs started and not yet reaped.
    outstanding: usize,
    /// This is a child's copy: see [`Helpers::forget_in_child`].
    inherited: bool,
}

#[derive(Debug)]
struct HelperShared {
    pool: Mutex<Pool>,
    work: Condvar,
    finished: Mutex<Vec<(Handle, Result<usize, Errno>)>>,
    any_finished: AtomicBool,
    /// Whether a helper's call turned out to wait, so that more helpers are needed for the queued
    /// jobs.
    short_of_helpers: AtomicBool,
    doorbell: Arc<Doorbell>,
}

#[derive(Debug)]
struct Pool {
    /// The queued jobs. Renewing the pool increments their generation; a helper serves only the jobs
    /// of its own generation.
    lanes: Lanes,
    helpers: Vec<Helper>,
    /// The number of idle helpers of the current generation.
    idle: usize,
    closing: bool,
}

#[derive(Debug)]
struct Helper {
    generation: u32,
    current: Option<Handle>,
    interruptible: Arc<Interruptible>,
}

impl Helpers {
    /// An empty pool: threads start on demand.
    pub(crate) fn new(
        doorbell: Arc<Doorbell>,
        limits: &Limits,
        queue_at_limit: bool,
        signal: Option<i32>,
    ) -> Helpers {
        Helpers {
            shared: Arc::new(HelperShared {
                pool: Mutex::new(Pool {
                    lanes: Lanes::new(limits, queue_at_limit),
                    helpers: Vec::new(),
                    idle: 0,
                    closing: false,
                }),
                work: Condvar::new(),
                finished: Mutex::default(),
                any_finished: AtomicBool::new(false),
                short_of_helpers: AtomicBool::new(false),
                doorbell,
            }),
            threads: Vec::new(),
            signal,
            outstanding: 0,
            inherited: false,
        }
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The error of starting a thread, if there is none to do the job; `EAGAIN` at the limit of
    /// unbounded calls, unless calls queue there.
    pub(crate) fn start(&mut self, lane: Lane, job: Job) -> Result<(), Errno> {
        let handle = job.handle;
        let mut pool = self.shared.lock();
        let at_once = pool.lanes.add(lane, job)?;
        if pool.present() < pool.lanes.needed() {
            drop(pool);
            self.spawn_for(lane, handle)?;
        } else if at_once && pool.idle > 0 {
            self.shared.work.notify_one();
        }
        self.outstanding += 1;
        Ok(())
    }

    /// The number of jobs whose results have not been reaped.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether results wait to be reaped.
    #[inline]
    pub(crate) fn any_finished(&self) -> bool {
        self.outstanding > 0 && self.shared.any_finished.load(SeqCst)
    }

    /// Takes the results of finished jobs.
    pub(crate) fn reap(&mut self) -> Vec<(Handle, Result<usize, Errno>)> {
        if !self.any_finished() {
            return Vec::new();
        }
        self.shared.any_finished.store(false, SeqCst);
        if self.shared.short_of_helpers.swap(false, SeqCst) {
            self.reinforce();
        }
        let finished = std::mem::take(&mut *self.shared.finished.lock().unwrap());
        self.outstanding -= finished.len();
        finished
    }

    /// Cancels a job: one that has not begun is removed, a running call is interrupted.
    pub(crate) fn cancel(&mut self, handle: Handle) -> Cancelled {
        let mut pool = self.shared.lock();
        if pool.lanes.remove(handle) {
            self.outstanding -= 1;
            return Cancelled::Removed;
        }
        if let Some(helper) = pool
            .helpers
            .iter()
            .find(|helper| helper.current == Some(handle))
            && let Ok(signal) = Signal::install(self.signal)
        {
            // Under the lock: the helper cannot move on to another job meanwhile.
            helper.interruptible.interrupt(signal);
        }
        Cancelled::Running
    }

    /// Begins a new generation after the calling thread's rights or FS state have changed: later jobs
    /// need threads that inherit the new ones. Jobs queued before keep the old ones.
    pub(crate) fn renew(&mut self) {
        let mut pool = self.shared.lock();
        pool.lanes.renew();
        pool.idle = 0;
        self.shared.work.notify_all();
    }

    /// In a forked child: forgets the threads, which are the parent's; one of them may hold a lock.
    pub(crate) fn forget_in_child(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        self.inherited = true;
    }

    /// The number of live threads.
    pub(crate) fn threads(&self) -> usize {
        self.shared.lock().helpers.len()
    }

    /// The TID of a thread that serves new jobs: `None` if there is no such thread, 0 if none of
    /// them has begun.
    pub(crate) fn sample_thread(&self) -> Option<u32> {
        let pool = self.shared.lock();
        let present = pool
            .helpers
            .iter()
            .filter(|one| one.generation == pool.lanes.generation());
        present.map(|one| one.interruptible.thread()).max()
    }

    /// Starts a helper for the job just queued. If that fails, a call that ends by itself stays
    /// queued for the existing helpers, unless waiting calls occupy all of them; any other job is
    /// removed and the start fails.
    fn spawn_for(&mut self, lane: Lane, handle: Handle) -> Result<(), Errno> {
        let Err(errno) = self.spawn() else {
            return Ok(());
        };
        let mut pool = self.shared.lock();
        let served = lane == Lane::Bounded && pool.present() > pool.lanes.helpers_for_unbounded();
        // If the job is no longer queued, a helper has taken it.
        if served || !pool.lanes.remove(handle) {
            return Ok(());
        }
        Err(errno)
    }

    /// Starts helpers to replace those whose calls turned out to wait.
    fn reinforce(&mut self) {
        loop {
            let pool = self.shared.lock();
            let enough = pool.present() >= pool.lanes.needed();
            drop(pool);
            if enough || self.spawn().is_err() {
                return;
            }
        }
    }

    fn spawn(&mut self) -> Result<(), Errno> {
        self.threads.retain(|thread| !thread.is_finished());
        let interruptible = Arc::new(Interruptible::default());
        let mut pool = self.shared.lock();
        let generation = pool.lanes.generation();
        pool.helpers.push(Helper {
            generation,
            current: None,
            interruptible: interruptible.clone(),
        });
        drop(pool);
        match self.spawn_thread(generation, interruptible.clone()) {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(errno) => {
                self.shared.lock().leave(&interruptible);
                Err(errno)
            }
        }
    }

    fn spawn_thread(
        &self,
        generation: u32,
        interruptible: Arc<Interruptible>,
    ) -> Result<Thread, Errno> {
        let signal = Signal::install(self.signal)?;
        let shared = self.shared.clone();
        Thread::start(c"laio-helper", move || {
            interruptible.adopt_thread(signal);
            shared.serve(&interruptible, generation);
            interruptible.release_thread();
        })
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        if self.inherited {
            return;
        }
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}

impl HelperShared {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        // Under the lock, code panics only where an invariant is broken (`expect`). Counts may then
        // be wrong, but the data can still be used and dropped.
        self.pool
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The main loop of a helper.
    fn serve(&self, interruptible: &Arc<Interruptible>, generation: u32) {
        while let Some((mut lane, job)) = self.next_job(interruptible, generation) {
            let waits = lane == Lane::Bounded && lane::opens_blocking_file(&job, interruptible);
            let moved = match waits {
                true => self.move_to_unbounded(&job, generation, interruptible),
                false => Ok(true),
            };
            let result = match moved {
                Ok(true) => run(&job, interruptible),
                Ok(false) => continue,
                Err(errno) => Err(errno),
            };
            if waits && moved.is_ok() {
                lane = Lane::Unbounded;
            }
            job.publish_status(result);
            let mut pool = self.lock();
            pool.lanes.done(lane, generation);
            pool.helper(interruptible).current = None;
            // Under the lock, so that a late cancellation of this job cannot interrupt the next one.
            interruptible.rearm();
            drop(pool);
            self.finished.lock().unwrap().push((job.handle, result));
            self.any_finished.store(true, SeqCst);
            self.doorbell.ring();
        }
    }

    /// Moves the helper's job to the unbounded lane. The jobs queued behind it need another helper,
    /// which only the context's own thread may start. Returns false if the job was queued instead:
    /// the helper has none then.
    fn move_to_unbounded(
        &self,
        job: &Job,
        generation: u32,
        interruptible: &Arc<Interruptible>,
    ) -> Result<bool, Errno> {
        let mut pool = self.lock();
        // No cancellation would find a cancelled job in the queue.
        let is_cancelled = interruptible.is_interrupted();
        if !pool
            .lanes
            .move_to_unbounded(job, generation, is_cancelled)?
        {
            pool.helper(interruptible).current = None;
            return Ok(false);
        }
        let short = pool.present() < pool.lanes.needed();
        if !short && pool.idle > 0 {
            self.work.notify_one();
        }
        drop(pool);
        if short {
            self.short_of_helpers.store(true, SeqCst);
            self.any_finished.store(true, SeqCst);
            self.doorbell.ring();
        }
        Ok(true)
    }

    /// Waits for a job of this generation. Returns `None` once the helper is no longer needed and has
    /// left the pool.
    fn next_job(&self, interruptible: &Arc<Interruptible>, generation: u32) -> Option<(Lane, Job)> {
        let mut pool = self.lock();
        let mut timed_out = false;
        loop {
            if let Some((lane, job)) = pool.lanes.take(generation) {
                pool.helper(interruptible).current = Some(job.handle);
                return Some((lane, job));
            }
            if pool.closing || pool.lanes.generation() != generation || timed_out {
                pool.leave(interruptible);
                return None;
            }
            pool.idle += 1;
            let idle_time = Duration::from_millis(Limits::HELPER_IDLE_MS);
            let waited = self.work.wait_timeout(pool, idle_time);
            let (guard, wait) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            pool = guard;
            timed_out = wait.timed_out();
            // A new generation begins with no idle helper.
            if pool.lanes.generation() == generation {
                pool.idle -= 1;
            }
        }
    }
}

impl Pool {
    /// The number of helpers that serve new jobs.
    fn present(&self) -> usize {
        self.helpers
            .iter()
            .filter(|helper| helper.generation == self.lanes.generation())
            .count()
    }

    fn helper(&mut self, interruptible: &Arc<Interruptible>) -> &mut Helper {
        let found = self
            .helpers
            .iter_mut()
            .find(|helper| Arc::ptr_eq(&helper.interruptible, interruptible));
        found.expect("a helper is in the pool while it serves")
    }

    fn leave(&mut self, interruptible: &Arc<Interruptible>) {
        self.helpers
            .retain(|helper| !Arc::ptr_eq(&helper.interruptible, interruptible));
    }
}
