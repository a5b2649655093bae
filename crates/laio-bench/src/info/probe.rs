//! Probes what this machine supports, as data.
//!
//! Each feature is probed by using it as the engine does. Nothing is left behind: files made for a
//! probe have no name.

mod directory;
mod perf;
mod restriction;
mod ring;

pub use directory::{Answer, Directory};
pub use perf::PerfEvents;
pub use restriction::Restriction;
pub use ring::IoUring;

use laio::{BackendKind, Context, Detector, Errno, Options};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::{ReadWriteFlags, preadv2};
use rustix::process::{Resource, getrlimit};
use std::fmt;
use std::str::FromStr;

/// Why a feature is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The errno from the kernel, or from a seccomp filter.
    pub errno: Errno,
    /// The meaning of that, in words.
    pub meaning: String,
}

impl Refusal {
    fn new(errno: Errno, meaning: impl Into<String>) -> Refusal {
        let meaning = meaning.into();
        Refusal { errno, meaning }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.errno, self.meaning)
    }
}

/// A resource limit, soft and hard; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// The soft limit.
    pub soft: Option<u64>,
    /// The hard limit.
    pub hard: Option<u64>,
}

/// The system limits that bound operations in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLimits {
    /// The number of descriptors of the process (`RLIMIT_NOFILE`).
    pub open_files: Ceiling,
    /// The number of processes and threads of the user (`RLIMIT_NPROC`).
    pub processes: Ceiling,
    /// Bytes of locked memory (`RLIMIT_MEMLOCK`): rings before Linux 5.12, and perf events.
    pub locked_memory: Ceiling,
    /// The number of threads of the system; like the limits below `None` if the kernel does not
    /// report it.
    pub threads_max: Option<u64>,
    /// The number of Linux AIO requests in the system.
    pub aio_max: Option<u64>,
    /// The number of those that are reserved now.
    pub aio_used: Option<u64>,
    /// The number of descriptors that one user's epoll sets may contain.
    pub epoll_watches: Option<u64>,
}

/// The features available to this process, independent of the file system.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The hardware's name, as `uname -m` prints it.
    pub architecture: String,
    /// io_uring, set up as the engine sets it up.
    pub io_uring: Result<IoUring, Refusal>,
    /// Perf events of the process's own threads: whether they report that another thread has
    /// blocked.
    pub perf: PerfEvents,
    /// The detector that the back end `activations` would use: it has succeeded in one hand-off.
    pub activations: Result<Detector, Refusal>,
    /// `preadv2` and `pwritev2` with `RWF_NOWAIT` reach the kernel.
    pub nowait: Result<(), Refusal>,
    /// `openat2` with `RESOLVE_CACHED` reaches the kernel.
    pub cached_open: Result<(), Refusal>,
    /// Linux AIO (`io_setup`) is available.
    pub linux_aio: Result<(), Refusal>,
    /// What the environment takes away.
    pub restrictions: Vec<Restriction>,
    /// The limits.
    pub limits: SystemLimits,
}

/// The default back end on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The back end.
    pub backend: BackendKind,
    /// What it consists of here: `lazy with io_uring`, `lazy with epoll and helper threads`, ….
    pub summary: String,
    /// The reason, in a sentence.
    pub reason: String,
}

impl Machine {
    /// Probes all features. Takes a few milliseconds.
    pub fn probe() -> Machine {
        let name = rustix::system::uname();
        Machine {
            kernel: name.release().to_string_lossy().into_owned(),
            architecture: name.machine().to_string_lossy().into_owned(),
            io_uring: IoUring::probe(),
            perf: PerfEvents::probe(),
            activations: activations(),
            nowait: reaches_kernel(nowait(), "Linux 4.14"),
            cached_open: reaches_kernel(cached_open(), "Linux 5.12"),
            linux_aio: context(BackendKind::LinuxAio)
                .map(drop)
                .map_err(aio_refusal),
            restrictions: Restriction::probe(),
            limits: SystemLimits::read(),
        }
    }

