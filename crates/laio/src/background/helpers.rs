//! Helper threads, which make the calls that no other part of the back end can take.
//!
//! A pool belongs to one context. The context's own thread starts the helpers, so they inherit its
//! credentials, namespaces and filters; when those change, new helpers replace them. Helpers block
//! all signals except the one that interrupts a cancelled call. [`super::lane`] limits how many
//! helpers each kind of call may use.
//!
//! [`crate::pool`] has the queue of their jobs; [`loads`] are jobs that share a helper.

mod loads;
mod start;

use super::doorbell::Doorbell;
use super::job::{Cancelled, Job, run};
use super::lane::{self, Lane};
use super::unanswered::Unanswered;
use crate::pool::crew::{Member, Starts};
use crate::pool::lanes::{Lanes, Queued};
use crate::pool::patience::PoolPatience;
use crate::pool::queue::{Coming, Found, JobQueue, Moved, Taken};
use crate::sys::interrupt::Signal;
use crate::sys::thread::Thread;
use crate::{Errno, Handle, Limits};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The pool of one context.
#[derive(Debug)]
pub(crate) struct Helpers {
    shared: Arc<HelperShared>,
    threads: Vec<Thread>,
    /// Jobs started and not yet reaped.
    outstanding: usize,
    /// How often a helper was started.
    started: u64,
    /// See [`crate::Options::caller_makes_calls`].
    pub(super) caller_makes_calls: bool,
    /// How many calls the calling thread has made.
    made_by_caller: u64,
    /// Whether brief jobs or loads were queued for a helper that has others before them.
    shares_helper: bool,
    /// The number of jobs begun when [`Helpers::help_shared`] last found it changed, and when that was;
    /// `None` before the first look.
    progress: Option<(u64, Instant)>,
    /// When a result was last reaped or a job queued: since then helpers could be idle.
    active_at: Instant,
    /// How long the context had nothing for helpers, or did not look, before it queued the last job.
    gap: Duration,
    /// This is a child's copy: see [`Helpers::forget_in_child`].
    inherited: bool,
}

#[derive(Debug)]
struct HelperShared {
    jobs: JobQueue<Job>,
    patience: PoolPatience,
    finished: Mutex<Vec<(Handle, Result<usize, Errno>)>>,
    any_finished: AtomicBool,
    /// Whether a helper's call turned out to wait, so that more helpers are needed for the queued
    /// jobs.
    short_of_helpers: AtomicBool,
    doorbell: Arc<Doorbell>,
    signal: Option<i32>,
}

impl Queued for Job {
    type Id = Handle;

    fn id(&self) -> Option<Handle> {
        Some(self.handle)
    }

    fn is_brief(&self) -> bool {
        self.is_brief
    }

