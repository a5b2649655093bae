//! The proactor: operations of many threads. An attempt is made on the thread that polls the future;
//! only what would block goes to a driver.

mod any_function;
mod atomic;
mod attempts;
mod batch;
mod batch_end;
mod busy;
mod driver;
mod function;
mod generation;
mod helper_pool;
mod inbox;
mod loads;
mod local;
mod loop_ring;
mod one_shot;
mod queue;
mod rights;
mod shared;
mod stats;
mod submission;
mod task;

use crate::composition::Composition;
use crate::operation::Operation;
use crate::{BackendKind, Context, Errno, Options};
use shared::Shared;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use batch::Batch;
pub use function::{Blocking, Stop};
pub(crate) use local::new_identity;
pub use loop_ring::{FindLoopRing, LoopRing};
pub use stats::{Metric, ProactorStats};
pub use submission::Submission;

/// Makes the operations of many threads, as futures for any runtime, or for none.
///
/// A [`Context`] belongs to its thread; a proactor is `Send`, `Sync` and cheap to clone. The first poll
/// of a future attempts the call on the thread that polls: a call that does not block costs no lock, no
/// allocation and no second thread. A call that would block goes to a *driver*, a thread with a
/// context of its own, which wakes the task when the operation has finished. A driver starts when it is
/// first needed.
///
/// ```
/// use laio::ops::{Name, Open, OpenFile, ReadAt};
/// use laio::{Options, Proactor};
/// # use std::task::{Context, Poll, Waker};
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
/// #             return output;
/// #         }
/// #         std::thread::yield_now();
/// #     }
/// # }
///
/// let proactor = Proactor::new(Options::new())?;
/// let open = Open::new(Name::new(c"/proc/self/comm"), libc::O_RDONLY);
/// let file = OpenFile::from(block_on(proactor.submit(open))?);
/// let read = ReadAt::new(file.clone(), Vec::with_capacity(64), 0);
/// let (count, buffer) = block_on(proactor.submit(read));
/// assert_eq!(count?, buffer.len());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// What the [contract](crate#the-contract) means here:
///
/// - **Order.** An operation does not overtake an earlier one of the same direction on its descriptor if
///   its future is polled first after that of the earlier one has returned. Operations of threads with
///   different rights on one descriptor are not ordered.
/// - **Cancellation.** Dropping a future cancels its operation. The buffer and the descriptor live until
///   the kernel no longer uses them.
/// - **Limits.** A driver has the limits of its context. At [`Limits::operations`](crate::Limits::operations)
///   operations wait for their turn; they do not fail with `EAGAIN`.
/// - **Rights.** A call in the background has the rights of the thread that polled its future when the
///   call went there. A thread whose rights differ from those of the drivers gets a driver, or a thread
///   for the call, with its own rights.
/// - **Fork.** A child has no drivers; it starts its own when it needs one. To poll a future there that
///   was in flight at the fork panics; to drop it leaks it.
/// - **Panics** of wakers and of destructors of abandoned buffers end no driver.
#[derive(Clone)]
pub struct Proactor(Arc<Shared>);

impl Proactor {
    /// Makes a proactor with the options of its drivers' contexts. The back end is chosen as in
    /// [`Context::new`]. [`Options::back_pressure`] has no effect.
    ///
    /// # Errors
    /// `EINVAL` if the environment names an unknown back end; `EOPNOTSUPP` for `activations`, which
    /// belong to their thread; for a back end other than `lazy`, those of [`Context::new`].
    pub fn new(options: Options) -> Result<Proactor, Errno> {
        let kind = match options.backend {
            Some(kind) => kind,
            None => BackendKind::from_environment()?.unwrap_or(BackendKind::Lazy),
        };
        let options = options.backend(kind);
        match kind {
            BackendKind::Activations => return Err(Errno::OPNOTSUPP),
            BackendKind::Lazy | BackendKind::Sync => {}
            // Whether it works here: the first operation could not report it.
            _ => drop(Context::new(options.clone())?),
        }
        let composition = Composition::for_backend(kind, &options);
        Ok(Proactor(Arc::new(Shared::new(options, composition))))
    }

