//! The helpers of a driver: threads that take work from any thread, without a wakeup of the driver.
//!
//! They make calls for which the driver could do no more than wake another thread ([`takes`]): calls by
//! name, and buffered writes to a file system that has no non-blocking form of them. And they run
//! functions of the program ([`super::function`]). The driver starts them, so they have its rights.

use super::any_function::AnyFunction;
use super::inbox::{Inbox, Message, Rest, Watch, Watched};
use super::shared::Shared;
use super::task::{AnyTask, Duty, guarded};
use crate::attempt::Why;
use crate::background::job::{Job, run};
use crate::background::lane::{self, Lane};
use crate::composition::Strategy;
use crate::operations::Link;
use crate::pool::crew::{Lull, Member, Starts};
use crate::pool::lanes::{Lanes, Queued};
use crate::pool::patience::PoolPatience;
use crate::pool::queue::{Coming, Found, JobQueue, Taken};
use crate::step::total;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::table::{self, Attempt, Class, Row};
use crate::{Call, Errno, Limits, Options, transfer};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The helpers of one driver.
pub(super) struct HelperPool {
    jobs: JobQueue<Work>,
    /// The descriptors on which a helper makes a call, with the operations that wait for its end.
    lines: Mutex<Vec<Line>>,
    driver: Arc<Inbox>,
    /// The reads of the driver that are in rings of event loops.
    in_rings: AtomicUsize,
    /// The signal that interrupts cancelled calls; see [`Signal::install`].
    signal: Option<i32>,
    patience: PoolPatience,
    /// The number of threads that have not ended.
    threads: (Mutex<usize>, Condvar),
}

pub(super) enum Work {
    Call(Duty, Rest),
    Load(Duty, Rest),
    Function(Arc<dyn AnyFunction>),
}

impl Queued for Work {
    /// The address of a task, which lives as long as its work.
    type Id = usize;

    fn id(&self) -> Option<usize> {
        match self {
            Work::Call(duty, _) | Work::Load(duty, _) => Some(task_id(duty.task())),
            Work::Function(_) => None,
        }
    }

    fn is_load(&self, _lane: Lane) -> bool {
        matches!(self, Work::Load(..))
    }
}

pub(super) fn task_id(task: &Arc<dyn AnyTask>) -> usize {
    Arc::as_ptr(task).addr()
}

impl Work {
    /// Ends it without doing it.
    fn fail(self, errno: Errno) {
        match self {
            Work::Call(duty, rest) | Work::Load(duty, rest) => {
                duty.complete(total(rest.done, Err(errno)));
            }
            Work::Function(function) => guarded(|| function.fail(errno)),
        }
    }
}

struct Line {
    fd: RawFd,
    waiting: Vec<(Duty, Rest)>,
}

impl HelperPool {
    pub(super) fn new(options: &Options, driver: Arc<Inbox>) -> HelperPool {
        let limits = &options.limits;
        HelperPool {
            jobs: JobQueue::new(Lanes::new(limits, true), Starts::Ordered),
            lines: Mutex::default(),
            driver,
            in_rings: AtomicUsize::new(0),
            signal: options.cancel_signal,
            patience: PoolPatience::new(limits.spin_us),
            threads: (Mutex::new(0), Condvar::new()),
        }
    }

    /// Makes a helper make a call. `links` are those of the operation, which waits for no other one.
    pub(super) fn call(&self, duty: Duty, rest: Rest) {
        self.begin_line(&duty);
        let work = if duty.after_open().is_some() {
            Work::Load(duty, rest)
        } else {
            Work::Call(duty, rest)
        };
        self.add(Lane::Bounded, work);
    }

    /// A read is about to be added to a ring: operations on its descriptor wait until
    /// [`HelperPool::end_in_ring`], and the driver does not end before.
    pub(super) fn begin_in_ring(&self, duty: &Duty) {
        self.in_rings.fetch_add(1, SeqCst);
        self.begin_line(duty);
    }

    /// The read has left the ring, and is over.
    pub(super) fn end_in_ring(&self, duty: &Duty) {
        self.end_line_of(duty);
        self.in_rings.fetch_sub(1, SeqCst);
    }

