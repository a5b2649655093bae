//! Helper threads: they make the calls that nothing else can take to the background.
//!
//! A pool belongs to one context. Its threads are started by the context's own thread, so they inherit
//! its credentials, namespaces and filters; when those change, the pool is renewed. All signals are
//! blocked in helpers but the one that interrupts a cancelled call.

use super::doorbell::Doorbell;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::mask::SignalsBlocked;
use crate::table::Row;
use crate::transfer;
use crate::watched::Watched;
use crate::{Call, Errno, Handle, Limits};
use std::collections::VecDeque;
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
    /// Whether a short read may be continued (see [`transfer::goes_on`]).
    pub(crate) regular: bool,
    /// What is to be told of the result at once, and the bytes moved before this job.
    pub(crate) watched: Option<(Watched, usize)>,
    /// Injected bound of one step; 0 for none.
    pub(crate) short: usize,
}

impl Job {
    /// Tells who watches, but not of a cancellation: the context knows what it came from.
    pub(super) fn tell(&self, result: Result<usize, Errno>) {
        match (self.watched, result) {
            (None, _) | (_, Err(Errno::CANCELED)) => {}
            (Some((watched, before)), Ok(moved)) => watched.publish(Ok(before + moved)),
            (Some((watched, 0)), error) => watched.publish(error),
            (Some((watched, before)), Err(_)) => watched.publish(Ok(before)),
        }
    }
}

/// What became of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// The job had not begun and never will.
    Removed,
    /// The job is running or over: its result will come.
    Running,
}

/// The pool of one context.
#[derive(Debug)]
pub(crate) struct Helpers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    limit: usize,
    signal: Option<i32>,
    /// Jobs started and not yet collected.
    outstanding: usize,
    /// This is a child's copy: see [`Helpers::forget_in_child`].
    inherited: bool,
}

#[derive(Debug)]
struct Shared {
    pool: Mutex<Pool>,
    work: Condvar,
    finished: Mutex<Vec<(Handle, Result<usize, Errno>)>>,
    any_finished: AtomicBool,
    doorbell: Arc<Doorbell>,
}

#[derive(Debug, Default)]
struct Pool {
    queue: VecDeque<(u32, Job)>,
    workers: Vec<Worker>,
    /// Workers of the present epoch that sleep.
    idle: usize,
    /// Grows when the thread's identity changes; a worker serves the jobs of its own epoch only.
    epoch: u32,
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
    pub(crate) fn new(doorbell: Arc<Doorbell>, limits: &Limits, signal: Option<i32>) -> Helpers {
        Helpers {
            shared: Arc::new(Shared {
                pool: Mutex::default(),
                work: Condvar::new(),
                finished: Mutex::default(),
                any_finished: AtomicBool::new(false),
                doorbell,
            }),
            threads: Vec::new(),
            limit: (limits.helpers as usize).max(1),
            signal,
            outstanding: 0,
            inherited: false,
        }
    }

    /// Hands a job over. Fails if there is no thread to do it and none can be started.
    pub(crate) fn start(&mut self, job: Job) -> Result<(), Errno> {
        let mut pool = self.shared.lock();
        // Each queued job is already promised to one sleeper: wake no more workers than there is work.
        let spare = pool.idle > pool.queue.len();
        let epoch = pool.epoch;
        pool.queue.push_back((epoch, job));
        if spare {
            self.shared.work.notify_one();
        } else if pool.present() < self.limit {
            drop(pool);
            self.spawn(epoch)?;
        }
        self.outstanding += 1;
        Ok(())
    }

