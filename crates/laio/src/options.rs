//! Options of a context: back end, limits, back-pressure, fault injection, environment variables.

use crate::Errno;
use crate::testing::Inject;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The back end of a context: how calls go to the background. `docs/back-ends.md` compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// Makes the blocking call itself: the baseline of every comparison.
    Sync,
    /// Every call goes to a helper thread.
    Threads,
    /// Non-blocking streams with epoll; helper threads for the rest.
    Hybrid,
    /// The C library's AIO (`aio_read` and the like) for file data; streams and other calls as
    /// `hybrid`. Its threads serve the whole process, so no thread may have a descriptor table of
    /// its own (`unshare(CLONE_FILES)`).
    PosixAio,
    /// The kernel's `io_submit` for direct I/O on files and `fsync`; streams and the rest as `hybrid`.
    LinuxAio,
    /// io_uring for every call that has an opcode; helper threads for the rest.
    Uring,
    /// Attempts each call without blocking; only calls that would block go to the background. The
    /// default.
    Lazy,
    /// Makes the call itself; if it blocks, another thread continues the program. Streams as
    /// in `lazy` without io_uring. Not suitable for every program: see
    /// `docs/decisions/022-activations.md`.
    Activations,
}

impl BackendKind {
    /// All back ends, in the order in which tables list them.
    pub const ALL: [BackendKind; 8] = [
        BackendKind::Sync,
        BackendKind::Threads,
        BackendKind::Hybrid,
        BackendKind::PosixAio,
        BackendKind::LinuxAio,
        BackendKind::Uring,
        BackendKind::Lazy,
        BackendKind::Activations,
    ];

    /// The name used by options, the environment and reports.
    pub const fn name(self) -> &'static str {
        match self {
            BackendKind::Sync => "sync",
            BackendKind::Threads => "threads",
            BackendKind::Hybrid => "hybrid",
            BackendKind::PosixAio => "posix-aio",
            BackendKind::LinuxAio => "linux-aio",
            BackendKind::Uring => "uring",
            BackendKind::Lazy => "lazy",
            BackendKind::Activations => "activations",
        }
    }

    /// Whether the back end exists on this target: `activations` does on x86-64 with glibc only. Elsewhere
    /// a context with it fails with `ENOSYS`.
    pub const fn is_built(self) -> bool {
        !matches!(self, BackendKind::Activations) || crate::sys::handoff::AVAILABLE
    }

    /// Returns the back end named by the environment variable [`Options::ENV_BACKEND`]. A
    /// set-user-ID program ignores the variable.
    ///
    /// # Errors
    /// `EINVAL` if it names no back end; the error of [`BackendKind::from_str`] lists the names.
    pub fn from_environment() -> Result<Option<BackendKind>, Errno> {
        match std::env::var_os(Options::ENV_BACKEND) {
            None => Ok(None),
            Some(_) if crate::sys::has_rights_of_others() => Ok(None),
            Some(name) if name.is_empty() => Ok(None),
            Some(name) => {
                let kind = name.to_str().and_then(|name| name.parse().ok());
                kind.map(Some).ok_or(Errno::INVAL)
            }
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BackendKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        BackendKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = BackendKind::ALL.iter().map(|kind| kind.name()).collect();
                format!(
                    "there is no back end `{name}`; the back ends are {}",
                    known.join(", ")
                )
            })
    }
}

/// What a call does when a limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackPressure {
    /// The call fails with `EAGAIN`; nothing has been done. The default.
    #[default]
    Fail,
    /// The call waits until an operation completes. Completions are kept for `poll`. At
    /// [`Limits::waiting_helpers`] the call is pending, and begins when one that waits is over. Where no
    /// thread can be started, the calling thread makes the call: see [`Options::call_without_threads`].
    Wait,
}

/// The named limits of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of operations in flight or completed and not yet delivered.
    pub operations: u32,
    /// The number of helper threads for calls that end by themselves: file I/O, names, metadata. They
    /// start on demand and end after [`Limits::HELPER_IDLE_MS`] without work. [`Limits::FIRST_HELPERS`]
    /// start at once; there are twice as many, and again, as long as that makes more calls end in a
    /// second. At the limit such calls queue. Each remote file system (FUSE, network) has as many of its
    /// own, and up to [`Limits::REMOTE_GROWTH`] times as many while it answers, for
    /// [`Limits::REMOTE_LANES`] file systems: one that does not answer takes none from calls on others.
    pub helpers: u32,
    /// The number of further helper threads, for calls that may wait without a bound: for locks,
    /// children, peers, terminals, times, the other end of a FIFO. At the limit such a call fails
    /// with `EAGAIN`, or queues with [`BackPressure::Wait`]; calls that end by themselves always
    /// have the helpers of [`Limits::helpers`]. Never less than that limit.
    pub waiting_helpers: u32,
    /// The number of threads of `activations` in addition to the calling one: one for each
    /// call that blocks, and two spares. At the limit a call that would block fails with `EAGAIN`.
    pub carriers: u32,
    /// The number of entries of the io_uring submission queue: how many operations one submission
    /// can carry.
    pub ring_entries: u32,
    /// How many attempts may finish inline between two `poll`s while operations are in flight. The
    /// next such call is delivered through `poll`, so that a program whose calls all finish inline
    /// still gets to its completions. 0 turns the budget off.
    pub inline_budget: u32,
    /// Microseconds that a helper without work, and a context that waits for a helper, look for it
    /// before they sleep. They do so only while recent waits were short, where the thread may use
    /// more than one processor, and in vain for at most a twentieth of the time. 0: they sleep at
    /// once.
    pub spin_us: u32,
}

