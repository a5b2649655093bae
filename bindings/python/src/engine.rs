//! The engine of a thread: its context, and the calls that wait in the background.

use crate::error;
use laio::ops::OpenFile;
use laio::{Context, Errno, Operation, Options, Outcome, PollOptions, Rights, Ticket};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A coroutine lets the event loop run after this many calls without waiting, if [`TURN`] has passed.
const CALLS_PER_CHECK: u32 = 32;
/// Bytes that are copied in the time of a call, about.
const BYTES_PER_CALL: usize = 32 * 1024;
/// How long coroutines may go on without the event loop.
const TURN: Duration = Duration::from_millis(1);
/// The largest read that is made into the engine's own buffer, in bytes.
pub(crate) const SCRATCH: usize = 64 * 1024;

/// Whether the engines made from now on make calls in the background with the rights of their thread.
static THREAD_RIGHTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static ENGINE: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

/// What a thread has: one context, which the event loop of the thread watches.
pub(crate) struct Engine {
    pub(crate) context: Context,
    /// See [`Engine::scratch`].
    scratch: Vec<u8>,
    waiting: HashMap<u64, Waiting>,
    next_key: u64,
    calls: u32,
    turn_began: Instant,
    /// Whether the event loop will flush in its next turn.
    flush_is_due: bool,
}

/// What is next for a call.
pub(crate) enum Step {
    Done(Py<PyAny>),
    InFlight(Box<dyn InFlight>),
}

/// An operation in the background, and what follows it.
pub(crate) trait InFlight {
    /// Lets the completions of its operations carry the key of its call.
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno>;
    /// Takes the operation's output and continues. Called once its completion was delivered.
    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step>;
    /// Cancels the operation. The kernel may use its memory for some time yet.
    fn abandon(self: Box<Self>, context: &mut Context);
    /// Whether it continues only when its coroutine does, not as soon as its completion was delivered. What
    /// takes bytes from a stream does: a coroutine that is cancelled before it continues has then taken none.
    fn waits_for_coroutine(&self) -> bool {
        false
    }
    /// Parts from its coroutine, which was cancelled. `key`: that of the call. Returns what goes on without it.
    fn part(self: Box<Self>, context: &mut Context, key: u64) -> Option<Box<dyn InFlight>> {
        let _ = key;
        self.abandon(context);
        None
    }
    /// Whether the end of the process waits for it, after it has parted from its coroutine.
    fn is_awaited_at_exit(&self) -> bool {
        false
    }
}

/// A call in the background, from the point of view of its coroutine.
enum Waiting {
    InFlight {
        next: Box<dyn InFlight>,
        /// What makes the event loop resume the coroutine. `None` until the coroutine waits.
        wake: Option<Py<PyAny>>,
    },
    /// Its completion was delivered, and it continues when its coroutine does.
    Ready(Box<dyn InFlight>),
    /// It goes on without its coroutine, which was cancelled.
    Parted(Box<dyn InFlight>),
    Finished(PyResult<Py<PyAny>>),
}

/// What a coroutine finds that asks for the result of its call.
pub(crate) enum Taken {
    Result(PyResult<Py<PyAny>>),
    InFlight,
    /// The call does not exist: its engine has ended.
    Nothing,
}

/// Calls `body` with the engine of this thread, which the first use makes.
pub(crate) fn with<R>(body: impl FnOnce(&mut Engine) -> PyResult<R>) -> PyResult<R> {
    ENGINE.with(|engine| {
        let Ok(mut engine) = engine.try_borrow_mut() else {
            return Err(PyRuntimeError::new_err(
                "laio was called by a finalizer that ran during a call of laio",
            ));
        };
        match &mut *engine {
            Some(engine) => body(engine),
            none => body(none.insert(Engine::new()?)),
        }
    })
}

/// Forgets what this thread's engine knows of a file's number, which may be used for another file from
/// now on. Omitting it costs time only: see [`Context::forget`].
pub(crate) fn forget(file: &OpenFile) {
    if_there(|engine| engine.forget(file));
}

/// Cancels a call in the background. If a finalizer does so during another call of laio, the call goes on,
/// and nothing takes its result.
pub(crate) fn cancel(key: u64) {
    Python::attach(|py| if_there(|engine| engine.cancel(py, key)));
}