    /// The read has left the ring, and a helper makes the rest of it.
    pub(super) fn go_on_from_ring(&self, duty: Duty, rest: Rest) {
        self.add(Lane::Bounded, Work::Call(duty, rest));
        self.in_rings.fetch_sub(1, SeqCst);
    }

    fn begin_line(&self, duty: &Duty) {
        if let Some(fd) = duty.links().into_iter().find_map(used) {
            let waiting = Vec::new();
            self.lock_lines().push(Line { fd, waiting });
        }
    }

    /// Makes the driver look at something.
    pub(super) fn watch(&self, watched: Arc<dyn Watched>) {
        self.driver.push([Message::Watch(Watch::new(watched))]);
    }

    /// Makes a helper run a function, which may wait for others.
    pub(super) fn run(&self, function: Arc<dyn AnyFunction>) {
        self.add(Lane::Unbounded, Work::Function(function));
    }

    /// Passes operations to the driver, in order; those on a descriptor on which a helper makes a call,
    /// when that is over.
    pub(super) fn pass_to_driver(&self, operations: impl IntoIterator<Item = (Duty, Rest)>) {
        let mut lines = self.lock_lines();
        self.pass(&mut lines, operations);
        drop(lines);
        self.driver.drop_if_ended();
    }

    /// Cancels an operation: removes it, or interrupts its call. Returns false if it went to the driver.
    pub(super) fn cancel(&self, task: &Arc<dyn AnyTask>) -> bool {
        match self.jobs.cancel(task_id(task), |one| self.interrupt(one)) {
            Found::Queued(work) => {
                // Outside of the lock: it completes the operation, which runs code of the program.
                self.end_line(&work);
                drop(work);
                return true;
            }
            Found::Running(()) => return true,
            Found::Nowhere => {}
        }
        let mut lines = self.lock_lines();
        let found = lines.iter_mut().find_map(|line| {
            let at = line
                .waiting
                .iter()
                .position(|(duty, _)| duty.is_for(task))?;
            Some(line.waiting.remove(at))
        });
        drop(lines);
        found.is_some()
    }

    /// How long a thread may spin that waits for a result, and how long the last call took.
    pub(super) fn patience(&self) -> &PoolPatience {
        &self.patience
    }

    /// Lets the helpers end when they have no work. The last one sends [`Message::Finish`] to the driver.
    pub(super) fn finish(&self) {
        self.jobs.finish();
    }

    /// Whether the helpers have no work, and get none from rings.
    pub(super) fn is_empty(&self) -> bool {
        self.in_rings.load(SeqCst) == 0 && self.jobs.is_empty()
    }

    /// Fails what no helper has begun with `ECANCELED`, interrupts the calls, and lets the helpers end.
    pub(super) fn stop(&self) {
        for work in self.jobs.stop(|one| self.interrupt(one)) {
            work.fail(Errno::CANCELED);
        }
        let lines = std::mem::take(&mut *self.lock_lines());
        drop(lines);
    }

    /// Waits until all helpers have ended. Returns false if `timeout` has passed before.
    pub(super) fn wait_for_end(&self, timeout: Duration) -> bool {
        let (threads, condition) = &self.threads;
        let threads = threads.lock().unwrap_or_else(|error| error.into_inner());
        let waited = condition.wait_timeout_while(threads, timeout, |threads| *threads > 0);
        *waited.unwrap_or_else(|error| error.into_inner()).0 == 0
    }

    /// Starts a helper, on the thread of the driver. If that fails, and there is no other helper, the
    /// driver makes the calls itself, as they end by themselves. Functions fail with the same errno:
    /// one may wait for an operation of the driver.
    pub(super) fn start_helper(self: &Arc<HelperPool>, member: Member) {
        let (own, listed) = (self.clone(), member.clone());
        self.count_threads(|threads| threads + 1);
        let body = move || {
            own.serve(&member);
            own.count_threads(|threads| threads - 1);
        };
        if let Err(errno) = Thread::start_with_program_code(c"laio-helper", body) {
            self.count_threads(|threads| threads - 1);
            self.jobs.not_started(&listed);
            for work in self.jobs.take_forsaken() {
                match work {
                    Work::Call(duty, rest) | Work::Load(duty, rest) => {
                        let result = make(&Interruptible::default(), &duty, &rest);
                        self.end_line_of(&duty);
                        duty.complete(result);
                    }
                    function => function.fail(errno),
                }
            }
        }
    }

