//! Helper threads, which make the calls that no other part of the back end can take.
//!
//! A pool belongs to one context. The context's own thread starts the helpers, so they inherit its
//! credentials, namespaces and filters; when those change, new helpers replace them. Helpers block
//! all signals except the one that interrupts a cancelled call. [`super::lane`] limits how many
//! helpers each kind of call may use.

use super::doorbell::Doorbell;
use super::lane::{self, Lane, Lanes};
use crate::status_word::StatusTarget;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::mask::SignalsBlocked;
use crate::sys::terminal::has_lost_its_master;
use crate::table::Row;
use crate::transfer;
use crate::{Call, Errno, Handle, Limits};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// A call for a helper to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) handle: Handle,
    pub(crate) row: &'static Row,
    pub(crate) call: Call,
    /// Whether a short read may be continued (see [`transfer::continues`]).
    pub(crate) regular: bool,
    /// The status word that receives the result, and the bytes moved before this job.
    pub(crate) status: Option<(StatusTarget, usize)>,
    /// Injected bound of one step; 0 for none.
    pub(crate) short: usize,
    /// Whether it is the read of a stream that was no hung-up terminal when the read was started.
    pub(crate) may_lose_terminal: bool,
}

impl Job {
    /// Publishes the result to the status word, except a cancellation, which the context publishes.
    pub(super) fn publish_status(&self, result: Result<usize, Errno>) {
        match (self.status, result) {
            (None, _) | (_, Err(Errno::CANCELED)) => {}
            (Some((status, before)), Ok(moved)) => status.publish(Ok(before + moved)),
            (Some((status, 0)), error) => status.publish(error),
            (Some((status, before)), Err(_)) => status.publish(Ok(before)),
        }
    }
}

/// The outcome of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The job had not begun, and was removed.
    Removed,
    /// The job is running or finished: its result will come.
    Running,
}

/// The pool of one context.
#[derive(Debug)]
pub(crate) struct Helpers {
    shared: Arc<HelperShared>,
    threads: Vec<JoinHandle<()>>,
    signal: Option<i32>,
    /// Jobs started and not yet collected.
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
    /// Whether a worker's call turned out to wait, so that more workers are needed for the queued
    /// jobs.
    short_of_workers: AtomicBool,
    doorbell: Arc<Doorbell>,
}

#[derive(Debug)]
struct Pool {
    /// The queued jobs. The epoch is incremented when the thread's identity changes; a worker
    /// serves only the jobs of its own epoch.
    lanes: Lanes,
    workers: Vec<Worker>,
    /// The number of idle workers of the current epoch.
    idle: usize,
    closing: bool,
}

#[derive(Debug)]
struct Worker {
    epoch: u32,
    current: Option<Handle>,
    interruptible: Arc<Interruptible>,
}

impl Helpers {
    /// An empty pool: threads start on demand.
    pub(crate) fn new(
        doorbell: Arc<Doorbell>,
        limits: &Limits,
        waits_at_limit: bool,
        signal: Option<i32>,
    ) -> Helpers {
        Helpers {
            shared: Arc::new(HelperShared {
                pool: Mutex::new(Pool {
                    lanes: Lanes::new(limits, waits_at_limit),
                    workers: Vec::new(),
                    idle: 0,
                    closing: false,
                }),
                work: Condvar::new(),
                finished: Mutex::default(),
                any_finished: AtomicBool::new(false),
                short_of_workers: AtomicBool::new(false),
                doorbell,
            }),
            threads: Vec::new(),
            signal,
            outstanding: 0,
            inherited: false,
        }
    }

    /// Queues a job. Fails if there is no thread to do it and none can be started, and at the limit
    /// of calls that wait.
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

    /// The number of jobs whose results have not been collected.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether results wait to be collected.
    #[inline]
    pub(crate) fn any_finished(&self) -> bool {
        self.outstanding > 0 && self.shared.any_finished.load(SeqCst)
    }

