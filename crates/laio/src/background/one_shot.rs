//! One-shot threads: each makes a single call that no thread started earlier may make.
//!
//! A thread inherits the rights of its creator at that moment, including those that the kernel does
//! not report. So the context's own thread starts one for the call, and it ends with the call. At
//! the limit calls queue here, and start when the context next reaps results, if its thread
//! still has the rights that it had when it made the call. As with helpers, calls that end by
//! themselves and calls that may wait without a bound have separate limits (see [`super::lane`]).

use super::doorbell::Doorbell;
use super::helpers::{Cancelled, Job, run};
use super::lane::{self, Lane};
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::mask::SignalsBlocked;
use crate::{Errno, Handle, Limits};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// The one-shot threads of one context and the calls queued for them.
#[derive(Debug)]
pub(crate) struct OneShotThreads {
    shared: Arc<OneShotShared>,
    threads: Vec<JoinHandle<()>>,
    /// Calls that found the limit reached, oldest first.
    queued: VecDeque<QueuedCall>,
    signal: Option<i32>,
    /// The number of calls started or queued, and not yet reaped.
    outstanding: usize,
    /// This is a child's copy: see [`OneShotThreads::forget_in_child`].
    inherited: bool,
}

type Finished = Vec<(Handle, Result<usize, Errno>)>;

/// A queued call, with the version of the rights (see [`crate::background::rights`]) with which it was
/// dispatched.
#[derive(Debug)]
struct QueuedCall {
    version: u32,
    lane: Lane,
    job: Job,
}

/// A call that a thread makes.
#[derive(Debug)]
struct Running {
    handle: Handle,
    lane: Lane,
    interruptible: Arc<Interruptible>,
}

/// The number of calls of each lane that may run at a time.
#[derive(Debug)]
struct Bounds {
    bounded: usize,
    unbounded: usize,
    /// At the limit of waiting calls, further ones queue rather than fail.
    queue_at_limit: bool,
}

#[derive(Debug)]
struct OneShotShared {
    running: Mutex<Vec<Running>>,
    bounds: Bounds,
    finished: Mutex<Finished>,
    any_finished: AtomicBool,
    doorbell: Arc<Doorbell>,
}

impl OneShotThreads {
    /// Starts a thread for a call, or queues the call at the limit. The version is that of the
    /// calling thread's rights.
    ///
    /// # Errors
    /// The error of starting the thread, if no other call is running after which it could be
    /// retried; `EAGAIN` at the limit of unbounded calls, unless calls queue there.
    pub(crate) fn start(&mut self, lane: Lane, version: u32, job: Job) -> Result<(), Errno> {
        let capacity = self.shared.capacity(lane);
        if capacity == 0 && lane == Lane::Unbounded && !self.shared.bounds.queue_at_limit {
            return Err(Errno::AGAIN);
        }
        let started = match capacity {
            0 => Err(Errno::AGAIN),
            _ => self.spawn(lane, job),
        };
        if let Err(errno) = started {
            if self.shared.running(lane) == 0 {
                return Err(errno);
            }
            self.queued.push_back(QueuedCall { version, lane, job });
        }
        self.outstanding += 1;
        Ok(())
    }

    pub(crate) fn new(
        doorbell: Arc<Doorbell>,
        limits: &Limits,
        queue_at_limit: bool,
        signal: Option<i32>,
    ) -> OneShotThreads {
        let bounded = (limits.helpers as usize).max(1);
        OneShotThreads {
            shared: Arc::new(OneShotShared {
                running: Mutex::default(),
                bounds: Bounds {
                    bounded,
                    unbounded: (limits.waiting_helpers as usize).max(bounded),
                    queue_at_limit,
                },
                finished: Mutex::default(),
                any_finished: AtomicBool::new(false),
                doorbell,
            }),
            threads: Vec::new(),
            queued: VecDeque::new(),
            signal,
            outstanding: 0,
            inherited: false,
        }
    }

    /// The number of calls whose results have not been reaped.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether results wait to be reaped.
    #[inline]
    pub(crate) fn any_finished(&self) -> bool {
        self.outstanding > 0 && self.shared.any_finished.load(SeqCst)
    }

    /// Whether calls are queued, so that [`OneShotThreads::reap`] would start some.
    pub(crate) fn any_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Takes the results of finished calls, and starts queued calls. Those that were dispatched with
    /// rights of another version fail with `EAGAIN`: no thread has these rights any more.
    pub(crate) fn reap(&mut self, version: u32) -> Finished {
        if !self.any_finished() {
            return Vec::new();
        }
        self.shared.any_finished.store(false, SeqCst);
        let mut finished = std::mem::take(&mut *self.shared.finished.lock().unwrap());
        for queued in std::mem::take(&mut self.queued) {
            let QueuedCall { lane, job, .. } = queued;
            let current = queued.version == version;
            let started = match current && self.shared.capacity(lane) > 0 {
                true => self.spawn(lane, job),
                false => Err(Errno::AGAIN),
            };
            match started {
                Ok(()) => {}
                Err(_) if current && self.shared.running(lane) > 0 => {
                    self.queued.push_back(queued);
                }
                Err(errno) => finished.push((job.handle, Err(errno))),
            }
        }
        self.outstanding -= finished.len();
        finished
    }