    fn is_load(&self, lane: Lane) -> bool {
        lane == Lane::Bounded && self.after_open.is_some() && !lane::may_open_blocking_file(self)
    }
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
                jobs: JobQueue::new(Lanes::new(limits, queue_at_limit), Starts::Adder),
                patience: PoolPatience::new(limits.spin_us),
                finished: Mutex::default(),
                any_finished: AtomicBool::new(false),
                short_of_helpers: AtomicBool::new(false),
                doorbell,
                signal,
            }),
            threads: Vec::new(),
            outstanding: 0,
            started: 0,
            caller_makes_calls: false,
            made_by_caller: 0,
            shares_helper: false,
            progress: None,
            active_at: Instant::now(),
            gap: Duration::MAX,
            inherited: false,
        }
    }

    /// How long brief jobs and loads may share a helper that makes no progress.
    pub(crate) const SHARED_AT_MOST: Duration = Duration::from_millis(1);

    /// Queues a job.
    ///
    /// # Errors
    /// The error of starting a thread, if there is none to do the job; `EAGAIN` at the limit of
    /// unbounded calls, unless calls queue there; `EBUSY` for an unbounded call that no signal could
    /// interrupt.
    pub(crate) fn start(&mut self, lane: Lane, job: Job) -> Result<(), Errno> {
        lane::check_interruptible(lane, self.shared.signal)?;
        if !job.is_brief && !job.is_load(lane) {
            // Else it would wait for the helper of the jobs before it.
            self.wake_for_shared(|_| ());
        }
        let now = Instant::now();
        let gap = now.saturating_duration_since(self.active_at);
        let added = self.shared.jobs.add(lane, job, Some(gap));
        match added.map_err(|_| Errno::AGAIN)? {
            Coming::Helper => {}
            Coming::Shared => {
                if !self.shares_helper {
                    self.progress = None;
                }
                self.shares_helper = true;
            }
            Coming::ToBeStarted(member) => {
                if let Err(errno) = self.spawn_for(lane, job.handle, member) {
                    self.make_by_caller(lane, &job).ok_or(errno)?;
                }
            }
        }
        (self.gap, self.active_at) = (gap, now);
        self.outstanding += 1;
        Ok(())
    }

    /// Wakes helpers for the brief jobs that share one, or one for loads, if none was begun for
    /// [`Helpers::SHARED_AT_MOST`]. Returns whether to look again after [`Helpers::SHARED_AT_MOST`].
    /// `renew`: see [`Helpers::reinforce`].
    pub(crate) fn help_shared(&mut self, renew: impl FnOnce(&mut Helpers)) -> bool {
        if !self.shares_helper {
            return false;
        }
        let crew = self.shared.jobs.lock();
        let begun = crew.begun;
        let any_queued = crew.lanes.startable() > 0;
        drop(crew);
        match self.progress {
            _ if !any_queued => self.shares_helper = false,
            Some((before, since)) if begun == before => {
                if since.elapsed() >= Helpers::SHARED_AT_MOST {
                    self.shares_helper = self.shared.jobs.help_shared();
                    self.progress = None;
                    self.reinforce(renew);
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
        self.shared.jobs.unshare();
        self.reinforce(renew);
    }

    /// How long a context waits for the next result if no thread sleeps: as long as the last call took, or
    /// for ever if the last job came so late that the helper sleeps.
    pub(crate) fn expected_wait(&self) -> Duration {
        self.shared.patience.last_call().max(self.gap)
    }

    /// How long a thread of this context may spin.
    pub(crate) fn spin_us(&self) -> u32 {
        if self.threads.is_empty() {
            0
        } else {
            self.shared.patience.spin_us()
        }
    }

    /// How often a helper was started or woken.
    pub(crate) fn wakeups(&self) -> u64 {
        self.started + self.shared.jobs.lock().wakeups
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

    /// Takes the results of finished jobs, and starts helpers for those that waiting calls keep from
    /// beginning. `renew`: see [`Helpers::reinforce`].
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
        let signal = Signal::install(self.shared.signal);
        let found = self.shared.jobs.cancel(handle, |one| match signal {
            Ok(signal) => Cancelled::running(one.interrupt(signal)),
            Err(_) => Cancelled::Running,
        });
        match found {
            Found::Queued(_) => {
                self.outstanding -= 1;
                Cancelled::Removed
            }
            Found::Running(cancelled) => cancelled,
            Found::Nowhere => Cancelled::Running,
        }
    }

    /// Begins a new generation after the calling thread's rights or FS state have changed: later jobs
    /// need threads that inherit the new ones. Jobs queued before keep the old ones.
    pub(crate) fn renew(&mut self) {
        self.shared.jobs.renew();
    }

    /// In a forked child: forgets the threads, which are the parent's; one of them may hold a lock.
    pub(crate) fn forget_in_child(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        self.inherited = true;
    }

    /// The number of live threads.
    pub(crate) fn threads(&self) -> usize {
        self.shared.jobs.lock().helpers().len()
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
        let crew = self.shared.jobs.lock();
        let helpers = crew.helpers().iter().map(|one| &one.member);
        let present = helpers.filter(|one| crew.is_current(one));
        present.map(|one| one.interruptible.thread()).max()
    }
}

/// The calls of one pool that remote file systems have not answered, for any thread.
#[derive(Clone, Debug)]
pub(crate) struct UnansweredCalls(Arc<HelperShared>);

impl UnansweredCalls {
    pub(crate) fn get(&self) -> Unanswered {
        Unanswered::from_mounts(self.0.jobs.lock().lanes.unanswered())
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        if self.inherited {
            return;
        }
        self.shared.jobs.finish();
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}

impl HelperShared {
    /// The main loop of a helper.
    fn serve(&self, member: &Member) {
        let idle = Duration::from_millis(Limits::HELPER_IDLE_MS);
        let interruptible = &*member.interruptible;
        loop {
            let next = self.jobs.next(member, idle, |lull, found| {
                if lull.is_alone {
                    self.patience.spin(lull.gap, found);
                }
            });
            let Ok(Taken { mut lane, job, .. }) = next else {
                break;
            };
            let begin = Instant::now();
            if job.is_load(lane) {
                self.serve_loads(job, member);
                continue;
            }
            let waits = lane != Lane::Unbounded && lane::opens_blocking_file(&job, interruptible);
            let result = match self.make_room(waits, member, lane, &job) {
                Ok(Moved::Queued) => continue,
                Ok(Moved::Runs { .. }) => {
                    lane = if waits { Lane::Unbounded } else { lane };
                    run(&job, interruptible)
                }
                Err(errno) => Err(errno),
            };
            job.publish_status(result);
            self.patience.note_call(begin.elapsed());
            if self.jobs.done(member, lane, job.is_brief) {
                self.short_of_helpers.store(true, SeqCst);
            }
            self.report(job.handle, result);
        }
    }

    /// Makes the context reap a result.
    fn report(&self, handle: Handle, result: Result<usize, Errno>) {
        self.finished.lock().unwrap().push((handle, result));
        self.ring();
    }

    fn ring(&self) {
        self.any_finished.store(true, SeqCst);
        self.doorbell.ring();
    }

    /// Moves the helper's job to the unbounded lane if it `waits`. The jobs queued behind it need another
    /// helper, which only the context's own thread may start.
    fn make_room(
        &self,
        waits: bool,
        member: &Member,
        from: Lane,
        job: &Job,
    ) -> Result<Moved, Errno> {
        if !waits {
            return Ok(Moved::Runs { is_short: false });
        }
        lane::check_interruptible(Lane::Unbounded, self.signal)?;
        let moved = self.jobs.move_to_unbounded(member, from, job)?;
        if moved == (Moved::Runs { is_short: true }) {
            self.short_of_helpers.store(true, SeqCst);
            self.ring();
        }
        Ok(moved)
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