    /// Returns the back end that [`Context::new`] chooses here for [`Options::new`], and why. It
    /// makes a context to find out.
    ///
    /// # Errors
    /// A message: the environment variable names an unknown back end, or one that is not available
    /// here.
    pub fn choice(&self) -> Result<Choice, String> {
        let variable = Options::ENV_BACKEND;
        let wanted = BackendKind::from_environment().map_err(|_| {
            let name = std::env::var_os(variable).unwrap_or_default();
            let name = name.to_string_lossy();
            match BackendKind::from_str(&name) {
                Err(error) => format!("{variable}={name}: {error}"),
                Ok(_) => format!("{variable} is not valid text"),
            }
        })?;
        let context =
            Context::new(Options::new()).map_err(|errno| match (wanted, self.ring()) {
                (Some(BackendKind::Uring), Err(refusal)) => {
                    format!("{variable}=uring, but io_uring is not available here: {refusal}")
                }
                (Some(BackendKind::LinuxAio), _) => match &self.linux_aio {
                    Err(refusal) => {
                        format!(
                            "{variable}=linux-aio, but Linux AIO is not available here: {refusal}"
                        )
                    }
                    Ok(()) => format!("no context can be made: {errno}"),
                },
                _ => format!("no context can be made: {errno}"),
            })?;
        let backend = context.info().backend();
        let carried = match context.info().detector() {
            Some(Detector::Perf) => "activations: context-switch records report blocked calls",
            _ => "activations: idle-priority threads detect blocked calls",
        };
        let way = match (backend, context.info().has_ring()) {
            (BackendKind::Activations, _) => carried,
            (BackendKind::Lazy, true) => "lazy with io_uring",
            (BackendKind::Lazy, false) => "lazy with epoll and helper threads",
            (BackendKind::Sync, _) => "sync: plain calls, which block",
            (BackendKind::Threads, _) => "threads: helper threads for every call",
            (BackendKind::Hybrid, _) => "hybrid: epoll for streams, helper threads for the rest",
            (BackendKind::PosixAio, _) => {
                "posix-aio: the C library's AIO for files, the rest as hybrid"
            }
            (BackendKind::LinuxAio, _) => "linux-aio: Linux AIO for direct I/O, the rest as hybrid",
            (BackendKind::Uring, _) => "uring: io_uring for every call that has an operation",
            (kind, _) => kind.name(),
        };
        let traced = context.info().traced_by();
        let ring = match self.ring() {
            _ if backend == BackendKind::Uring => traced.map(|tracer| {
                format!(
                    "{tracer} traces this process, and does not see the names that io_uring gets"
                )
            }),
            _ if backend != BackendKind::Lazy => None,
            Ok(_) if context.info().has_ring() => Some("io_uring can be set up here".to_owned()),
            Ok(_) => Some(match traced {
                Some(tracer) => format!(
                    "io_uring is not used, because {tracer} traces this process and may change the names in its calls"
                ),
                None => "io_uring could not be set up a second time".to_owned(),
            }),
            Err(refusal) => Some(format!("io_uring is not available here ({refusal})")),
        };
        let asked = match wanted {
            Some(kind) => format!("{variable}={kind} asks for it"),
            None => "lazy is the default".to_owned(),
        };
        Ok(Choice {
            backend,
            summary: way.to_owned(),
            reason: match ring {
                Some(ring) => format!("{asked}; {ring}"),
                None => asked,
            },
        })
    }

    fn ring(&self) -> Result<&IoUring, &Refusal> {
        self.io_uring.as_ref()
    }
}

