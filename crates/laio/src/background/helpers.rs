//! Helper threads, which make the calls that no other part of the back end can take.
//!
//! A pool belongs to one context. The context's own thread starts the helpers, so they inherit its
//! credentials, namespaces and filters; when those change, new helpers replace them. Helpers block
//! all signals except the one that interrupts a cancelled call. [`super::lane`] limits how many
//! helpers each kind of call may use.
//!
//! A helper without a job looks for the next one before it sleeps ([`crate::pool::patience`]); one helper
//! of a pool at a time does so. Brief jobs ([`Job::is_brief`]) that are queued together share a
//! helper, because waking another one takes longer than the calls. Loads do so too ([`loads`]).

mod loads;
mod pool;
mod start;

use super::doorbell::Doorbell;
use super::job::{Cancelled, Job, run};
use super::lane::{self, Lane, Lanes};
use super::unanswered::Unanswered;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::{Errno, Handle, Limits};
use pool::{Announcement, Pool, Spinner};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The pool of one context.
#[derive(Debug)]
pub(crate) struct Helpers {
    shared: Arc<HelperShared>,
    threads: Vec<Thread>,
    /// Jobs started and not yet reaped.
    outstanding: usize,
    /// See [`Limits::spin_us`]; 0 on a single processor.
    spin_us: u32,
    /// How often a helper was started or woken.
    wakeups: u64,
    /// See [`crate::Options::caller_makes_calls`].
    pub(super) caller_makes_calls: bool,
    /// How many calls the calling thread has made.
    made_by_caller: u64,
    /// Whether brief jobs were queued for a helper that has others before them.
    shares_helper: bool,
    /// [`Pool::begun`] when [`Helpers::help_shared`] last found it changed, and when that was;
    /// `None` before the first look.
    progress: Option<(u64, Instant)>,
    /// When a result was last reaped or a job queued: since then helpers could be idle.
    active_at: Instant,
    /// See [`Pool::gap`].
    gap: Duration,
    /// This is a child's copy: see [`Helpers::forget_in_child`].
    inherited: bool,
}

