//! One-shot threads: each makes a single call that no thread started earlier may make.
//!
//! A thread inherits the rights of its creator at that moment, including those that the kernel does
//! not report. So the context's own thread starts one for the call, and it ends with the call. At
//! the limit calls queue here, and start when the context next reaps results, if its thread
//! still has the rights that it had when it made the call. As with helpers, calls that end by
//! themselves, calls on each remote file system and calls that may wait without a bound have separate
//! limits (see [`super::lane`]); at that of the last kind, a thread that finds its `open` to wait
//! queues it, and ends.

use super::doorbell::Doorbell;
use super::job::{Cancelled, Job, run, run_by_caller};
use super::lane::{self, Lane};
use super::unanswered::Unanswered;
use crate::rights::FsRoots;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::{Errno, Handle, Limits};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// The one-shot threads of one context and the calls queued for them.
#[derive(Debug)]
pub(crate) struct OneShotThreads {
    shared: Arc<OneShotShared>,
    threads: Vec<Thread>,
    /// The number of calls started or queued, and not yet reaped.
    outstanding: usize,
    /// See [`crate::Options::caller_makes_calls`].
    pub(super) caller_makes_calls: bool,
    /// How many calls the calling thread has made.
    made_by_caller: u64,
    /// This is a child's copy: see [`OneShotThreads::forget_in_child`].
    inherited: bool,
}

type Finished = Vec<(Handle, Result<usize, Errno>)>;

/// A queued call, with the version of the rights (see [`crate::background::rights`]) with which it was
/// handed over.
#[derive(Clone, Copy, Debug)]
struct QueuedCall {
    version: u32,
    /// Root and working directory when the call was queued; `None` before.
    roots: Option<FsRoots>,
    lane: Lane,
    job: Job,
}

/// A call that a thread makes.
#[derive(Debug)]
struct Running {
    handle: Handle,
    lane: Lane,
    since: Instant,
    interruptible: Arc<Interruptible>,
}

/// Where the calls are. Under one lock, so that each is found in one place, and none that ends is
/// missing from all of them while another call depends on its end.
#[derive(Debug, Default)]
struct Calls {
    running: Vec<Running>,
    /// Calls that found the limit reached, oldest first.
    queued: VecDeque<QueuedCall>,
    finished: Finished,
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
    calls: Mutex<Calls>,
    bounds: Bounds,
    /// Whether the context has something to reap.
    any_finished: AtomicBool,
    doorbell: Arc<Doorbell>,
    signal: Option<i32>,
}