fn activations() -> Result<Detector, Refusal> {
    match context(BackendKind::Activations).map(|context| context.info().detector()) {
        Ok(detector) => Ok(detector.expect("it has one")),
        Err(errno) => {
            let meaning = match errno {
                _ if !BackendKind::Activations.is_built() => {
                    "laio has them on x86-64 with glibc only"
                }
                Errno::NOSYS => "a call is hidden by a filter",
                Errno::OPNOTSUPP => {
                    "programs cannot set their thread pointer here (no fsgsbase), or have a shadow stack"
                }
                Errno::ACCES | Errno::NOENT => {
                    "/proc does not show what the threads do: it is not mounted, or the process is not dumpable"
                }
                Errno::TIME => "no detector has noticed that a call blocked",
                Errno::PERM => "no detector works here, neither perf nor idle",
                _ => "a limit is reached",
            };
            Err(Refusal::new(errno, meaning.to_owned()))
        }
    }
}

fn context(kind: BackendKind) -> Result<Context, Errno> {
    Context::new(Options::new().backend(kind))
}

/// A read without waiting, of a descriptor that cannot be read.
fn nowait() -> rustix::io::Result<()> {
    let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    match preadv2(root, &mut [], 0, ReadWriteFlags::NOWAIT) {
        Err(rustix::io::Errno::BADF) => Ok(()),
        result => result.map(drop),
    }
}

/// An open by a name that may be cached.
fn cached_open() -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, "/", flags, Mode::empty(), ResolveFlags::CACHED) {
        Err(rustix::io::Errno::AGAIN) => Ok(()),
        result => result.map(drop),
    }
}

/// Explains the error of a harmless call, which a filter or an old kernel refused.
fn reaches_kernel(probe: rustix::io::Result<()>, since: &str) -> Result<(), Refusal> {
    let Err(errno) = probe else { return Ok(()) };
    let probe = Errno::from(errno);
    let meaning = match probe {
        Errno::NOSYS => format!("older than {since}, or hidden by a filter"),
        Errno::INVAL | Errno::OPNOTSUPP => format!("older than {since}"),
        Errno::PERM | Errno::ACCES => "forbidden by a filter, as in some containers".to_owned(),
        errno => errno.to_string(),
    };
    Err(Refusal::new(probe, meaning))
}

fn aio_refusal(errno: Errno) -> Refusal {
    let meaning = match errno {
        Errno::NOSYS => "not in this kernel, or hidden by a filter",
        Errno::PERM | Errno::ACCES => "forbidden by a filter, as in some containers",
        errno => return Refusal::new(errno, errno.to_string()),
    };
    Refusal::new(errno, meaning)
}

impl SystemLimits {
    fn read() -> SystemLimits {
        let ceiling = |resource| {
            let limit = getrlimit(resource);
            Ceiling {
                soft: limit.current,
                hard: limit.maximum,
            }
        };
        SystemLimits {
            open_files: ceiling(Resource::Nofile),
            processes: ceiling(Resource::Nproc),
            locked_memory: ceiling(Resource::Memlock),
            threads_max: setting("/proc/sys/kernel/threads-max"),
            aio_max: setting("/proc/sys/fs/aio-max-nr"),
            aio_used: setting("/proc/sys/fs/aio-nr"),
            epoll_watches: setting("/proc/sys/fs/epoll/max_user_watches"),
        }
    }
}

/// Returns the number in a file of `/proc/sys`.
fn setting<T: FromStr>(path: &str) -> Option<T> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_release_of_the_kernel() {
        assert_eq!(reaches_kernel(Ok(()), "Linux 1"), Ok(()));
        let refusal = reaches_kernel(Err(rustix::io::Errno::NOSYS), "Linux 1").unwrap_err();
        assert_eq!(refusal.errno, Errno::NOSYS);
        assert!(
            refusal
                .to_string()
                .starts_with("ENOSYS: older than Linux 1")
        );
    }

    #[test]
    fn limits_are_there() {
        let limits = SystemLimits::read();
        assert!(limits.open_files.soft.is_none_or(|files| files > 0));
        assert!(limits.threads_max.is_some());
    }
}
