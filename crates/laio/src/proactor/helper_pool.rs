//! The helpers of a driver: threads that take work from any thread, without a wakeup of the driver.
//!
//! They make calls for which the driver could do no more than wake another thread ([`takes`]): calls by
//! name, and buffered writes to a file system that has no non-blocking form of them. And they run
//! functions of the program ([`super::function`]). The driver starts them, so they have its rights.

use super::any_function::AnyFunction;
use super::inbox::{Inbox, Message, Rest};
use super::shared::Shared;
use super::task::{AnyTask, Duty, guarded};
use super::work_queue::{Coming, Kind, Taken, WorkQueue};
use crate::attempt::Why;
use crate::background::job::{Job, run};
use crate::background::lane;
use crate::composition::Strategy;
use crate::operations::Link;
use crate::pool::growth::Growth;
use crate::pool::patience::{Patience, has_processors};
use crate::step::total;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::table::{self, Attempt, Class, Row};
use crate::{Call, Errno, Limits, Options, transfer};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The helpers of one driver.
pub(super) struct HelperPool {
    work: WorkQueue<Work>,
    /// The descriptors on which a helper makes a call, with the operations that wait for its end.
    lines: Mutex<Vec<Line>>,
    making: Mutex<Vec<Making>>,
    driver: Arc<Inbox>,
    /// The signal that interrupts cancelled calls; see [`Signal::install`].
    signal: Option<i32>,
    /// See [`Limits::spin_us`]; 0 on a single processor.
    pub(super) spin_us: u32,
    /// Of the helper that spins.
    patience: Mutex<Patience>,
    /// Nanoseconds of the last call.
    call_ns: AtomicU64,
    /// The number of threads that have not ended.
    threads: (Mutex<usize>, Condvar),
}

enum Work {
    Call(Duty, Rest),
    Function(Arc<dyn AnyFunction>),
}

impl Work {
    /// Ends it without doing it.
    fn fail(self, errno: Errno) {
        match self {
            Work::Call(duty, rest) => duty.complete(total(rest.done, Err(errno))),
            Work::Function(function) => guarded(|| function.fail(errno)),
        }
    }
}

struct Line {
    fd: RawFd,
    waiting: Vec<(Duty, Rest)>,
}

/// A call that a helper makes now.
struct Making {
    task: Arc<dyn AnyTask>,
    interruptible: Arc<Interruptible>,
}

impl Making {
    fn is_for(&self, task: &Arc<dyn AnyTask>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.task), Arc::as_ptr(task))
    }

    /// Interrupts the call; the caller holds the lock of the list. Without a signal the call goes on to its
    /// end, which no other process delays: an `open` that may wait for one is the driver's.
    fn interrupt(&self, signal: Option<i32>) {
        if let Ok(signal) = Signal::install(signal) {
            // Refused only for a real-time signal of the program's choice, at the limit of signals.
            let _ = self.interruptible.interrupt(signal);
        }
    }
}

impl HelperPool {
    pub(super) fn new(options: &Options, driver: Arc<Inbox>) -> HelperPool {
        let limits = &options.limits;
        let spin_us = if has_processors() { limits.spin_us } else { 0 };
        HelperPool {
            work: WorkQueue::new(
                Growth::new(Limits::FIRST_HELPERS, limits.helpers as usize),
                Growth::fixed(limits.waiting_helpers as usize),
            ),
            lines: Mutex::default(),
            making: Mutex::default(),
            driver,
            signal: options.cancel_signal,
            spin_us,
            patience: Mutex::new(Patience::new(spin_us)),
            call_ns: AtomicU64::new(0),
            threads: (Mutex::new(0), Condvar::new()),
        }
    }

    /// Makes a helper make a call. `links` are those of the operation, which waits for no other one.
    pub(super) fn call(&self, duty: Duty, rest: Rest) {
        if let Some(fd) = duty.links().into_iter().find_map(used) {
            let waiting = Vec::new();
            self.lock_lines().push(Line { fd, waiting });
        }
        self.add(Kind::Call, Work::Call(duty, rest));
    }