    /// The proactor of the whole process, with default options. It is made at the first use, and never
    /// ends.
    ///
    /// # Errors
    /// Those of [`Proactor::new`], each time.
    pub fn global() -> Result<&'static Proactor, Errno> {
        static GLOBAL: OnceLock<Result<Proactor, Errno>> = OnceLock::new();
        let global = GLOBAL.get_or_init(|| Proactor::new(Options::new()));
        global.as_ref().map_err(|errno| *errno)
    }

    /// Returns a future that makes an operation: the first poll attempts the call on its thread.
    ///
    /// Dropping the future cancels the operation.
    pub fn submit<O: Operation + Send>(&self, operation: O) -> Submission<O> {
        Submission::new(self.0.clone(), operation)
    }

    /// Returns a future that makes many operations, and is ready when all have finished, with their
    /// outputs in the same order. Those that would block are handed over together, and wake the task
    /// once.
    ///
    /// Dropping the future cancels the operations that are in flight.
    pub fn submit_all<O: Operation + Send>(
        &self,
        operations: impl IntoIterator<Item = O>,
    ) -> Batch<O> {
        Batch::new(self.0.clone(), operations)
    }

    /// Makes a ring for an event loop, to which it submits reads of files that would block:
    /// [`Submission::in_loop`]. With [`Rights::Thread`](crate::Rights::Thread) all reads go to drivers.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the options or the back end forbid a ring; `ENOSYS`, `EPERM` and `EACCES` where
    /// io_uring is absent or forbidden; `ENOMEM` and `EMFILE` at limits.
    pub fn loop_ring(&self) -> Result<LoopRing, Errno> {
        LoopRing::new(&self.0)
    }

    /// Returns a future that runs a function which may block, on a helper thread: for work of many calls
    /// on files, of which none can be attempted. The first poll hands the function over.
    ///
    /// Dropping the future before the function has begun drops the function. Afterwards the function
    /// finds it out by [`Stop::is_requested`]; one that takes long looks between its steps.
    ///
    /// Its calls have the rights of the thread that polled the future first, as those of an operation
    /// by name. The future fails with `ECANCELED` after [`Proactor::shut_down`] and with `EAGAIN` if no
    /// thread can be started. It panics if the function does.
    ///
    /// ```
    /// # use std::task::{Context, Poll, Waker};
    /// # let proactor = laio::Proactor::new(laio::Options::new())?;
    /// let mut lines = proactor.blocking(|_| {
    ///     let text = std::fs::read_to_string("/proc/self/status")?;
    ///     Ok::<_, std::io::Error>(text.lines().count())
    /// });
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # let count = loop {
    /// #     if let Poll::Ready(count) = std::pin::Pin::new(&mut lines).poll(&mut context) { break count; }
    /// # };
    /// # assert!(count?? > 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn blocking<T: Send + 'static>(
        &self,
        function: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Blocking<T> {
        Blocking::new(self.0.clone(), Box::new(function))
    }

    /// Cancels all operations in flight, whose futures then return `ECANCELED`, ends the drivers, and
    /// waits for that at most `timeout`. Returns false if a driver is left, because an operation hangs
    /// in the kernel. Later operations fail with `ECANCELED` unless their attempt finishes them.
    ///
    /// Without this, the drivers end when the last clone was dropped and no future is left.
    pub fn shut_down(&self, timeout: Duration) -> bool {
        let end = Instant::now().checked_add(timeout);
        let generation = self.0.generation();
        let drivers = generation.close();
        let left = || end.map_or(timeout, |end| end.saturating_duration_since(Instant::now()));
        drivers.iter().all(|driver| driver.wait_for_end(left()))
    }

    /// Returns the statistics of all threads so far.
    pub fn stats(&self) -> ProactorStats {
        self.0.generation().stats()
    }

    /// The back end of the drivers.
    pub fn backend(&self) -> BackendKind {
        self.0.options.backend.expect("chosen in `new`")
    }
}

impl fmt::Debug for Proactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proactor")
            .field("backend", &self.backend())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