impl Limits {
    /// How many helpers of [`Limits::helpers`] there are before it is known whether more are useful.
    pub const FIRST_HELPERS: usize = 16;
    /// Milliseconds that an idle helper waits for work before it ends.
    pub const HELPER_IDLE_MS: u64 = 10_000;
    /// Bytes of stack of a helper thread: it only makes system calls.
    pub const HELPER_STACK: usize = 64 * 1024;
    /// How long a context that shuts down waits for the notifications of zero-copy sends; then it
    /// leaks their memory.
    pub const LENT: Duration = Duration::from_secs(1);
    /// How long a context waits before it sends a signal again that the kernel has refused: see
    /// [`Options::cancel_signal`].
    pub const SIGNAL_RETRY: Duration = Duration::from_millis(10);
    /// How long a context pauses when the kernel has refused to submit or to wait for lack of memory
    /// (`ENOMEM`, `EAGAIN` or `EBUSY` of `io_uring_enter`), before it tries again.
    pub const RING_RETRY: Duration = Duration::from_millis(1);
    /// How often in a row it does so before [`Context::poll`](crate::Context::poll) returns the errno.
    pub const RING_REFUSALS: u32 = 1000;
    /// The maximum of [`Limits::ring_entries`]; larger values are reduced to it.
    pub const RING_ENTRIES_MAX: u32 = 4096;
    /// The maximum of [`Limits::spin_us`]; larger values are reduced to it.
    pub const SPIN_US_MAX: u32 = 10_000;
    /// The lowest number of the engine's own descriptors, which stay out of the program's way. Lower
    /// where the process's limit of descriptors is lower.
    pub const OWN_DESCRIPTORS: i32 = 512;
    /// How often a driver looks at the ring of an event loop ([`LoopRing`](crate::LoopRing)) while reads
    /// are in flight there. A CQE that the loop has left for so long is taken by the driver.
    pub const LOOP_RING_TICK: Duration = Duration::from_millis(20);
    /// The number of operations that are submitted together. With fewer, entering the kernel costs
    /// more; with more, a disk is idle while the program makes its calls.
    pub const BATCH: u32 = 8;
    /// To how many steps a batch grows while each batch is complete as soon as it is submitted.
    pub const BATCH_MAX: u32 = 64;
    /// The number of Linux AIO requests that a context has in flight; further operations wait until
    /// one is free. As many are reserved (`fs.aio-max-nr`) when the first is needed, or fewer if no
    /// more are left.
    pub const AIO_REQUESTS: u32 = 256;
    /// The same for POSIX AIO, of which the C library processes 20 at a time in the whole process,
    /// and which cannot be cancelled.
    pub const POSIX_AIO_REQUESTS: u32 = 64;
    /// Bytes of the bounce buffer for one direct I/O request whose memory or offset is not aligned.
    pub const AIO_BOUNCE_STEP: usize = 256 * 1024;
    /// Bytes of all bounce buffers of a context together.
    pub const AIO_BOUNCE_BYTES: usize = 16 * 1024 * 1024;
    /// The number of remote file systems whose calls have helpers of their own, as many as
    /// [`Limits::helpers`] each. While more have calls in flight, the others share one such lane.
    pub const REMOTE_LANES: usize = 16;
    /// How many times [`Limits::helpers`] threads make calls on one remote file system: with each answer
    /// while calls queue there is one more. They end as other helpers do.
    pub const REMOTE_GROWTH: usize = 8;
    /// How long a remote file system answers none of its calls before the statistics show that it hangs.
    pub const HUNG_AFTER: Duration = Duration::from_secs(1);
    /// Elements of an iovec array, the kernel's `UIO_MAXIOV`.
    pub const IOV_MAX: usize = 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            operations: 65_536,
            helpers: 64,
            waiting_helpers: 1024,
            carriers: 256,
            ring_entries: 128,
            inline_budget: 256,
            // About as long as it takes to wake an idle processor of a virtual machine.
            spin_us: 50,
        }
    }
}