    /// Makes a helper run a function.
    pub(super) fn run(&self, function: Arc<dyn AnyFunction>) {
        self.add(Kind::Function, Work::Function(function));
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
        let is_it = |work: &Work| matches!(work, Work::Call(duty, _) if duty.is_for(task));
        if let Some(work) = self.work.remove(Kind::Call, is_it) {
            // Outside of the lock: it completes the operation, which runs code of the program.
            self.end_line(&work);
            drop(work);
            return true;
        }
        let making = self.lock_making();
        if let Some(made) = making.iter().find(|made| made.is_for(task)) {
            made.interrupt(self.signal);
            return true;
        }
        drop(making);
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

    /// How long the last call took.
    pub(super) fn last_call(&self) -> Duration {
        Duration::from_nanos(self.call_ns.load(Relaxed))
    }

    /// Lets the helpers end when they have no work. The last one sends [`Message::Finish`] to the driver.
    pub(super) fn finish(&self) {
        self.work.finish();
    }

    /// Whether the helpers have no work.
    pub(super) fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    /// Fails what no helper has begun with `ECANCELED`, interrupts the calls, and lets the helpers end.
    pub(super) fn stop(&self) {
        for work in self.work.stop() {
            work.fail(Errno::CANCELED);
        }
        for made in self.lock_making().iter() {
            made.interrupt(self.signal);
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
    pub(super) fn start_helper(self: &Arc<HelperPool>) {
        let own = self.clone();
        self.count_threads(|threads| threads + 1);
        let body = move || {
            own.serve();
            own.count_threads(|threads| threads - 1);
        };
        if let Err(errno) = Thread::start_with_program_code(c"laio-helper", body) {
            self.count_threads(|threads| threads - 1);
            for work in self.work.not_started() {
                match work {
                    Work::Call(duty, rest) => {
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
    fn serve(&self) {
        let interruptible = Arc::new(Interruptible::default());
        interruptible.adopt_thread(Signal::install(self.signal).ok());
        let idle = Duration::from_millis(Limits::HELPER_IDLE_MS);
        loop {
            let Taken { kind, work, coming } =
                match self.work.next(idle, |gap, look| self.spin(gap, look)) {
                    Ok(taken) => taken,
                    Err(ended) => {
                        if ended.was_last {
                            self.driver.push([Message::Finish]);
                        }
                        break;
                    }
                };
            self.order(coming);
            match work {
                Work::Function(function) => {
                    guarded(|| function.run());
                    // The program's destructors.
                    guarded(|| drop(function));
                    self.work.done(kind);
                }
                Work::Call(duty, rest) => self.serve_call(duty, rest, &interruptible),
            }
        }
        interruptible.release_thread();
    }

    /// Makes the call of an operation and completes it, or passes the operation to the driver.
    fn serve_call(&self, duty: Duty, rest: Rest, interruptible: &Arc<Interruptible>) {
        self.lock_making().push(Making {
            task: duty.task().clone(),
            interruptible: interruptible.clone(),
        });
        let begin = Instant::now();
        let job = job_of(&duty, duty.core().call);
        let waits = lane::opens_blocking_file(&job, interruptible);
        let result = (!waits).then(|| make(interruptible, &duty, &rest));
        let mut making = self.lock_making();
        making.retain(|made| !made.is_for(duty.task()));
        // From here on a cancellation goes to the driver, and must find the operation there.
        let result = match result {
            // Its cancellation may have come before the call was listed, and found it nowhere.
            None if duty.core().is_abandoned() || interruptible.is_interrupted() => {
                Err(Errno::CANCELED)
            }
            None => {
                self.driver.push_unchecked([Message::Start(duty, rest)]);
                drop(making);
                self.work.done(Kind::Call);
                return self.driver.drop_if_ended();
            }
            Some(result) => result,
        };
        // With the lock, so that no late cancellation interrupts the next call.
        interruptible.rearm();
        drop(making);
        self.call_ns
            .store(begin.elapsed().as_nanos() as u64, Relaxed);
        self.end_line_of(&duty);
        // Before the next operation is handed over, which this helper can take.
        self.work.done(Kind::Call);
        duty.complete(result);
    }

    fn spin(&self, gap: Duration, look: &dyn Fn() -> bool) {
        if self.spin_us > 0 {
            let mut patience = self
                .patience
                .lock()
                .unwrap_or_else(|error| error.into_inner());
            patience.note_wait(gap);
            patience.spin(Duration::MAX, look);
        }
    }

    fn add(&self, kind: Kind, work: Work) {
        match self.work.add(kind, work) {
            Ok(coming) => self.order(coming),
            Err(work) => {
                self.end_line(&work);
                work.fail(Errno::CANCELED);
            }
        }
    }

    fn order(&self, coming: Coming) {
        if coming == Coming::ToBeStarted {
            self.driver.push([Message::StartHelper]);
        }
    }

    fn end_line(&self, work: &Work) {
        if let Work::Call(duty, _) = work {
            self.end_line_of(duty);
        }
    }

    /// The call of an operation is over: those that wait for it go on.
    fn end_line_of(&self, duty: &Duty) {
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

    fn lock_making(&self) -> MutexGuard<'_, Vec<Making>> {
        self.making
            .lock()
            .unwrap_or_else(|error| error.into_inner())
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
fn job_of(duty: &Duty, call: Call) -> Job {
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