#[derive(Debug)]
struct HelperShared {
    pool: Mutex<Pool>,
    work: Condvar,
    /// Changes with everything that a spinning helper looks for.
    posted: AtomicU32,
    /// How long the call took whose result came last.
    last_call_ns: AtomicU64,
    finished: Mutex<Vec<(Handle, Result<usize, Errno>)>>,
    any_finished: AtomicBool,
    /// Whether a helper's call turned out to wait, so that more helpers are needed for the queued
    /// jobs.
    short_of_helpers: AtomicBool,
    doorbell: Arc<Doorbell>,
    signal: Option<i32>,
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
                pool: Mutex::new(Pool::new(
                    Lanes::new(limits, queue_at_limit),
                    limits.spin_us,
                )),
                work: Condvar::new(),
                posted: AtomicU32::new(0),
                last_call_ns: AtomicU64::new(u64::MAX),
                finished: Mutex::default(),
                any_finished: AtomicBool::new(false),
                short_of_helpers: AtomicBool::new(false),
                doorbell,
                signal,
            }),
            threads: Vec::new(),
            outstanding: 0,
            // Whether there are other processors is asked before the first helper needs it.
            spin_us: limits.spin_us,
            wakeups: 0,
            caller_makes_calls: false,
            made_by_caller: 0,
            shares_helper: false,
            progress: None,
            active_at: Instant::now(),
            gap: Duration::MAX,
            inherited: false,
        }
    }

    /// How long brief jobs may share a helper that makes no progress.
    pub(crate) const SHARED_AT_MOST: Duration = Duration::from_millis(1);

    /// Queues a job.
    ///
    /// # Errors
    /// The error of starting a thread, if there is none to do the job; `EAGAIN` at the limit of
    /// unbounded calls, unless calls queue there; `EBUSY` for an unbounded call that no signal could
    /// interrupt.
    pub(crate) fn start(&mut self, lane: Lane, job: Job) -> Result<(), Errno> {
        lane::check_interruptible(lane, self.shared.signal)?;
        let (handle, is_brief) = (job.handle, job.is_brief);
        let is_load = lane == Lane::Bounded && job.is_load();
        if !is_brief && !is_load {
            // Else it would wait for the helper of the jobs before it.
            self.wake_for_shared(|_| ());
        }
        let mut pool = self.shared.lock();
        let at_once = pool.lanes.add(lane, job)?;
        let now = Instant::now();
        self.gap = now.saturating_duration_since(self.active_at);
        pool.gap = self.gap;
        self.active_at = now;
        self.shared.posted.fetch_add(1, Relaxed);
        match pool.announce(at_once, is_brief, is_load) {
            Announcement::Seen => {}
            Announcement::Shared => {
                if !self.shares_helper {
                    self.progress = None;
                }
                self.shares_helper = true;
            }
            Announcement::Wake => {
                pool.notified += 1;
                self.wakeups += 1;
                // Else the helper would wait for the lock as soon as it is awake.
                drop(pool);
                self.shared.work.notify_one();
            }
            Announcement::Start => {
                drop(pool);
                if let Err(errno) = self.spawn_for(lane, handle) {
                    self.make_by_caller(lane, &job).ok_or(errno)?;
                }
            }
        }
        self.outstanding += 1;
        Ok(())
    }

    /// Wakes helpers for the brief jobs that share one, if that has begun none for
    /// [`Helpers::SHARED_AT_MOST`]. Returns whether to look again after [`Helpers::SHARED_AT_MOST`].
    /// `renew`: see [`Helpers::reinforce`].
    pub(crate) fn help_shared(&mut self, renew: impl FnOnce(&mut Helpers)) -> bool {
        if !self.shares_helper {
            return false;
        }
        let pool = self.shared.lock();
        let begun = pool.begun;
        let any_queued = pool.lanes.startable() > 0;
        drop(pool);
        match self.progress {
            _ if !any_queued => self.shares_helper = false,
            Some((before, since)) if begun == before => {
                if since.elapsed() >= Helpers::SHARED_AT_MOST {
                    self.wake_for_shared(renew);
                }
            }
            _ => self.progress = Some((begun, Instant::now())),
        }
        self.shares_helper
    }

    /// Wakes or starts helpers for all jobs that can begin. `renew`: see [`Helpers::reinforce`].
    pub(crate) fn wake_for_shared(&mut self, renew: impl FnOnce(&mut Helpers)) {
        if !std::mem::take(&mut self.shares_helper) {
            return;
        }
        let mut pool = self.shared.lock();
        pool.collects_loads = false;
        let coming = pool.notified + usize::from(pool.spinner == Spinner::Taken);
        let more = pool.lanes.startable().saturating_sub(coming);
        let woken = more.min(pool.idle - pool.notified);
        pool.notified += woken;
        drop(pool);
        self.wakeups += woken as u64;
        for _ in 0..woken {
            self.shared.work.notify_one();
        }
        self.reinforce(renew);
    }

    /// How long a context waits for the next result if no thread sleeps: as long as the last call took, or for ever
    /// if the last job came so late that the helper sleeps.
    pub(crate) fn expected_wait(&self) -> Duration {
        let last_call = Duration::from_nanos(self.shared.last_call_ns.load(Relaxed));
        last_call.max(self.gap)
    }

    /// How long a thread of this context may spin.
    pub(crate) fn spin_us(&self) -> u32 {
        if self.threads.is_empty() {
            0
        } else {
            self.spin_us
        }
    }

    /// How often a helper was started or woken.
    pub(crate) fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// How many calls the calling thread has made, because no helper could be started.
    pub(crate) fn made_by_caller(&self) -> u64 {
        self.made_by_caller
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

    /// Takes the results of finished jobs, and starts helpers for those that waiting calls keep from beginning. `renew`: see
    /// [`Helpers::reinforce`].
    pub(crate) fn reap(
        &mut self,
        renew: impl FnOnce(&mut Helpers),
    ) -> Vec<(Handle, Result<usize, Errno>)> {
        if !self.any_finished() {
            return Vec::new();
        }
        self.shared.any_finished.store(false, SeqCst);
        if self.shared.short_of_helpers.swap(false, SeqCst) {
            self.reinforce(renew);
        }
        let finished = std::mem::take(&mut *self.shared.finished.lock().unwrap());
        self.outstanding -= finished.len();
        self.active_at = Instant::now();
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
            && let Ok(signal) = Signal::install(self.shared.signal)
        {
            // Under the lock: the helper cannot move on to another job meanwhile.
            return Cancelled::running(helper.interruptible.interrupt(signal));
        }
        Cancelled::Running
    }

    /// Begins a new generation after the calling thread's rights or FS state have changed: later jobs
    /// need threads that inherit the new ones. Jobs queued before keep the old ones.
    pub(crate) fn renew(&mut self) {
        let mut pool = self.shared.lock();
        pool.renew();
        self.shared.posted.fetch_add(1, Relaxed);
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

    /// What remote file systems have not answered.
    pub(crate) fn unanswered(&self) -> Unanswered {
        self.unanswered_calls().get()
    }

    /// The same for any thread.
    pub(crate) fn unanswered_calls(&self) -> UnansweredCalls {
        UnansweredCalls(self.shared.clone())
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
}

/// The calls of one pool that remote file systems have not answered, for any thread.
#[derive(Clone, Debug)]
pub(crate) struct UnansweredCalls(Arc<HelperShared>);

impl UnansweredCalls {
    pub(crate) fn get(&self) -> Unanswered {
        Unanswered::from_mounts(self.0.lock().lanes.unanswered())
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        if self.inherited {
            return;
        }
        self.shared.lock().closing = true;
        self.shared.posted.fetch_add(1, Relaxed);
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
    fn serve(&self, interruptible: &Arc<Interruptible>, generation: u32, spin_us: u32) {
        while let Some((mut lane, job)) = self.next_job(interruptible, generation, spin_us) {
            let begin = Instant::now();
            if lane == Lane::Bounded && job.is_load() {
                self.serve_loads(job, interruptible, generation);
                continue;
            }
            let waits = lane != Lane::Unbounded && lane::opens_blocking_file(&job, interruptible);
            let moved = if waits {
                self.move_to_unbounded(lane, &job, generation, interruptible)
            } else {
                Ok(true)
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
            let now = Instant::now();
            let taken = now.saturating_duration_since(begin).as_nanos() as u64;
            self.last_call_ns.store(taken, Relaxed);
            let mut pool = self.lock();
            let is_short = pool.done(interruptible, &job, (lane, generation), now);
            // Under the lock, so that a late cancellation of this job cannot interrupt the next one.
            interruptible.rearm();
            drop(pool);
            if is_short {
                self.short_of_helpers.store(true, SeqCst);
            }
            self.report(job.handle, result);
        }
    }

    /// Makes the context reap a result.
    fn report(&self, handle: Handle, result: Result<usize, Errno>) {
        self.finished.lock().unwrap().push((handle, result));
        self.any_finished.store(true, SeqCst);
        self.doorbell.ring();
    }

    /// Moves the helper's job to the unbounded lane. The jobs queued behind it need another helper,
    /// which only the context's own thread may start. Returns false if the job was queued instead:
    /// the helper has none then.
    fn move_to_unbounded(
        &self,
        from: Lane,
        job: &Job,
        generation: u32,
        interruptible: &Arc<Interruptible>,
    ) -> Result<bool, Errno> {
        lane::check_interruptible(Lane::Unbounded, self.signal)?;
        let mut pool = self.lock();
        // No cancellation would find a cancelled job in the queue.
        let is_cancelled = interruptible.is_interrupted();
        if !pool
            .lanes
            .move_to_unbounded(from, job, generation, is_cancelled)?
        {
            let helper = pool.helper(interruptible);
            (helper.current, helper.lane) = (None, None);
            return Ok(false);
        }
        // A cancelled call ends at once.
        if !is_cancelled {
            pool.helper(interruptible).lane = Some(Lane::Unbounded);
        }
        let short = pool.is_short() || pool.any_stuck();
        if !short && pool.idle > pool.notified {
            pool.notified += 1;
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
    fn next_job(
        &self,
        interruptible: &Arc<Interruptible>,
        generation: u32,
        spin_us: u32,
    ) -> Option<(Lane, Job)> {
        let mut pool = self.lock();
        let mut timed_out = false;
        let mut has_spun = false;
        loop {
            if let Some((lane, job)) = pool.lanes.take(generation) {
                pool.begin(interruptible, &job, lane, generation);
                if pool.collects_loads && !(lane == Lane::Bounded && job.is_load()) {
                    self.pass_on_loads(pool);
                }
                return Some((lane, job));
            }
            if pool.closing || pool.lanes.generation() != generation || timed_out {
                pool.leave(interruptible);
                return None;
            }
            // Jobs that were cancelled meanwhile may have been announced.
            pool.brief_announced = 0;
            pool.collects_loads = false;
            if !has_spun && pool.expects_job(spin_us) {
                has_spun = true;
                pool = self.spin(pool, generation);
                continue;
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
                pool.notified = pool.notified.saturating_sub(1);
            }
        }
    }

    /// Looks for a job without sleeping, and without the lock.
    fn spin<'a>(&'a self, mut pool: MutexGuard<'a, Pool>, generation: u32) -> MutexGuard<'a, Pool> {
        let mut patience = pool.patience.take().expect("no other helper spins");
        pool.spinner = Spinner::Free;
        let before = self.posted.load(Relaxed);
        drop(pool);
        patience.spin(Duration::MAX, || self.posted.load(Relaxed) != before);
        let mut pool = self.lock();
        pool.patience = Some(patience);
        if pool.lanes.generation() == generation {
            pool.spinner = Spinner::Absent;
        }
        pool
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Call, table};
    use std::io::{PipeReader, PipeWriter, Write, pipe};
    use std::os::fd::AsRawFd;

    /// The number of jobs that are queued together.
    const JOBS: u64 = 8;

    fn helpers() -> Helpers {
        let doorbell = Arc::new(Doorbell::new().unwrap());
        Helpers::new(doorbell, &Limits::default(), false, None)
    }

    fn start(helpers: &mut Helpers, number: u64, call: Call, is_brief: bool) {
        let job = Job {
            handle: Handle::from_raw(number).expect("not 0"),
            is_brief,
            ..Job::new(table::row(call.number), call)
        };
        helpers.start(Lane::Bounded, job).unwrap();
    }

    /// A read that ends when something is written.
    fn blocked(byte: &mut [u8; 1]) -> (Call, PipeReader, PipeWriter) {
        let (reader, writer) = pipe().unwrap();
        let args = [reader.as_raw_fd() as usize, byte.as_mut_ptr() as usize, 1];
        (Call::new(libc::SYS_read, args), reader, writer)
    }

    fn finish(helpers: &mut Helpers, mut writer: PipeWriter) {
        writer.write_all(b"x").unwrap();
        while helpers.outstanding() > 0 {
            helpers.reap(|_| ());
            std::thread::yield_now();
        }
    }

    /// Starts brief jobs together. The first of them waits.
    fn start_together(helpers: &mut Helpers, first: Call) {
        start(helpers, 1, first, true);
        for number in 2..=JOBS {
            start(helpers, number, Call::new(libc::SYS_getppid, []), true);
        }
    }

    #[test]
    fn brief_jobs_share_a_helper_until_it_makes_no_progress() {
        let (mut helpers, mut byte) = (helpers(), [0]);
        let (call, _reader, writer) = blocked(&mut byte);
        start_together(&mut helpers, call);
        assert_eq!(helpers.wakeups(), 1);
        // The helper is about to begin the first job, or has begun it.
        assert!(helpers.help_shared(|_| ()));
        while helpers.help_shared(|_| ()) {
            std::thread::yield_now();
        }
        while helpers.outstanding() > 1 {
            helpers.reap(|_| ());
            std::thread::yield_now();
        }
        finish(&mut helpers, writer);
    }

    #[test]
    fn a_job_that_may_wait_gets_a_helper_and_so_do_those_before_it() {
        let (mut helpers, mut bytes) = (helpers(), [[0], [0]]);
        let [first, last] = &mut bytes;
        let (first, _one, one) = blocked(first);
        let (last, _other, other) = blocked(last);
        start_together(&mut helpers, first);
        start(&mut helpers, JOBS + 1, last, false);
        assert!(helpers.wakeups() > 1);
        drop(one);
        finish(&mut helpers, other);
    }

    #[test]
    fn jobs_that_are_not_brief_get_a_helper_each() {
        let mut bytes = [[0]; JOBS as usize];
        let mut helpers = helpers();
        // A helper that begins late must not read a file of another test that has the number of a closed one.
        let (mut readers, mut writers) = (Vec::new(), Vec::new());
        for (number, byte) in (1..).zip(&mut bytes) {
            let (call, reader, writer) = blocked(byte);
            start(&mut helpers, number, call, false);
            readers.push(reader);
            writers.push(writer);
        }
        assert_eq!(helpers.wakeups(), JOBS);
        let last = writers.pop().expect("a pipe");
        writers.clear();
        finish(&mut helpers, last);
    }

    #[test]
    fn without_a_limit_no_helper_spins() {
        let limits = Limits {
            spin_us: 0,
            ..Limits::default()
        };
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let mut helpers = Helpers::new(doorbell, &limits, false, None);
        start(&mut helpers, 1, Call::new(libc::SYS_getppid, []), true);
        assert_eq!(helpers.spin_us(), 0);
        while helpers.outstanding() > 0 {
            helpers.reap(|_| ());
        }
    }
}