/// Whose rights a call in the background has: credentials, capabilities, groups, namespaces, root, filters,
/// Landlock domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// The rights that the calling thread has when the call goes to the background. They are compared
    /// each time, and a thread is started for each call by name where Landlock may have restricted the
    /// calling thread, which the kernel does not show.
    #[default]
    Thread,
    /// The rights of the process, as with a pool of threads: what all threads give up (`setuid` of the C
    /// library, `SECCOMP_FILTER_FLAG_TSYNC`, `LANDLOCK_RESTRICT_SELF_TSYNC`) is given up here too. A
    /// thread that gives up rights **for itself only** has its calls in the background made as if it had
    /// not.
    Process,
    /// The rights of the process, which do not change any more, as the program promises: the ring takes calls
    /// although seccomp filters do not see them there. If the promise is broken, calls are made with
    /// rights that were given up. Calls through the context may change them.
    Settled,
}

/// Options of a context.
///
/// ```
/// use laio::{BackendKind, Context, Options};
/// let context = Context::new(Options::new().backend(BackendKind::Lazy).operations(1024)).unwrap();
/// assert_eq!(context.info().backend(), BackendKind::Lazy);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) backend: Option<BackendKind>,
    pub(crate) limits: Limits,
    pub(crate) back_pressure: BackPressure,
    pub(crate) call_without_threads: bool,
    pub(crate) inject: Inject,
    pub(crate) no_ring: bool,
    pub(crate) allow_blocking_aio: bool,
    pub(crate) trust_names: bool,
    pub(crate) trust_writes: bool,
    pub(crate) cancel_signal: Option<i32>,
    pub(crate) detector: Option<Detector>,
    pub(crate) carry_streams: bool,
    rights: Option<Rights>,
    pub(crate) drivers: Option<usize>,
}

impl Options {
    /// The environment variable that overrides the back end chosen by default.
    pub const ENV_BACKEND: &'static str = "LAIO_BACKEND";

    /// The environment variable that selects the detector of `activations`: `perf` or `idle`.
    pub const ENV_DETECTOR: &'static str = "LAIO_DETECTOR";

    /// The default of [`Options::drivers`].
    pub const DRIVERS: usize = 1;

    /// The defaults: back end by environment or probing, limits of [`Limits::default`].
    pub fn new() -> Options {
        Options::default()
    }

    /// Uses this back end, whatever the environment variable says.
    /// [`Context::new`](crate::Context::new) fails if it is not available.
    pub fn backend(mut self, kind: BackendKind) -> Options {
        self.backend = Some(kind);
        self
    }

    /// Sets all limits.
    pub fn limits(mut self, limits: Limits) -> Options {
        self.limits = limits;
        self
    }

    /// Bounds the operations in flight or not yet delivered.
    pub fn operations(mut self, operations: u32) -> Options {
        self.limits.operations = operations;
        self
    }

    /// Bounds the helper threads for calls that end by themselves.
    pub fn helpers(mut self, helpers: u32) -> Options {
        self.limits.helpers = helpers;
        self
    }

    /// Bounds the further helper threads, for calls that may wait without a bound.
    pub fn waiting_helpers(mut self, helpers: u32) -> Options {
        self.limits.waiting_helpers = helpers;
        self
    }

    /// Sets how long a helper without work, and a context that waits for a helper, look for it
    /// before they sleep, in microseconds; 0: they sleep at once. See [`Limits::spin_us`].
    pub fn spin_us(mut self, spin_us: u32) -> Options {
        self.limits.spin_us = spin_us;
        self
    }

    /// Limits the number of threads of `activations`.
    pub fn carriers(mut self, carriers: u32) -> Options {
        self.limits.carriers = carriers;
        self
    }

    /// Selects the detector by which `activations` notices that a call blocks, whatever the
    /// environment variable says. [`Context::new`](crate::Context::new) fails if it does not work
    /// here.
    pub fn detector(mut self, detector: Detector) -> Options {
        self.detector = Some(detector);
        self
    }

    /// Makes `activations` use carriers for stream calls too, rather than wait for readiness: one
    /// thread for each blocked call, as liblaio did.
    pub fn carry_streams(mut self, carry: bool) -> Options {
        self.carry_streams = carry;
        self
    }

    /// Sets what a call does at a limit.
    pub fn back_pressure(mut self, back_pressure: BackPressure) -> Options {
        self.back_pressure = back_pressure;
        self
    }

    /// Lets the context make a call on the **calling thread** that needs a helper while no thread can be
    /// started (`RLIMIT_NPROC`, `pids.max`, memory) and no helper is there. Otherwise such a call fails
    /// with `EAGAIN`, because the context must not block its caller. Only calls that end by themselves
    /// are made so: file I/O, names, metadata. [`Stats::made_by_caller`](crate::Stats) counts them.
    /// [`BackPressure::Wait`] implies it.
    pub fn call_without_threads(mut self, call: bool) -> Options {
        self.call_without_threads = call;
        self
    }