/// Cancels a call that goes on without its coroutine.
pub(crate) fn abandon(key: u64) {
    if_there(|engine| {
        if let Some(next) = engine.take_parted(key) {
            next.abandon(&mut engine.context);
        }
    });
}

/// Calls `body` with the engine of this thread, unless there is none, or none any more, or it is in use.
fn if_there(body: impl FnOnce(&mut Engine)) {
    let _ = ENGINE.try_with(|engine| {
        if let Ok(mut engine) = engine.try_borrow_mut()
            && let Some(engine) = &mut *engine
        {
            body(engine);
        }
    });
}

impl Engine {
    fn new() -> PyResult<Engine> {
        let rights = if THREAD_RIGHTS.load(Relaxed) {
            Rights::Thread
        } else {
            Rights::Process
        };
        let options = Options::new().rights(rights);
        Ok(Engine {
            context: Context::new(options).map_err(|errno| error::of(errno.into()))?,
            scratch: Vec::new(),
            waiting: HashMap::new(),
            next_key: 0,
            calls: 0,
            turn_began: Instant::now(),
            flush_is_due: false,
        })
    }

    /// Starts an operation. `next` gets its output, at once or when it has finished.
    pub(crate) fn run<O, N>(&mut self, py: Python<'_>, operation: O, next: N) -> PyResult<Step>
    where
        O: Operation,
        N: FnOnce(Python<'_>, &mut Engine, O::Output) -> PyResult<Step> + 'static,
    {
        match self.context.submit(operation) {
            Outcome::Done(output) => next(py, self, output),
            Outcome::Pending(ticket) => Ok(Step::later(ticket, next)),
        }
    }

    /// Whether the event loop should run before the next call: calls that do not block would keep it
    /// from its other tasks.
    pub(crate) fn is_turn_over(&mut self) -> bool {
        self.calls = self.calls.saturating_add(1);
        if self.calls < CALLS_PER_CHECK {
            return false;
        }
        self.calls = 0;
        if self.turn_began.elapsed() < TURN {
            return false;
        }
        self.begin_turn();
        true
    }

    /// The context, and memory for small reads, which the first of them allocates.
    pub(crate) fn scratch(&mut self) -> (&mut Context, &mut [u8]) {
        self.scratch.resize(SCRATCH, 0);
        (&mut self.context, &mut self.scratch)
    }

    /// Counts a large read as the many calls in whose time its bytes are copied.
    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        let calls = u32::try_from(bytes / BYTES_PER_CALL).unwrap_or(u32::MAX);
        self.calls = self.calls.saturating_add(calls);
    }

    fn begin_turn(&mut self) {
        self.calls = 0;
        self.turn_began = Instant::now();
    }

    /// Keeps a call that went to the background, and returns its key.
    pub(crate) fn keep(&mut self, next: Box<dyn InFlight>) -> PyResult<u64> {
        let key = self.next_key;
        self.next_key += 1;
        self.put(key, next, None)?;
        Ok(key)
    }

    fn put(
        &mut self,
        key: u64,
        mut next: Box<dyn InFlight>,
        wake: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let set = next.set_key(&mut self.context, key);
        set.map_err(|errno| error::of(errno.into()))?;
        self.waiting.insert(key, Waiting::InFlight { next, wake });
        Ok(())
    }

    /// Sets what makes the event loop resume the coroutine of a call.
    pub(crate) fn set_wake(&mut self, key: u64, new: Py<PyAny>) {
        if let Some(Waiting::InFlight { wake, .. }) = self.waiting.get_mut(&key) {
            *wake = Some(new);
        }
    }

    /// Takes the result of a call, if it has finished. What has waited for its coroutine continues.
    pub(crate) fn take(&mut self, py: Python<'_>, key: u64) -> PyResult<Taken> {
        let next = match self.waiting.remove(&key) {
            None => return Ok(Taken::Nothing),
            Some(Waiting::Finished(result)) => return Ok(Taken::Result(result)),
            Some(Waiting::Ready(next)) => next,
            Some(waiting) => {
                self.waiting.insert(key, waiting);
                return Ok(Taken::InFlight);
            }
        };
        match next.resume(py, self) {
            Ok(Step::InFlight(next)) => {
                self.put(key, next, None)?;
                Ok(Taken::InFlight)
            }
            Ok(Step::Done(value)) => Ok(Taken::Result(Ok(value))),
            Err(error) => Ok(Taken::Result(Err(error))),
        }
    }

    /// Cancels a call.
    fn cancel(&mut self, py: Python<'_>, key: u64) {
        match self.waiting.remove(&key) {
            Some(Waiting::InFlight { next, .. }) => {
                if let Some(next) = next.part(&mut self.context, key) {
                    self.waiting.insert(key, Waiting::Parted(next));
                }
            }
            Some(Waiting::Ready(next)) => {
                if let Some(next) = next.part(&mut self.context, key) {
                    self.go_on(py, key, next);
                }
            }
            _ => {}
        }
        // If this fails, the next `collect` submits the cancellation.
        let _ = self.context.flush();
    }

    /// Takes a call that goes on without its coroutine.
    pub(crate) fn take_parted(&mut self, key: u64) -> Option<Box<dyn InFlight>> {
        match self.waiting.remove(&key)? {
            Waiting::Parted(next) => Some(next),
            waiting => {
                self.waiting.insert(key, waiting);
                None
            }
        }
    }

    /// Continues a call without a coroutine, whose completion was delivered.
    fn go_on(&mut self, py: Python<'_>, key: u64, next: Box<dyn InFlight>) {
        // Nothing could take an error.
        if let Ok(Step::InFlight(mut next)) = next.resume(py, self)
            && next.set_key(&mut self.context, key).is_ok()
        {
            self.waiting.insert(key, Waiting::Parted(next));
        }
    }

    /// Continues the calls whose operations have finished. Returns what wakes the coroutines of those
    /// that are over, or continue with their coroutine.
    fn collect(&mut self, py: Python<'_>, timeout: Duration) -> PyResult<Vec<Py<PyAny>>> {
        self.begin_turn();
        self.flush_is_due = false;
        let options = PollOptions {
            timeout: Some(timeout),
            ..PollOptions::default()
        };
        let mut keys = Vec::new();
        let polled = self
            .context
            .poll_with(options, |completion| keys.push(completion.user_data));
        polled.map_err(|errno| error::of(errno.into()))?;
        let mut wakes = Vec::new();
        for key in keys {
            let (next, wake) = match self.waiting.remove(&key) {
                Some(Waiting::InFlight { next, wake }) => (next, wake),
                Some(Waiting::Parted(next)) => {
                    self.go_on(py, key, next);
                    continue;
                }
                // Several of its operations were delivered, and the first has taken them all.
                Some(waiting) => {
                    self.waiting.insert(key, waiting);
                    continue;
                }
                None => continue,
            };
            let waiting = if next.waits_for_coroutine() {
                Waiting::Ready(next)
            } else {
                match next.resume(py, self) {
                    Ok(Step::InFlight(next)) => {
                        self.put(key, next, wake)?;
                        continue;
                    }
                    Ok(Step::Done(value)) => Waiting::Finished(Ok(value)),
                    Err(error) => Waiting::Finished(Err(error)),
                }
            };
            self.waiting.insert(key, waiting);
            wakes.extend(wake);
        }
        Ok(wakes)
    }

    /// Waits for what must not be left half done, at most until `deadline`.
    fn finish_parted(&mut self, py: Python<'_>, deadline: Instant) {
        let is_awaited = |waiting: &Waiting| match waiting {
            Waiting::Parted(next) => next.is_awaited_at_exit(),
            _ => false,
        };
        while self.waiting.values().any(is_awaited) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.collect(py, left).is_err() {
                return;
            }
        }
    }