    /// Jobs whose results have not been collected.
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
        let finished = std::mem::take(&mut *self.shared.finished.lock().unwrap());
        self.outstanding -= finished.len();
        finished
    }

    /// Stops a job: one that has not begun is removed, a running call is interrupted.
    pub(crate) fn cancel(&mut self, handle: Handle) -> Cancelled {
        let mut pool = self.shared.lock();
        if let Some(at) = pool.queue.iter().position(|(_, job)| job.handle == handle) {
            pool.queue.remove(at);
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

    /// The calling thread's credentials or namespaces have changed: later jobs need threads that
    /// inherit the new ones. Jobs already handed over keep the old ones.
    pub(crate) fn renew(&mut self) {
        let mut pool = self.shared.lock();
        pool.epoch += 1;
        pool.idle = 0;
        self.shared.work.notify_all();
    }

    /// In a forked child: the threads are the parent's, and a lock may be held by one of them.
    pub(crate) fn forget_in_child(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        self.inherited = true;
    }

    /// Threads alive.
    pub(crate) fn threads(&self) -> usize {
        self.shared.lock().workers.len()
    }

    /// The kernel's number of a thread that serves new jobs: `None` if there is no such thread, 0 if none of them
    /// has begun.
    pub(crate) fn witness(&self) -> Option<u32> {
        let pool = self.shared.lock();
        let present = pool.workers.iter().filter(|one| one.epoch == pool.epoch);
        present.map(|one| one.interruptible.thread()).max()
    }

    /// Starts a worker for the job just queued. Without one the job stays for the other workers; if
    /// there are none it is taken back and the start fails.
    fn spawn(&mut self, epoch: u32) -> Result<(), Errno> {
        self.threads.retain(|thread| !thread.is_finished());
        let interruptible = Arc::new(Interruptible::default());
        let worker = Worker {
            epoch,
            current: None,
            interruptible: interruptible.clone(),
        };
        self.shared.lock().workers.push(worker);
        match self.spawn_thread(epoch, interruptible.clone()) {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(errno) => {
                let mut pool = self.shared.lock();
                pool.leave(&interruptible);
                if pool.present() > 0 {
                    return Ok(());
                }
                pool.queue.pop_back();
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        // No code that can panic runs under the lock; a poisoned lock still guards consistent data.
        self.pool
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The life of a helper.
    fn serve(&self, interruptible: &Arc<Interruptible>, epoch: u32) {
        while let Some(job) = self.next_job(interruptible, epoch) {
            let result = run(&job, interruptible);
            job.tell(result);
            let mut pool = self.lock();
            pool.worker(interruptible).current = None;
            // Still under the lock, so that no cancellation of this job can come any more.
            interruptible.rearm();
            drop(pool);
            self.finished.lock().unwrap().push((job.handle, result));
            self.any_finished.store(true, SeqCst);
            self.doorbell.ring();
        }
    }

    /// Waits for a job of this epoch. `None`: the worker is no longer needed and has left the pool.
    fn next_job(&self, interruptible: &Arc<Interruptible>, epoch: u32) -> Option<Job> {
        let mut pool = self.lock();
        let mut timed_out = false;
        loop {
            if let Some(at) = pool.queue.iter().position(|(of, _)| *of == epoch) {
                let (_, job) = pool.queue.remove(at).expect("just found");
                pool.worker(interruptible).current = Some(job.handle);
                return Some(job);
            }
            if pool.closing || pool.epoch != epoch || timed_out {
                pool.leave(interruptible);
                return None;
            }
            pool.idle += 1;
            let idle_time = Duration::from_millis(Limits::HELPER_IDLE_MS);
            let waited = self.work.wait_timeout(pool, idle_time);
            let (guard, wait) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            pool = guard;
            timed_out = wait.timed_out();
            // A new epoch begins with nobody idle.
            if pool.epoch == epoch {
                pool.idle -= 1;
            }
        }
    }
}

impl Pool {
    /// Workers that serve new jobs.
    fn present(&self) -> usize {
        self.workers
            .iter()
            .filter(|worker| worker.epoch == self.epoch)
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

/// Makes the call until it is whole, and stops when interrupted.
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
            Ok(moved) => {
                done += moved;
                // The kernel itself goes on until a blocking transfer is whole; only an injected bound
                // makes a step end early.
                let bounded = job.short > 0 && moved == job.short;
                // SAFETY: the kernel has just accepted the pointers.
                let wanted = unsafe { transfer::wanted(job.row, &job.call) };
                let more = bounded && wanted.is_some_and(|wanted| done < wanted);
                if !(more && transfer::goes_on(job.row, &job.call, job.regular)) {
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
