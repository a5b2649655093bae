//! Threads that make one call each: for calls that no thread started earlier may make.
//!
//! A thread inherits what its creator may do at that moment, also what the kernel does not show. So the context's own
//! thread starts one for the call, and it ends with the call. At the limit calls wait here, and start when the
//! context next collects results, if its thread still has the rights that it had when it made the call.

use super::doorbell::Doorbell;
use super::helpers::{Cancelled, Job, run};
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::mask::SignalsBlocked;
use crate::{Errno, Handle, Limits};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// The calls of one context that have a thread to themselves.
#[derive(Debug)]
pub(crate) struct Alone {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Calls that found the limit reached, oldest first, each with the epoch of the rights that it was made with.
    waiting: VecDeque<(u32, Job)>,
    limit: usize,
    signal: Option<i32>,
    /// Calls started or waiting, and not yet collected.
    outstanding: usize,
    /// This is a child's copy: see [`Alone::forget_in_child`].
    inherited: bool,
}

type Finished = Vec<(Handle, Result<usize, Errno>)>;

#[derive(Debug)]
struct Shared {
    running: Mutex<Vec<(Handle, Arc<Interruptible>)>>,
    finished: Mutex<Finished>,
    any_finished: AtomicBool,
    doorbell: Arc<Doorbell>,
}

impl Alone {
    /// Starts a thread for a call, or puts the call in line where the limit is reached. The epoch is that of the
    /// calling thread's rights.
    ///
    /// # Errors
    /// What keeps the thread from being started, if no other is running after which it could be tried again.
    pub(crate) fn start(&mut self, epoch: u32, job: Job) -> Result<(), Errno> {
        if self.threads() >= self.limit {
            self.waiting.push_back((epoch, job));
        } else if let Err(errno) = self.spawn(job) {
            if self.threads() == 0 {
                return Err(errno);
            }
            self.waiting.push_back((epoch, job));
        }
        self.outstanding += 1;
        Ok(())
    }

    pub(crate) fn new(doorbell: Arc<Doorbell>, limits: &Limits, signal: Option<i32>) -> Alone {
        Alone {
            shared: Arc::new(Shared {
                running: Mutex::default(),
                finished: Mutex::default(),
                any_finished: AtomicBool::new(false),
                doorbell,
            }),
            threads: Vec::new(),
            waiting: VecDeque::new(),
            limit: (limits.helpers as usize).max(1),
            signal,
            outstanding: 0,
            inherited: false,
        }
    }

    /// Calls whose results have not been collected.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether results wait to be collected.
    #[inline]
    pub(crate) fn any_finished(&self) -> bool {
        self.outstanding > 0 && self.shared.any_finished.load(SeqCst)
    }

    /// Whether calls wait for room, so that [`Alone::collect`] would start some.
    pub(crate) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the results of finished calls, and starts calls that waited for room. Those that were made with rights of
    /// another epoch than this fail with `EAGAIN`: no thread has these rights any more.
    pub(crate) fn collect(&mut self, epoch: u32) -> Finished {
        if !self.any_finished() {
            return Vec::new();
        }
        self.shared.any_finished.store(false, SeqCst);
        let mut finished = std::mem::take(&mut *self.shared.finished.lock().unwrap());
        while self.threads() < self.limit
            && let Some((of, job)) = self.waiting.pop_front()
        {
            let started = match of == epoch {
                true => self.spawn(job),
                false => Err(Errno::AGAIN),
            };
            match started {
                Ok(()) => {}
                Err(_) if of == epoch && self.threads() > 0 => {
                    self.waiting.push_front((of, job));
                    break;
                }
                Err(errno) => finished.push((job.handle, Err(errno))),
            }
        }
        self.outstanding -= finished.len();
        finished
    }

    /// Stops a call; `None` if it is not here.
    pub(crate) fn cancel(&mut self, handle: Handle) -> Option<Cancelled> {
        if let Some(at) = self
            .waiting
            .iter()
            .position(|(_, job)| job.handle == handle)
        {
            self.waiting.remove(at);
            self.outstanding -= 1;
            return Some(Cancelled::Removed);
        }
        let running = self.shared.lock();
        let found = running.iter().find(|(of, _)| *of == handle);
        if let Some((_, interruptible)) = found
            && let Ok(signal) = Signal::install(self.signal)
        {
            // Under the lock: the thread cannot end meanwhile.
            interruptible.interrupt(signal);
        }
        found.map(|_| Cancelled::Running)
    }

    /// Threads alive.
    pub(crate) fn threads(&self) -> usize {
        self.shared.lock().len()
    }

    /// In a forked child: the threads are the parent's, and one of them may hold a lock.
    pub(crate) fn forget_in_child(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        self.inherited = true;
    }

    fn spawn(&mut self, job: Job) -> Result<(), Errno> {
        self.threads.retain(|thread| !thread.is_finished());
        let signal = Signal::install(self.signal)?;
        let interruptible = Arc::new(Interruptible::default());
        self.shared.lock().push((job.handle, interruptible.clone()));
        let builder = std::thread::Builder::new()
            .name("laio-alone".to_owned())
            .stack_size(Limits::HELPER_STACK);
        let started = {
            let (shared, interruptible) = (self.shared.clone(), interruptible.clone());
            // The thread inherits this mask: no signal of the application may ever be handled there.
            let _blocked = SignalsBlocked::new();
            builder.spawn(move || {
                interruptible.adopt_thread(signal);
                shared.serve(&job, &interruptible);
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

impl Drop for Alone {
    fn drop(&mut self) {
        if self.inherited {
            return;
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Makes the call and reports its result.
    fn serve(&self, job: &Job, interruptible: &Arc<Interruptible>) {
        let result = run(job, interruptible);
        job.tell(result);
        // From here on no cancellation finds this thread.
        self.leave(interruptible);
        let finished = self.finished.lock();
        finished
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push((job.handle, result));
        self.any_finished.store(true, SeqCst);
        self.doorbell.ring();
    }

    fn leave(&self, interruptible: &Arc<Interruptible>) {
        self.lock()
            .retain(|(_, other)| !Arc::ptr_eq(other, interruptible));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Handle, Arc<Interruptible>)>> {
        // No code that can panic runs under the lock; a poisoned lock still guards consistent data.
        self.running
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
