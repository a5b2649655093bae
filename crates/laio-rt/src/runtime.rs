//! The public face of the executor: `Runtime`, `spawn`, and the functions for tasks.

use crate::contexts::ContextId;
use crate::executor::Core;
use crate::join::JoinHandle;
use laio::{Context, Options, Stats};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::Poll;

/// A single-threaded executor with a [`laio::Context`] of its own.
///
/// It belongs to the thread that creates it. A program that wants to use several processors creates one on
/// each of several threads.
///
/// Whether one task can wait while another runs depends on the back end. With `sync`, which exists for
/// comparisons, a blocking call stalls all tasks. With `threads` there must be as many helpers as calls that
/// wait for each other.
///
/// Dropping the runtime drops all tasks, cancels their operations, and waits until the last operation has
/// released its buffers.
pub struct Runtime {
    core: Rc<Core>,
}

impl Runtime {
    /// Creates a runtime whose context has these options. Unless they say whose rights calls in the
    /// background have, these are the rights of the process ([`laio::Rights::Process`]).
    ///
    /// # Errors
    /// Those of [`Context::new`].
    pub fn new(options: Options) -> io::Result<Runtime> {
        Ok(Runtime {
            core: Core::new(options)?,
        })
    }

    /// Adds a context with other options (as for [`Runtime::new`]), for operations submitted with
    /// [`submit_to`](crate::submit_to). It lives as long as the runtime. Each batch of its completions
    /// costs one operation of the runtime's own context; a context without operations in flight costs
    /// nothing.
    ///
    /// The order of operations on a descriptor is kept within one context, not between contexts: use each
    /// descriptor in one context at a time.
    ///
    /// # Errors
    /// Those of [`Context::new`], and an error of kind `Other` beyond
    /// [`EXTRA_CONTEXTS`](crate::limits::EXTRA_CONTEXTS).
    ///
    /// ```
    /// use laio::ops::{Name, StatPath};
    /// use laio::{BackendKind, Options};
    /// let runtime = laio_rt::Runtime::new(Options::new())?;
    /// let helpers = runtime.add_context(Options::new().backend(BackendKind::Threads).helpers(4))?;
    /// let stat = laio_rt::submit_to(helpers, StatPath::new(Name::new(c"/")));
    /// assert!(runtime.block_on(stat)?.is_dir());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn add_context(&self, options: Options) -> io::Result<ContextId> {
        self.core.contexts.add(options)
    }

    /// Runs the future and the spawned tasks until the future is ready. Tasks that have not ended by then
    /// continue in the next call.
    ///
    /// # Panics
    /// If the future panics, if called from within itself, and if [`Context::poll`] fails.
    ///
    /// ```
    /// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
    /// assert_eq!(runtime.block_on(async { 6 * 7 }), 42);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.core.block_on(future)
    }

    /// Spawns a task, as [`spawn`] does. It runs during the next [`Runtime::block_on`].
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.core.spawn(future)
    }

    /// Calls `action` with the context. Completions belong to the runtime: do not poll or replace the context.
    ///
    /// # Panics
    /// If called from within `action`.
    pub fn with_context<R>(&self, action: impl FnOnce(&mut Context) -> R) -> R {
        action(
            &mut self
                .core
                .contexts
                .engine(ContextId::OWN)
                .borrow_mut()
                .context,
        )
    }

    /// Returns the counters of the context.
    pub fn stats(&self) -> Stats {
        self.with_context(|context| context.stats())
    }

    /// Returns the number of tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.core.tasks.count()
    }

    /// Returns the number of timers that have not expired.
    pub fn timers(&self) -> usize {
        self.core.timers.borrow().count()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.core.close();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("tasks", &self.tasks())
            .field("timers", &self.timers())
            .finish_non_exhaustive()
    }
}

/// Starts a task: a future that runs concurrently with its caller, on the same thread.
///
/// # Panics
/// Outside of [`Runtime::block_on`]. Outside of it use [`Runtime::spawn`].
///
/// ```
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// let sum = runtime.block_on(async {
///     let one = laio_rt::spawn(async { 1 });
///     let two = laio_rt::spawn(async { 2 });
///     one.await.unwrap() + two.await.unwrap()
/// });
/// assert_eq!(sum, 3);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    Core::current().spawn(future)
}

/// Suspends the calling task until all other ready tasks have run.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Suspends the calling task until all other ready tasks have run, including those that become ready meanwhile:
/// only [`GIVEN_WAY_PER_TURN`](crate::limits::GIVEN_WAY_PER_TURN) of the tasks that have called this continue before
/// completions are reaped again. So many long-running tasks do not delay a short one.
///
/// # Panics
/// Outside of [`Runtime::block_on`].
pub async fn give_way() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        Core::current().give_way(context.waker().clone());
        Poll::Pending
    })
    .await
}

/// Returns the number of the current turn, which changes when completions are reaped, and not while tasks run. An
/// operation whose completion a task sees in a turn has completed before that turn began.
///
/// # Panics
/// Outside of [`Runtime::block_on`].
pub fn turn() -> u64 {
    Core::current().turns.number()
}

/// As [`with_context`], for any context of the runtime.
///
/// # Panics
/// As [`with_context`], and if the context is another runtime's.
pub fn with_context_of<R>(id: ContextId, action: impl FnOnce(&mut Context) -> R) -> R {
    action(&mut Core::current().contexts.engine(id).borrow_mut().context)
}

/// Calls `action` with the context of the runtime that runs the calling task. Completions belong to the runtime:
/// do not poll or replace the context.
///
/// # Panics
/// Outside of [`Runtime::block_on`], and if called from within `action`.
pub fn with_context<R>(action: impl FnOnce(&mut Context) -> R) -> R {
    with_context_of(ContextId::OWN, action)
}