    /// Whether the calling thread may make calls for which no helper can be started.
    pub(crate) fn caller_makes_calls(&self) -> bool {
        self.call_without_threads || self.back_pressure == BackPressure::Wait
    }

    /// Injects faults, for tests.
    pub fn inject(mut self, inject: Inject) -> Options {
        self.inject = inject;
        self
    }

    /// Whether the `lazy` back end uses io_uring where it is available. It does by default.
    pub fn ring(mut self, ring: bool) -> Options {
        self.no_ring = !ring;
        self
    }

    /// Lets the `linux-aio` back end use `io_submit` also for requests that block in it: buffered
    /// I/O, and writes that extend a file. By default these go to helpers. With this option such
    /// calls **block the caller**, as in most programs that use Linux AIO; [`crate::AioCounts`]
    /// counts them and their time. The option exists for comparison with such programs.
    pub fn allow_blocking_aio(mut self, allow: bool) -> Options {
        self.allow_blocking_aio = allow;
        self
    }

    /// Promises that the names this context opens never lead to a FIFO, or to a device that waits in
    /// `open`. An `open` attempt then costs one system call instead of three. If the promise is broken,
    /// that `open` blocks the caller.
    pub fn trust_names(mut self, trust: bool) -> Options {
        self.trust_names = trust;
        self
    }

    /// Makes buffered writes to files of ext4 (and of ext2 and ext3, by the same driver) inline while the kernel's
    /// dirty pages are far from the limits at which it makes writers wait. These file systems have no non-blocking
    /// write, so without this option a helper makes each.
    ///
    /// The program accepts that such a write **may block the caller** nevertheless: for a commit of the journal, for
    /// a page that is being written or must be read first, for memory that must be reclaimed, for space on an almost
    /// full disk. `docs/decisions/065-trusted-writes.md` says how long that took. Writes with `O_DIRECT`, `O_SYNC`,
    /// `O_DSYNC` or flags, and those of more than 256 KiB, go to helpers.
    pub fn trust_writes(mut self, trust: bool) -> Options {
        self.trust_writes = trust;
        self
    }

    /// Sets whose rights calls in the background have; by default [`Rights::Thread`].
    pub fn rights(mut self, rights: Rights) -> Options {
        self.rights = Some(rights);
        self
    }

    /// Sets whose rights calls in the background have, unless these options say so already: for crates with
    /// another default.
    pub fn default_rights(mut self, rights: Rights) -> Options {
        self.rights.get_or_insert(rights);
        self
    }

    pub(crate) fn whose_rights(&self) -> Rights {
        self.rights.unwrap_or_default()
    }

    /// Sets the number of drivers of a [`Proactor`](crate::Proactor); a context has none. The default
    /// is [`Options::DRIVERS`].
    pub fn drivers(mut self, drivers: usize) -> Options {
        self.drivers = Some(drivers);
        self
    }

    /// The signal used to interrupt a helper whose operation is cancelled. By default `SIGSTKFLT`, or
    /// if that has a handler when the process first needs one, the highest real-time signal without a
    /// handler.
    ///
    /// The kernel refuses real-time signals when the processes of the user together have as many queued
    /// ones as `RLIMIT_SIGPENDING` allows. A context then sends its signal again every
    /// [`Limits::SIGNAL_RETRY`], in [`poll`](crate::Context::poll); a cancelled operation of a
    /// [`Proactor`](crate::Proactor) that has a thread of its own may run to its end.
    pub fn cancel_signal(mut self, signal: i32) -> Options {
        self.cancel_signal = Some(signal);
        self
    }
}

/// How `activations` notices that a call blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detector {
    /// Records of context switches (`perf_event_open`).
    Perf,
    /// A thread for each processor that runs only when nothing else does (`SCHED_IDLE`).
    Idle,
}

impl Detector {
    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Detector::Perf => "perf",
            Detector::Idle => "idle",
        }
    }

    /// A description.
    pub const fn means(self) -> &'static str {
        match self {
            Detector::Perf => "perf (records of context switches)",
            Detector::Idle => "idle (a thread for each processor that runs when nothing else does)",
        }
    }
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Detector {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "perf" => Ok(Detector::Perf),
            "idle" => Ok(Detector::Idle),
            _ => Err(format!(
                "there is no detector `{name}`; the detectors are perf, idle"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse() {
        for kind in BackendKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "kaio".parse::<BackendKind>().unwrap_err();
        assert!(error.contains("kaio") && error.contains("lazy"), "{error}");
    }
}