impl OneShotThreads {
    /// Starts a thread for a call, or queues the call at the limit. The version is that of the
    /// calling thread's rights.
    ///
    /// # Errors
    /// The error of starting the thread, if no other call is running after which it could be
    /// retried; `EAGAIN` at the limit of unbounded calls, unless calls queue there; `EBUSY` for an
    /// unbounded call that no signal could interrupt.
    pub(crate) fn start(&mut self, lane: Lane, version: u32, job: Job) -> Result<(), Errno> {
        lane::check_interruptible(lane, self.shared.signal)?;
        let shared = self.shared.clone();
        let mut calls = shared.lock();
        let lane = lane.among(calls.devices().into_iter());
        let queued = QueuedCall {
            version,
            roots: None,
            lane,
            job,
        };
        if !shared.has_room(&calls, lane, calls.queued.len()) {
            if lane == Lane::Unbounded && !self.shared.bounds.queue_at_limit {
                return Err(Errno::AGAIN);
            }
            calls.queue(queued);
        } else {
            let (calls, failed) = self.start_or_queue(queued, calls, &shared);
            drop(calls);
            if let Some(errno) = failed {
                let made = self.make_by_caller(&queued).ok_or(errno)?;
                let mut calls = shared.lock();
                calls.finished.push(made);
                shared.report(calls);
            }
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
                calls: Mutex::default(),
                bounds: Bounds {
                    bounded,
                    unbounded: (limits.waiting_helpers as usize).max(bounded),
                    queue_at_limit,
                },
                any_finished: AtomicBool::new(false),
                doorbell,
                signal,
            }),
            threads: Vec::new(),
            outstanding: 0,
            caller_makes_calls: false,
            made_by_caller: 0,
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
        self.outstanding > 0 && !self.shared.lock().queued.is_empty()
    }

    /// Takes the results of finished calls, and starts queued calls. Calls that were handed over with
    /// rights of another version, or with another root or working directory, fail with `EAGAIN`: no thread has these any
    /// more.
    pub(crate) fn reap(&mut self, version: u32) -> Finished {
        if !self.any_finished() {
            return Vec::new();
        }
        let shared = self.shared.clone();
        let mut calls = shared.lock();
        shared.any_finished.store(false, SeqCst);
        let mut finished = std::mem::take(&mut calls.finished);
        // Calls that are queued meanwhile come behind these.
        let mut at = 0;
        let roots = if calls.queued.is_empty() {
            None
        } else {
            FsRoots::of_this_thread()
        };
        for _ in 0..calls.queued.len() {
            let queued = calls.queued[at];
            let handle = queued.job.handle;
            if queued.version != version || queued.roots != roots {
                calls.queued.remove(at);
                finished.push((handle, Err(Errno::AGAIN)));
            } else if shared.has_room(&calls, queued.lane, at) {
                calls.queued.remove(at);
                let failed;
                (calls, failed) = self.start_or_queue(queued, calls, &shared);
                if let Some(errno) = failed {
                    drop(calls);
                    let made = self.make_by_caller(&queued);
                    finished.push(made.unwrap_or((handle, Err(errno))));
                    calls = shared.lock();
                }
            } else {
                at += 1;
            }
        }
        drop(calls);
        self.outstanding -= finished.len();
        finished
    }

    /// Makes a call on the calling thread, for which no other one can be started, if that is allowed.
    fn make_by_caller(&mut self, call: &QueuedCall) -> Option<(Handle, Result<usize, Errno>)> {
        let allowed = self.caller_makes_calls && call.lane == Lane::Bounded;
        let result = allowed.then(|| run_by_caller(&call.job)).flatten()?;
        self.made_by_caller += 1;
        Some((call.job.handle, result))
    }

    /// How many calls the calling thread has made, because no thread could be started.
    pub(crate) fn made_by_caller(&self) -> u64 {
        self.made_by_caller
    }

    /// Cancels a call; `None` if it is not here.
    pub(crate) fn cancel(&mut self, handle: Handle) -> Option<Cancelled> {
        let mut calls = self.shared.lock();
        let mut queued = calls.queued.iter();
        if let Some(at) = queued.position(|queued| queued.job.handle == handle) {
            calls.queued.remove(at);
            self.outstanding -= 1;
            return Some(Cancelled::Removed);
        }
        let mut running = calls.running.iter();
        let found = running.find(|running| running.handle == handle);
        if let Some(running) = found
            && let Ok(signal) = Signal::install(self.shared.signal)
        {
            // Under the lock: the thread cannot end meanwhile.
            return Some(Cancelled::running(running.interruptible.interrupt(signal)));
        }
        let finished = || calls.finished.iter().any(|(of, _)| *of == handle);
        (found.is_some() || finished()).then_some(Cancelled::Running)
    }

    /// The number of live threads.
    pub(crate) fn threads(&self) -> usize {
        self.shared.lock().running.len()
    }

    /// What remote file systems have not answered.
    pub(crate) fn unanswered(&self) -> Unanswered {
        let calls = self.shared.lock();
        let running = calls
            .running
            .iter()
            .filter_map(|one| Some((one.lane.device()?, 1, Some(one.since))));
        let queued = calls.queued.iter();
        let queued = queued.filter_map(|one| Some((one.lane.device()?, 1, None)));
        Unanswered::from_mounts(running.chain(queued))
    }

    /// In a forked child: forgets the threads, which are the parent's; one of them may hold a lock.
    pub(crate) fn forget_in_child(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        self.inherited = true;
    }

    /// Starts a thread for a call. If that fails, the call is queued while another call of its lane
    /// is running or not reaped: the start is repeated when that one is reaped. Else returns the
    /// error.
    fn start_or_queue<'a>(
        &mut self,
        call: QueuedCall,
        calls: MutexGuard<'a, Calls>,
        shared: &'a OneShotShared,
    ) -> (MutexGuard<'a, Calls>, Option<Errno>) {
        let started = self.spawn(call, calls);
        let mut calls = shared.lock();
        let Err(errno) = started else {
            return (calls, None);
        };
        let comes = calls.count(call.lane) > 0 || !calls.finished.is_empty();
        if !comes {
            return (calls, Some(errno));
        }
        calls.queue(call);
        (calls, None)
    }

    /// Starts a thread for a call, which is listed before the lock is released: it counts at once.
    fn spawn(&mut self, call: QueuedCall, mut calls: MutexGuard<'_, Calls>) -> Result<(), Errno> {
        let QueuedCall { lane, job, .. } = call;
        self.threads.retain(|thread| !thread.is_finished());
        let signal = Signal::install(self.shared.signal).ok();
        let interruptible = Arc::new(Interruptible::default());
        calls.running.push(Running {
            handle: job.handle,
            lane,
            since: Instant::now(),
            interruptible: interruptible.clone(),
        });
        drop(calls);
        let (shared, own) = (self.shared.clone(), interruptible.clone());
        let started = Thread::start(c"laio-one-shot", move || {
            own.adopt_thread(signal);
            shared.serve(call, &own);
            own.release_thread();
        });
        match started {
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
}

impl Drop for OneShotThreads {
    fn drop(&mut self) {
        if self.inherited {
            return;
        }
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}

impl OneShotShared {
    /// Makes the call and reports its result.
    fn serve(&self, call: QueuedCall, interruptible: &Arc<Interruptible>) {
        let QueuedCall { lane, job, .. } = call;
        let waits = lane != Lane::Unbounded && lane::opens_blocking_file(&job, interruptible);
        if waits && !self.move_to_unbounded(&call, interruptible) {
            return;
        }
        let result = run(&job, interruptible);
        job.publish_status(result);
        let mut calls = self.lock();
        // From here on no cancellation finds this thread.
        calls.leave(interruptible);
        calls.finished.push((job.handle, result));
        self.report(calls);
    }

    /// Moves the thread's call to the unbounded lane, so that another bounded call may begin.
    /// Returns false at the limit of unbounded calls: the call is queued there, or has failed with
    /// `EAGAIN`; and without a signal that could interrupt it: the call has failed with `EBUSY`.
    fn move_to_unbounded(&self, call: &QueuedCall, interruptible: &Arc<Interruptible>) -> bool {
        let mut calls = self.lock();
        // A cancelled call ends at once, and no cancellation would find it in the queue.
        let has_room = self.has_room(&calls, Lane::Unbounded, calls.queued.len());
        let lane = Lane::Unbounded;
        let interruption = lane::check_interruptible(lane, self.signal);
        let goes_on = interruption.is_ok() && has_room || interruptible.is_interrupted();
        if goes_on {
            calls.of(interruptible).lane = lane;
        } else {
            calls.leave(interruptible);
            if interruption.is_ok() && self.bounds.queue_at_limit {
                calls.queue(QueuedCall { lane, ..*call });
            } else {
                let failed = Err(interruption.err().unwrap_or(Errno::AGAIN));
                call.job.publish_status(failed);
                calls.finished.push((call.job.handle, failed));
            }
        }
        // Only the context's own thread may start queued calls.
        self.report(calls);
        goes_on
    }

    /// Makes the context reap what was changed under the lock.
    fn report(&self, calls: MutexGuard<'_, Calls>) {
        self.any_finished.store(true, SeqCst);
        drop(calls);
        self.doorbell.ring();
    }

    /// Whether a further call of this lane may run now. It does not pass those of the lane among the
    /// `first` ones in the queue.
    fn has_room(&self, calls: &Calls, lane: Lane, first: usize) -> bool {
        let limit = match lane {
            Lane::Bounded | Lane::Remote(_) => self.bounds.bounded,
            Lane::Unbounded => self.bounds.unbounded,
        };
        let mut ahead = calls.queued.iter().take(first);
        calls.count(lane) < limit && ahead.all(|queued| queued.lane != lane)
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        // Under the lock, code panics only where an invariant is broken (`expect`). Counts may then
        // be wrong, but the data can still be used and dropped.
        self.calls
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Calls {
    /// Queues a call. The thread that does so made the call, or was started for it by that thread.
    fn queue(&mut self, call: QueuedCall) {
        let roots = FsRoots::of_this_thread();
        self.queued.push_back(QueuedCall { roots, ..call });
    }

    /// The device numbers of the remote file systems with calls.
    fn devices(&self) -> Vec<u64> {
        let running = self.running.iter().map(|one| one.lane);
        let lanes = running.chain(self.queued.iter().map(|one| one.lane));
        let mut devices: Vec<u64> = lanes.filter_map(Lane::device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The number of running calls of this lane.
    fn count(&self, lane: Lane) -> usize {
        self.running.iter().filter(|one| one.lane == lane).count()
    }

    fn of(&mut self, interruptible: &Arc<Interruptible>) -> &mut Running {
        let mut running = self.running.iter_mut();
        let own = running.find(|one| Arc::ptr_eq(&one.interruptible, interruptible));
        own.expect("a thread is listed while it serves")
    }

    fn leave(&mut self, interruptible: &Arc<Interruptible>) {
        self.running
            .retain(|other| !Arc::ptr_eq(&other.interruptible, interruptible));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, table};
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
    use std::ffi::CString;
    use std::os::fd::{FromRawFd, OwnedFd};

    fn job(number: u64, call: Call) -> Job {
        Job {
            handle: Handle::from_raw(number).expect("not 0"),
            ..Job::new(table::row(call.number), call)
        }
    }

    /// The last running call may end at any moment while another one starts.
    #[test]
    fn a_call_that_ends_makes_no_other_fail() {
        const CALLS: usize = 3000;
        let limits = Limits {
            helpers: 1,
            ..Limits::default()
        };
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let mut threads = OneShotThreads::new(doorbell, &limits, false, None);
        let mut results = Vec::new();
        for number in 1..=CALLS {
            let job = job(number as u64, Call::new(libc::SYS_getppid, []));
            threads.start(Lane::Bounded, 0, job).unwrap();
            results.append(&mut threads.reap(0));
        }
        while threads.outstanding() > 0 {
            results.append(&mut next(&mut threads));
        }
        assert_eq!(results.len(), CALLS);
        assert!(results.iter().all(|(_, result)| result.is_ok()));
    }
    fn next(threads: &mut OneShotThreads) -> Finished {
        loop {
            let results = threads.reap(0);
            if !results.is_empty() || threads.outstanding() == 0 {
                return results;
            }
            std::thread::yield_now();
        }
    }

    /// One open that a thread finds to wait is queued behind another, where it can be cancelled.
    #[test]
    fn an_open_of_a_fifo_begins_when_another_one_ends() {
        let limits = Limits {
            helpers: 1,
            waiting_helpers: 1,
            ..Limits::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("fifo");
        mknodat(CWD, &name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let text = CString::new(name.as_os_str().as_encoded_bytes()).unwrap();
        let flags = libc::O_WRONLY | libc::O_CLOEXEC;
        let here = libc::AT_FDCWD as usize;
        let args = [here, text.as_ptr() as usize, flags as usize, 0];
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let mut threads = OneShotThreads::new(doorbell, &limits, true, None);
        for number in 1..=3 {
            let job = job(number, Call::new(libc::SYS_openat, args));
            threads.start(Lane::Bounded, 0, job).unwrap();
        }
        // All three were found to wait.
        let waits = |threads: &OneShotThreads| {
            let calls = threads.shared.lock();
            let queued = calls.queued.iter();
            let unbounded = queued.filter(|one| one.lane == Lane::Unbounded).count();
            calls.count(Lane::Unbounded) + unbounded == 3
        };
        while !waits(&threads) {
            assert_eq!(threads.reap(0), []);
            std::thread::yield_now();
        }
        let handle = |number: u64| Handle::from_raw(number).expect("not 0");
        assert_eq!(threads.cancel(handle(2)), Some(Cancelled::Removed));
        assert_eq!(threads.cancel(handle(1)), Some(Cancelled::Running));
        assert_eq!(next(&mut threads), [(handle(1), Err(Errno::CANCELED))]);
        let reader = open(&name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let [(last, Ok(writer))] = next(&mut threads)[..] else {
            panic!("the last one opens the FIFO");
        };
        assert_eq!(last, handle(3));
        // SAFETY: nothing else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(writer as i32) });
        drop(reader);
    }
}