    /// Cancels a call; `None` if it is not here.
    pub(crate) fn cancel(&mut self, handle: Handle) -> Option<Cancelled> {
        if let Some(at) = self
            .queued
            .iter()
            .position(|queued| queued.job.handle == handle)
        {
            self.queued.remove(at);
            self.outstanding -= 1;
            return Some(Cancelled::Removed);
        }
        let running = self.shared.lock();
        let found = running.iter().find(|running| running.handle == handle);
        if let Some(running) = found
            && let Ok(signal) = Signal::install(self.signal)
        {
            // Under the lock: the thread cannot end meanwhile.
            running.interruptible.interrupt(signal);
        }
        found.map(|_| Cancelled::Running)
    }

    /// The number of live threads.
    pub(crate) fn threads(&self) -> usize {
        self.shared.lock().len()
    }

    /// In a forked child: forgets the threads, which are the parent's; one of them may hold a lock.
    pub(crate) fn forget_in_child(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        self.inherited = true;
    }

    fn spawn(&mut self, lane: Lane, job: Job) -> Result<(), Errno> {
        self.threads.retain(|thread| !thread.is_finished());
        let signal = Signal::install(self.signal)?;
        let interruptible = Arc::new(Interruptible::default());
        self.shared.lock().push(Running {
            handle: job.handle,
            lane,
            interruptible: interruptible.clone(),
        });
        let builder = std::thread::Builder::new()
            .name("laio-one-shot".to_owned())
            .stack_size(Limits::HELPER_STACK);
        let started = {
            let (shared, interruptible) = (self.shared.clone(), interruptible.clone());
            // The thread inherits this mask: no signal of the application may ever be handled there.
            let _blocked = SignalsBlocked::new();
            builder.spawn(move || {
                interruptible.adopt_thread(signal);
                shared.serve(lane, &job, &interruptible);
                interruptible.release_thread();
            })
        };
        match started {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.shared.leave(&interruptible);
                Err(error.into())
            }
        }
    }
}

impl Drop for OneShotThreads {
    fn drop(&mut self) {
        if self.inherited {
            return;
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl OneShotShared {
    /// Makes the call and reports its result.
    fn serve(&self, lane: Lane, job: &Job, interruptible: &Arc<Interruptible>) {
        let waits = lane == Lane::Bounded && lane::opens_blocking_file(job, interruptible);
        let result = match waits {
            true => self.move_to_unbounded(interruptible),
            false => Ok(()),
        };
        let result = result.and_then(|()| run(job, interruptible));
        job.publish_status(result);
        // From here on no cancellation finds this thread.
        self.leave(interruptible);
        let finished = self.finished.lock();
        finished
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push((job.handle, result));
        self.any_finished.store(true, SeqCst);
        self.doorbell.ring();
    }

    /// Moves the thread's call to the unbounded lane, so that another bounded call may begin.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of unbounded calls, even if calls queue there: this one runs already.
    fn move_to_unbounded(&self, interruptible: &Arc<Interruptible>) -> Result<(), Errno> {
        let mut running = self.lock();
        if self.capacity_among(&running, Lane::Unbounded) == 0 {
            return Err(Errno::AGAIN);
        }
        let own = running
            .iter_mut()
            .find(|running| Arc::ptr_eq(&running.interruptible, interruptible));
        own.expect("a thread is listed while it serves").lane = Lane::Unbounded;
        drop(running);
        // Only the context's own thread may start queued calls.
        self.any_finished.store(true, SeqCst);
        self.doorbell.ring();
        Ok(())
    }

    /// The number of further calls of this lane that may run.
    fn capacity(&self, lane: Lane) -> usize {
        self.capacity_among(&self.lock(), lane)
    }

    fn capacity_among(&self, running: &[Running], lane: Lane) -> usize {
        let limit = match lane {
            Lane::Bounded => self.bounds.bounded,
            Lane::Unbounded => self.bounds.unbounded,
        };
        limit.saturating_sub(running.iter().filter(|one| one.lane == lane).count())
    }

    /// The number of running calls of this lane.
    fn running(&self, lane: Lane) -> usize {
        self.lock().iter().filter(|one| one.lane == lane).count()
    }

    fn leave(&self, interruptible: &Arc<Interruptible>) {
        self.lock()
            .retain(|other| !Arc::ptr_eq(&other.interruptible, interruptible));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Running>> {
        // Under the lock, code panics only where an invariant is broken (`expect`). Counts may then
        // be wrong, but the data can still be used and dropped.
        self.running
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