    /// Takes the results of finished jobs.
    pub(crate) fn collect(&mut self) -> Vec<(Handle, Result<usize, Errno>)> {
        if !self.any_finished() {
            return Vec::new();
        }
        self.shared.any_finished.store(false, SeqCst);
        if self.shared.short_of_workers.swap(false, SeqCst) {
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
        if let Some(worker) = pool
            .workers
            .iter()
            .find(|worker| worker.current == Some(handle))
            && let Ok(signal) = Signal::install(self.signal)
        {
            // Under the lock: the worker cannot move on to another job meanwhile.
            worker.interruptible.interrupt(signal);
        }
        Cancelled::Running
    }

    /// Begins a new epoch after the calling thread's credentials or namespaces have changed: later
    /// jobs need threads that inherit the new ones. Jobs queued before keep the old ones.
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
        self.shared.lock().workers.len()
    }

    /// The TID of a thread that serves new jobs: `None` if there is no such thread, 0 if none of
    /// them has begun.
    pub(crate) fn witness(&self) -> Option<u32> {
        let pool = self.shared.lock();
        let present = pool
            .workers
            .iter()
            .filter(|one| one.epoch == pool.lanes.epoch());
        present.map(|one| one.interruptible.thread()).max()
    }

    /// Starts a worker for the job just queued. If that fails, a call that ends by itself stays
    /// queued for the existing workers, unless waiting calls occupy all of them; any other job is
    /// removed and the start fails.
    fn spawn_for(&mut self, lane: Lane, handle: Handle) -> Result<(), Errno> {
        let Err(errno) = self.spawn() else {
            return Ok(());
        };
        let mut pool = self.shared.lock();
        let served = lane == Lane::Ends && pool.present() > pool.lanes.needed_to_wait();
        // A worker has taken a job that is no longer queued.
        if served || !pool.lanes.remove(handle) {
            return Ok(());
        }
        Err(errno)
    }

    /// Starts workers to replace those whose calls turned out to wait.
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
        let epoch = pool.lanes.epoch();
        pool.workers.push(Worker {
            epoch,
            current: None,
            interruptible: interruptible.clone(),
        });
        drop(pool);
        match self.spawn_thread(epoch, interruptible.clone()) {
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
        epoch: u32,
        interruptible: Arc<Interruptible>,
    ) -> Result<JoinHandle<()>, Errno> {
        let signal = Signal::install(self.signal)?;
        let shared = self.shared.clone();
        let builder = std::thread::Builder::new()
            .name("laio-helper".to_owned())
            .stack_size(Limits::HELPER_STACK);
        // The thread inherits this mask: no signal of the application may ever be handled there.
        let _blocked = SignalsBlocked::new();
        let thread = builder.spawn(move || {
            interruptible.adopt_thread(signal);
            shared.serve(&interruptible, epoch);
            interruptible.release_thread();
        });
        Ok(thread?)
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
            let _ = thread.join();
        }
    }
}

impl HelperShared {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        // No code that can panic runs under the lock; a poisoned lock still guards consistent data.
        self.pool
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The main loop of a helper.
    fn serve(&self, interruptible: &Arc<Interruptible>, epoch: u32) {
        while let Some((mut lane, job)) = self.next_job(interruptible, epoch) {
            let mut result = Ok(0);
            if lane == Lane::Ends && lane::opens_blocking_file(&job, interruptible) {
                result = self.found_to_wait(epoch).map(|()| 0);
                if result.is_ok() {
                    lane = Lane::Waits;
                }
            }
            if result.is_ok() {
                result = run(&job, interruptible);
            }
            job.publish_status(result);
            let mut pool = self.lock();
            pool.lanes.done(lane, epoch);
            pool.worker(interruptible).current = None;
            // Still under the lock, so that this job can no longer be cancelled.
            interruptible.rearm();
            drop(pool);
            self.finished.lock().unwrap().push((job.handle, result));
            self.any_finished.store(true, SeqCst);
            self.doorbell.ring();
        }
    }

