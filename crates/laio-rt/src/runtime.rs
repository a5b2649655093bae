//! The runtime as programs see it.

use crate::beside::ContextId;
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
/// It belongs to the thread that makes it. A program that wants to use several processors makes one on
/// each of several threads.
///
/// Whether one task can wait while another runs is up to the back end: with `sync`, which is there for
/// comparisons, a call that waits keeps all tasks waiting, and with `threads` there must be as many
/// helpers as calls that wait for each other.
///
/// Dropping it drops all tasks, cancels their operations, and waits until the last of them has let go
/// of its buffers.
pub struct Runtime {
    core: Rc<Core>,
}

impl Runtime {
    /// Makes a runtime whose context has these options.
    ///
    /// # Errors
    /// Those of [`Context::new`].
    pub fn new(options: Options) -> io::Result<Runtime> {
        Ok(Runtime {
            core: Core::new(options)?,
        })
    }

    /// Adds a context with other options, for the operations that are given to it by
    /// [`submit_to`](crate::submit_to). It lives as long as the runtime. Waiting for it costs an operation of the
    /// runtime's own context each time that its operations complete; while it has none it costs nothing.
    ///
    /// Order on a descriptor is kept within a context, not among several: use each descriptor in one at a time.
    ///
    /// # Errors
    /// Those of [`Context::new`], and one that says so beyond
    /// [`CONTEXTS_BESIDE`](crate::limits::CONTEXTS_BESIDE).
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
        self.core.add_context(options)
    }

    /// Runs the future, and the tasks that are spawned, until the future has its output. Tasks that are
    /// not over by then go on at the next call.
    ///
    /// # Panics
    /// If the future panics; if called from within itself; and if the context can no longer be waited
    /// on (see [`Context::poll`]).
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

    /// Gives access to the context. Completions belong to the runtime: do not poll it, nor replace it.
    ///
    /// # Panics
    /// From within itself.
    pub fn with_context<R>(&self, action: impl FnOnce(&mut Context) -> R) -> R {
        action(&mut self.core.engine.borrow_mut().context)
    }

    /// What the context has counted so far.
    pub fn stats(&self) -> Stats {
        self.with_context(|context| context.stats())
    }

    /// Tasks that are not over.
    pub fn tasks(&self) -> usize {
        self.core.tasks()
    }

    /// Timers that are not due yet.
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

/// Starts a task: a future that runs by itself, beside the one that starts it, on the same thread.
///
/// # Panics
/// Outside of [`Runtime::block_on`]; there, see [`Runtime::spawn`].
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

/// Lets all other tasks that are ready run first.
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

/// Lets all others go first, also those that become ready meanwhile: of the tasks that have given way only
/// [`GIVEN_WAY_PER_TURN`](crate::limits::GIVEN_WAY_PER_TURN) go on before completions are gathered again. So many tasks
/// with much to do do not keep one waiting that has little.
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

/// The number of the present turn: it changes when completions are gathered, and not while tasks run. What an
/// operation in the background has brought is known to have happened before the turn began.
///
/// # Panics
/// Outside of [`Runtime::block_on`].
pub fn turn() -> u64 {
    Core::current().turn()
}

/// As [`with_context`], for any context of the runtime.
///
/// # Panics
/// As [`with_context`], and if the context is another runtime's.
pub fn with_context_of<R>(id: ContextId, action: impl FnOnce(&mut Context) -> R) -> R {
    action(&mut Core::current().engine_of(id).borrow_mut().context)
}

/// Gives access to the context of the runtime that the calling task runs in. Completions belong to the
/// runtime: do not poll the context, nor replace it.
///
/// # Panics
/// Outside of [`Runtime::block_on`], and from within itself.
pub fn with_context<R>(action: impl FnOnce(&mut Context) -> R) -> R {
    action(&mut Core::current().engine.borrow_mut().context)
}