    /// What a helper does.
    fn serve(&self, member: &Member) {
        let signal = Signal::install(self.signal).ok();
        member.interruptible.adopt_thread(signal);
        let idle = Duration::from_millis(Limits::HELPER_IDLE_MS);
        loop {
            let spin = |lull: Lull, found: &dyn Fn() -> bool| self.patience.spin(lull.gap, found);
            let Taken { lane, job, coming } = match self.jobs.next(member, idle, spin) {
                Ok(taken) => taken,
                Err(ended) => {
                    if ended.was_last {
                        self.driver.push([Message::Finish]);
                    }
                    break;
                }
            };
            self.order(coming);
            match job {
                Work::Function(function) => {
                    guarded(|| function.run());
                    // The program's destructors.
                    guarded(|| drop(function));
                    self.jobs.done(member, lane, false);
                }
                Work::Call(duty, rest) => self.serve_call(duty, rest, member, lane),
                load @ Work::Load(..) => self.serve_loads(load, member),
            }
        }
        member.interruptible.release_thread();
    }

    /// Makes the call of an operation and completes it, or passes the operation to the driver.
    fn serve_call(&self, mut duty: Duty, rest: Rest, member: &Member, lane: Lane) {
        let interruptible = &*member.interruptible;
        let begin = Instant::now();
        let job = job_of(&duty, duty.core().call);
        let result = if lane::opens_blocking_file(&job, interruptible) {
            let crew = self.jobs.lock();
            match self.pass_open(duty, rest, interruptible) {
                Ok(()) => {
                    self.jobs.done_with(crew, member, lane, false);
                    return self.drop_if_ended();
                }
                Err(cancelled) => duty = cancelled,
            }
            Err(Errno::CANCELED)
        } else {
            make(interruptible, &duty, &rest)
        };
        self.patience.note_call(begin.elapsed());
        self.end_line_of(&duty);
        // Before the next operation is handed over, which this helper can take.
        self.jobs.done(member, lane, false);
        duty.complete(result);
    }

    /// Passes an operation whose `open` may wait for another process to the driver, with the lock of the
    /// queue: from here on a cancellation goes to the driver, and must find the operation there.
    ///
    /// # Errors
    /// The operation, if it was cancelled.
    pub(super) fn pass_open(
        &self,
        duty: Duty,
        rest: Rest,
        interruptible: &Interruptible,
    ) -> Result<(), Duty> {
        if duty.core().is_abandoned() || interruptible.is_interrupted() {
            return Err(duty);
        }
        self.driver.push_unchecked([Message::Start(duty, rest)]);
        Ok(())
    }

    /// To be called without the lock of the queue after [`HelperPool::pass_open`].
    pub(super) fn drop_if_ended(&self) {
        self.driver.drop_if_ended();
    }

    pub(super) fn jobs(&self) -> &JobQueue<Work> {
        &self.jobs
    }

    /// Interrupts a call, with the lock of the queue. Without a signal the call goes on to its end, which
    /// no other process delays: an `open` that may wait for one is the driver's.
    fn interrupt(&self, interruptible: &Interruptible) {
        if let Ok(signal) = Signal::install(self.signal) {
            // Refused only for a real-time signal of the program's choice, at the limit of signals.
            let _ = interruptible.interrupt(signal);
        }
    }

    fn add(&self, lane: Lane, work: Work) {
        match self.jobs.add(lane, work, None) {
            Ok(coming) => self.order(coming),
            Err(work) => {
                self.end_line(&work);
                work.fail(Errno::CANCELED);
            }
        }
    }

    pub(super) fn order(&self, coming: Coming) {
        if let Coming::ToBeStarted(member) = coming {
            self.driver.push([Message::StartHelper(member)]);
        }
    }

    fn end_line(&self, work: &Work) {
        if let Work::Call(duty, _) | Work::Load(duty, _) = work {
            self.end_line_of(duty);
        }
    }

    /// The call of an operation is over: those that wait for it go on.
    pub(super) fn end_line_of(&self, duty: &Duty) {
        let Some(fd) = duty.links().into_iter().find_map(used) else {
            return;
        };
        let mut lines = self.lock_lines();
        if let Some(at) = lines.iter().position(|line| line.fd == fd) {
            let line = lines.swap_remove(at);
            self.pass(&mut lines, line.waiting);
            drop(lines);
            self.driver.drop_if_ended();
        }
    }