    /// Forgets what is known of a descriptor's number, which may be used for another file from now on.
    pub(crate) fn forget(&mut self, file: &OpenFile) {
        self.context.forget(file.as_raw_fd());
    }
}

/// An operation in the background, and the function that takes its output.
struct Continued<O: Operation, N> {
    ticket: Ticket<O>,
    next: N,
    waits_for_coroutine: bool,
}

impl<O, N> InFlight for Continued<O, N>
where
    O: Operation,
    N: FnOnce(Python<'_>, &mut Engine, O::Output) -> PyResult<Step>,
{
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        context.set_user_data(self.ticket.handle(), key)
    }

    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        let Continued { ticket, next, .. } = *self;
        let output = engine.context.take(ticket);
        let output =
            output.map_err(|_| PyRuntimeError::new_err("the operation has not finished"))?;
        next(py, engine, output)
    }

    fn abandon(self: Box<Self>, context: &mut Context) {
        context.abandon(self.ticket);
    }

    fn waits_for_coroutine(&self) -> bool {
        self.waits_for_coroutine
    }
}

impl Step {
    /// The step of an operation that was started. `next` gets its output when it has finished.
    pub(crate) fn later<O, N>(ticket: Ticket<O>, next: N) -> Step
    where
        O: Operation,
        N: FnOnce(Python<'_>, &mut Engine, O::Output) -> PyResult<Step> + 'static,
    {
        Step::InFlight(Box::new(Continued {
            ticket,
            next,
            waits_for_coroutine: false,
        }))
    }

    /// As [`Step::later`], but `next` gets the output when the coroutine continues.
    pub(crate) fn with_coroutine<O, N>(ticket: Ticket<O>, next: N) -> Step
    where
        O: Operation,
        N: FnOnce(Python<'_>, &mut Engine, O::Output) -> PyResult<Step> + 'static,
    {
        Step::InFlight(Box::new(Continued {
            ticket,
            next,
            waits_for_coroutine: true,
        }))
    }

    /// Applies a function to the value, when it is there.
    pub(crate) fn map<F>(self, py: Python<'_>, function: F) -> PyResult<Step>
    where
        F: FnOnce(Python<'_>, Py<PyAny>) -> PyResult<Py<PyAny>> + 'static,
    {
        match self {
            Step::Done(value) => function(py, value).map(Step::Done),
            Step::InFlight(inner) => Ok(Step::InFlight(Box::new(Mapped { inner, function }))),
        }
    }
}

/// An operation in the background, and a function for the value that follows from it.
struct Mapped<F> {
    inner: Box<dyn InFlight>,
    function: F,
}

impl<F> InFlight for Mapped<F>
where
    F: FnOnce(Python<'_>, Py<PyAny>) -> PyResult<Py<PyAny>> + 'static,
{
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        self.inner.set_key(context, key)
    }

    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        self.inner.resume(py, engine)?.map(py, self.function)
    }

    fn abandon(self: Box<Self>, context: &mut Context) {
        self.inner.abandon(context);
    }

    fn waits_for_coroutine(&self) -> bool {
        self.inner.waits_for_coroutine()
    }

    fn part(self: Box<Self>, context: &mut Context, key: u64) -> Option<Box<dyn InFlight>> {
        self.inner.part(context, key)
    }

    fn is_awaited_at_exit(&self) -> bool {
        self.inner.is_awaited_at_exit()
    }
}

/// What begins a call.
pub(crate) type Start = Box<dyn FnOnce(Python<'_>, &mut Engine) -> PyResult<Step> + Send>;

/// Makes the running event loop wait for a call: returns an iterator for the coroutine to pass on, and
/// the function that ends it.
pub(crate) fn wait_in_loop(py: Python<'_>) -> PyResult<(Py<PyAny>, Py<PyAny>)> {
    static WAIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let descriptor = with(|engine| {
        let descriptor = engine.context.descriptor();
        let descriptor = descriptor.map_err(|errno| error::of(errno.into()))?;
        Ok(descriptor.as_raw_fd())
    })?;
    let wait = WAIT.import(py, "laio._loops", "wait")?;
    wait.call1((descriptor,))?.extract()
}

/// Returns an iterator for the coroutine to pass on, which lets the event loop run once.
pub(crate) fn yield_to_loop(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static YIELD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let pass = YIELD.import(py, "laio._loops", "let_others_run")?;
    Ok(pass.call0()?.unbind())
}

/// Submits what was started, and continues the calls that have finished: the event loop calls this when
/// the descriptor is readable.
#[pyfunction]
fn collect(py: Python<'_>) -> PyResult<()> {
    let wakes = with(|engine| engine.collect(py, Duration::ZERO))?;
    // After the engine is free again, because these are calls of Python.
    for wake in wakes {
        if let Err(error) = wake.call0(py) {
            error.write_unraisable(py, Some(wake.bind(py)));
        }
    }
    Ok(())
}

/// Submits what was started to the kernel.
#[pyfunction]
fn flush() -> PyResult<()> {
    with(|engine| {
        let flushed = engine.context.flush();
        flushed.map_err(|errno| error::of(errno.into()))
    })
}

/// Makes the event loop call [`collect`] once in its next turn: `call_soon` is the loop's. `first`: whether
/// the loop does so for the first time; an earlier loop may have ended before it did.
#[pyfunction]
fn flush_later(py: Python<'_>, call_soon: Bound<'_, PyAny>, first: bool) -> PyResult<()> {
    static COLLECT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    if with(|engine| Ok(std::mem::replace(&mut engine.flush_is_due, true)))? && !first {
        return Ok(());
    }
    let collect = COLLECT.import(py, "laio._laio", "collect")?;
    call_soon.call1((collect,)).map(drop)
}

/// The number of calls of this thread in the background.
#[pyfunction]
fn pending() -> PyResult<usize> {
    with(|engine| Ok(engine.context.pending()))
}

/// The back end of this thread's context, and whether it has a ring.
#[pyfunction]
fn backend() -> PyResult<(String, bool)> {
    with(|engine| {
        let info = engine.context.info();
        Ok((info.backend().name().to_owned(), info.has_ring()))
    })
}

/// What laio has counted in this thread since it was first used here: values that only grow, except for
/// "unanswered" and "hung_mounts".
#[pyfunction]
fn stats() -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    if_there(|engine| {
        let stats = engine.context.stats();
        let calls = stats.total();
        found.extend([
            ("inline", calls.inline),
            ("background", calls.background),
            ("fallback", calls.fallback),
            ("operations", stats.operations),
            ("completions", stats.completions),
            ("cancelled", stats.cancelled),
            ("limited", stats.limited),
            ("sleeps", stats.sleeps),
            ("helper_wakeups", stats.helper_wakeups),
            ("submissions", stats.submissions),
            ("unanswered", stats.unanswered),
            ("hung_mounts", stats.hung_mounts),
        ]);
    });
    found
}

/// Sets whose rights calls in the background have, for threads that have not used laio yet: "process" or
/// "thread".
#[pyfunction]
fn set_rights(rights: &str) -> PyResult<()> {
    let is_thread = match rights {
        "thread" => true,
        "process" => false,
        _ => {
            return Err(PyValueError::new_err(
                "rights must be 'process' or 'thread'",
            ));
        }
    };
    if ENGINE.with(|engine| engine.try_borrow().map_or(true, |engine| engine.is_some())) {
        let message = "this thread has used laio before";
        return Err(PyRuntimeError::new_err(message));
    }
    THREAD_RIGHTS.store(is_thread, Relaxed);
    Ok(())
}

/// Ends the engine of this thread: calls in the background are cancelled, and their coroutines never
/// continue. Waits at most `timeout` seconds; returns False if a call hangs in the kernel.
#[pyfunction]
fn shut_down(py: Python<'_>, timeout: f64) -> PyResult<bool> {
    let engine = ENGINE.with(|engine| engine.try_borrow_mut().ok().and_then(|mut e| e.take()));
    let Some(mut engine) = engine else {
        return Ok(true);
    };
    let deadline = Instant::now() + Duration::try_from_secs_f64(timeout).unwrap_or_default();
    engine.finish_parted(py, deadline);
    let Engine {
        context, waiting, ..
    } = engine;
    drop(waiting);
    Ok(context.shutdown_timeout(deadline.saturating_duration_since(Instant::now())))
}

/// Forgets the calls of the parent. To be called in a forked child.
#[pyfunction]
fn after_fork() {
    ENGINE.with(|engine| {
        if let Ok(mut engine) = engine.try_borrow_mut() {
            *engine = None;
        }
    });
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(collect, module)?)?;
    module.add_function(wrap_pyfunction!(flush, module)?)?;
    module.add_function(wrap_pyfunction!(flush_later, module)?)?;
    module.add_function(wrap_pyfunction!(pending, module)?)?;
    module.add_function(wrap_pyfunction!(backend, module)?)?;
    module.add_function(wrap_pyfunction!(stats, module)?)?;
    module.add_function(wrap_pyfunction!(set_rights, module)?)?;
    module.add_function(wrap_pyfunction!(shut_down, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)
}