    /// Moves the worker's job to the waiting lane. The jobs queued behind it need another worker,
    /// which only the context's own thread may start.
    fn found_to_wait(&self, epoch: u32) -> Result<(), Errno> {
        let mut pool = self.lock();
        pool.lanes.found_to_wait(epoch)?;
        let short = pool.present() < pool.lanes.needed();
        if !short && pool.idle > 0 {
            self.work.notify_one();
        }
        drop(pool);
        if short {
            self.short_of_workers.store(true, SeqCst);
            self.any_finished.store(true, SeqCst);
            self.doorbell.ring();
        }
        Ok(())
    }

    /// Waits for a job of this epoch. Returns `None` once the worker is no longer needed and has
    /// left the pool.
    fn next_job(&self, interruptible: &Arc<Interruptible>, epoch: u32) -> Option<(Lane, Job)> {
        let mut pool = self.lock();
        let mut timed_out = false;
        loop {
            if let Some((lane, job)) = pool.lanes.take(epoch) {
                pool.worker(interruptible).current = Some(job.handle);
                return Some((lane, job));
            }
            if pool.closing || pool.lanes.epoch() != epoch || timed_out {
                pool.leave(interruptible);
                return None;
            }
            pool.idle += 1;
            let idle_time = Duration::from_millis(Limits::HELPER_IDLE_MS);
            let waited = self.work.wait_timeout(pool, idle_time);
            let (guard, wait) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            pool = guard;
            timed_out = wait.timed_out();
            // A new epoch begins with no idle worker.
            if pool.lanes.epoch() == epoch {
                pool.idle -= 1;
            }
        }
    }
}

impl Pool {
    /// The number of workers that serve new jobs.
    fn present(&self) -> usize {
        self.workers
            .iter()
            .filter(|worker| worker.epoch == self.lanes.epoch())
            .count()
    }

    fn worker(&mut self, interruptible: &Arc<Interruptible>) -> &mut Worker {
        let found = self
            .workers
            .iter_mut()
            .find(|worker| Arc::ptr_eq(&worker.interruptible, interruptible));
        found.expect("a worker is in the pool while it serves")
    }

    fn leave(&mut self, interruptible: &Arc<Interruptible>) {
        self.workers
            .retain(|worker| !Arc::ptr_eq(&worker.interruptible, interruptible));
    }
}

/// Makes the call until it is complete or interrupted.
pub(super) fn run(job: &Job, interruptible: &Interruptible) -> Result<usize, Errno> {
    let mut scratch = None;
    let mut done = 0;
    loop {
        // SAFETY: the context keeps the call's memory alive until this job's result is delivered, and
        // `done` is not 0 only after the kernel has accepted the pointers.
        let result = unsafe {
            let mut step = transfer::remaining(job.row, &job.call, done, &mut scratch);
            if job.short > 0 {
                step = transfer::shortened(job.row, &step, job.short, &mut scratch);
            }
            interruptible.syscall(&step)
        };
        match result {
            // The master was closed before this thread began to read. The plain call would have been waiting then.
            Ok(0) if job.may_lose_terminal && has_lost_its_master(job.call.descriptor(0)) => {
                return Err(Errno::IO);
            }
            Ok(moved) => {
                done += moved;
                // The kernel completes a blocking transfer itself; only an injected bound makes a
                // step short.
                let bounded = job.short > 0 && moved == job.short;
                // SAFETY: the kernel has just accepted the pointers.
                let wanted = unsafe { transfer::wanted(job.row, &job.call) };
                let more = bounded && wanted.is_some_and(|wanted| done < wanted);
                if !(more && transfer::continues(job.row, &job.call, job.regular)) {
                    return Ok(done);
                }
            }
            Err(Errno::INTR) if !interruptible.is_interrupted() => {}
            Err(_) if done > 0 => return Ok(done),
            Err(Errno::INTR) => return Err(Errno::CANCELED),
            Err(errno) => return Err(errno),
        }
    }
}