    /// With the lock of the lines, so that no later operation gets to the driver before these.
    fn pass(&self, lines: &mut [Line], operations: impl IntoIterator<Item = (Duty, Rest)>) {
        let free = operations.into_iter().filter_map(|(duty, rest)| {
            let fds = duty.links().map(used);
            match lines.iter_mut().find(|line| fds.contains(&Some(line.fd))) {
                Some(line) => {
                    line.waiting.push((duty, rest));
                    None
                }
                None => Some((duty, rest)),
            }
        });
        self.driver
            .push_unchecked(free.map(|(duty, rest)| Message::Start(duty, rest)));
    }

    fn lock_lines(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(|error| error.into_inner())
    }

    fn count_threads(&self, change: impl Fn(usize) -> usize) {
        let (threads, condition) = &self.threads;
        let mut threads = threads.lock().unwrap_or_else(|error| error.into_inner());
        *threads = change(*threads);
        condition.notify_all();
    }
}

/// The descriptor of a link on which there is an order to keep.
fn used(link: Link) -> Option<RawFd> {
    link.is_used().then_some(link.fd)
}

/// Whether a helper can take a call from the calling thread, if the file is local and the call waits for
/// no other one: the driver could only pass it on to a helper, or its ring to a worker thread.
pub(super) fn takes(
    shared: &Shared,
    has_ring: bool,
    row: &Row,
    rest: &Rest,
    links: &[Link; 2],
) -> bool {
    let needs_a_thread = match row.class {
        Class::Path => row.file.is_some() && !links[0].is_used(),
        Class::FileRead | Class::FileWrite if !has_ring => true,
        Class::FileRead | Class::FileWrite => match row.attempt {
            Attempt::NowaitWrite => rest.why == Why::KnownUnsupported,
            attempt => attempt == Attempt::Never,
        },
        _ => false,
    };
    needs_a_thread
        && shared.composition.strategies[row.class as usize] == Strategy::Try
        && rest.provisional.is_none()
        && !links[1].is_used()
        && shared.options.inject == Default::default()
}

/// A call of an operation, or the rest of one.
pub(super) fn job_of(duty: &Duty, call: Call) -> Job {
    Job {
        after_open: duty.after_open(),
        ..Job::new(table::row(call.number), call)
    }
}

/// Makes the call, and goes on after a short transfer, as the driver does.
fn make(interruptible: &Interruptible, duty: &Duty, rest: &Rest) -> Result<usize, Errno> {
    let call = &duty.core().call;
    let row = table::row(call.number);
    let mut done = rest.done;
    loop {
        let mut scratch = None;
        // SAFETY: the task keeps what the call points to alive; the kernel has accepted the pointers
        // if bytes were moved.
        let step = unsafe { transfer::remaining(row, call, done, &mut scratch) };
        match run(&job_of(duty, step), interruptible) {
            // The end of the file.
            Ok(0) => return Ok(done),
            Ok(moved) => done += moved,
            error => return total(done, error),
        }
        // SAFETY: as above.
        let wanted = unsafe { transfer::wanted(row, call) };
        if wanted.is_none_or(|wanted| done >= wanted) {
            return Ok(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{OpenFile, ReadAt};
    use crate::proactor::busy::{Busy, Hold};
    use crate::proactor::task::Task;
    use std::io::Write;

    /// A helper asks for what a short read has left, and nothing follows.
    #[test]
    fn a_read_ends_with_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"short").unwrap();
        let file = OpenFile::from(std::os::fd::OwnedFd::from(file));
        let busy = Busy::new();
        for (offset, expected) in [(0, 5), (3, 2), (5, 0), (9, 0)] {
            let read = ReadAt::new(file.clone(), Vec::<u8>::with_capacity(100), offset);
            let task = Task::new(read, None);
            let duty = Duty::new(task, Hold::new(&busy, [Link::UNUSED; 2]));
            let rest = Rest {
                done: 0,
                why: Why::WouldBlock,
                provisional: None,
            };
            let result = make(&Interruptible::default(), &duty, &rest);
            assert_eq!(result, Ok(expected), "from {offset}");
        }
    }
}
