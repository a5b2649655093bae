//! The context, through which a thread makes its system calls: construction and accessors. For the
//! calls see `calls.rs`, for their completions `poll.rs`.

use crate::background::{Background, Steps};
use crate::composition::{Composition, Strategy};
use crate::knowledge::Knowledge;
use crate::knowledge::mounts::Mount;
use crate::operations::{Operations, State};
use crate::ops::FileStatus;
use crate::options::BackPressure;
use crate::signaller::Signaller;
use crate::sys::fork::Life;
use crate::table::Class;
use crate::testing::Inject;
use crate::{BackendKind, Errno, Handle, Limits, Options, Stats};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;

/// Makes system calls for one thread, and owns those that went to the background.
///
/// A context belongs to the thread that made it. Any number of threads may have contexts, and a thread
/// may have several.
///
/// Dropping a context cancels its operations and waits until the kernel no longer uses their
/// buffers.
pub struct Context {
    pub(crate) kind: BackendKind,
    pub(crate) strategies: [Strategy; Class::COUNT],
    /// Whether trivial calls ([`crate::table::find_trivial`]) are made inline: in every back end but
    /// `threads`.
    pub(crate) trivial_is_plain: bool,
    pub(crate) inject: Inject,
    pub(crate) limits: Limits,
    pub(crate) back_pressure: BackPressure,
    pub(crate) options: Options,
    pub(crate) life: Life,
    pub(crate) knowledge: Knowledge,
    /// Before the operations, whose memory its threads may still use: fields drop in this order.
    pub(crate) background: Background,
    pub(crate) operations: Operations,
    pub(crate) dropped: DroppedTickets,
    pub(crate) signaller: Option<Signaller>,
    pub(crate) stats: Stats,
    pub(crate) inline_since_poll: u32,
    /// The steps that were reaped; empty but for its memory, while nothing is reaped.
    pub(crate) steps: Steps,
    /// Makes the type `!Send`: the ring and the helpers' credentials belong to the thread.
    thread_bound: PhantomData<*mut ()>,
}

/// The largest limit of operations. Extra slots may double it, and a link reference (twice the slot,
/// plus 1 or 2) must fit into 32 bits.
const OPERATIONS_MAX: u32 = 1 << 30;

impl Context {
    /// Makes a context for the calling thread.
    ///
    /// Without [`Options::backend`], the back end is the one that [`Options::ENV_BACKEND`] names, else
    /// `lazy`.
    ///
    /// # Errors
    /// - Every back end: `EINVAL` if the environment names an unknown back end; `EMFILE` or
    ///   `ENFILE` if no descriptors are left.
    /// - `uring`: the errno of io_uring's set-up (`ENOSYS`, `EPERM`, `EACCES`, `ENOMEM`;
    ///   `EOPNOTSUPP` on Linux before 5.11); `EBUSY` if the thread has contexts with `activations`.
    /// - `linux-aio`: the errno of `io_setup` (`ENOSYS`, `EPERM`).
    /// - `activations`: `EBUSY` if the thread has contexts with io_uring; `EOPNOTSUPP`, `EACCES`,
    ///   `ENOENT`, `EPERM` or `ETIME` if its conditions are not met; `ENOSYS` unless
    ///   [`BackendKind::is_built`].
    ///
    /// `lazy` works without a ring if io_uring is not available.
    pub fn new(options: Options) -> Result<Context, Errno> {
        let kind = match options.backend {
            Some(kind) => kind,
            None => BackendKind::from_environment()?.unwrap_or(BackendKind::Lazy),
        };
        let limits = options.limits;
        let composition = Composition::for_backend(kind, &options);
        let strategies = composition.strategies;
        let knowledge = Knowledge::new(&composition, &options);
        let background = Background::new(&composition, &options, knowledge.mounts.descriptor())?;
        Ok(Context {
            kind,
            strategies,
            trivial_is_plain: strategies[Class::Instant as usize] == Strategy::Plain,
            inject: options.inject,
            limits,
            back_pressure: options.back_pressure,
            life: Life::current(),
            operations: Operations::new(limits.operations.clamp(1, OPERATIONS_MAX)),
            knowledge,
            background,
            dropped: DroppedTickets::default(),
            signaller: None,
            stats: Stats::new(),
            inline_since_poll: 0,
            steps: Vec::new(),
            thread_bound: PhantomData,
            options,
        })
    }

    /// Changes the word that the completion of an operation will carry.
    ///
    /// # Errors
    /// `ENOENT` if the handle is not live: foreign, or its completion was delivered.
    pub fn set_user_data(&mut self, handle: Handle, user_data: u64) -> Result<(), Errno> {
        self.notice_fork();
        let slot = self.operations.find(handle).ok_or(Errno::NOENT)?;
        if self.operations[slot].state == State::Delivered {
            return Err(Errno::NOENT);
        }
        self.operations[slot].user_data = user_data;
        Ok(())
    }

    /// Makes all calls on a descriptor complete in the order in which they were made, also positioned
    /// reads and writes, which otherwise may overtake each other. Lasts until the descriptor is closed.
    ///
    /// # Errors
    /// `EBADF` if it is not open.
    pub fn set_ordered(&mut self, fd: RawFd, ordered: bool) -> Result<(), Errno> {
        self.notice_fork();
        let descriptor = crate::sys::borrow(fd).ok_or(Errno::BADF)?;
        rustix::io::fcntl_getfd(descriptor)?;
        self.knowledge.hints.set_ordered(fd, ordered);
        Ok(())
    }

    /// Forgets the cached hints about a descriptor. Call it after closing the descriptor other than
    /// through the context, if its number may be used again. Omitting it costs time, not
    /// correctness, except that a file opened under the number of a stream may see short reads.
    pub fn forget(&mut self, fd: RawFd) {
        self.notice_fork();
        self.knowledge.hints.forget(fd);
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.background.has_ring()
    }

    /// Whether [`Send::zero_copy`](crate::ops::Send::zero_copy) is available: with a ring, on Linux
    /// 6.0 or later.
    pub fn sends_without_copy(&self) -> bool {
        self.background.sends_without_copy()
    }

    /// Operations in flight, not yet delivered, or not yet taken.
    pub fn pending(&self) -> usize {
        if self.life.is_current() {
            self.operations.live() as usize
        } else {
            // A forked child does not own them.
            0
        }
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        self.background.add_counts(&mut stats);
        stats
    }

    /// The file system that an open file is on. Sends no request to a remote file system.
    pub fn mount_of(&mut self, file: impl AsFd) -> Option<&Mount> {
        let (_, mount) = self.knowledge.mounts.of(file.as_fd().as_raw_fd()).ok()?;
        mount.map(|mount| self.knowledge.mounts.get(mount))
    }

    /// The file system that a file with this status is on.
    pub fn mount_of_status(&mut self, status: &FileStatus) -> Option<&Mount> {
        let (device, id) = (status.device(), status.mount().unwrap_or(0));
        let mount = self.knowledge.mounts.find_device(device, id)?;
        Some(self.knowledge.mounts.get(mount))
    }

    /// A number that changes when file systems are mounted or unmounted. The context notices such
    /// changes in `poll`.
    pub fn mount_changes(&self) -> u64 {
        self.knowledge.mounts.changes()
    }

    /// Resets the context if this process is a forked child that inherited it.
    #[inline]
    pub(crate) fn notice_fork(&mut self) {
        if !self.life.is_current() {
            self.reset_in_child();
        }
    }

    /// Replaces the context in a forked child: operations, ring, helpers and epoll set belong to
    /// the parent.
    #[cold]
    fn reset_in_child(&mut self) {
        let mut fresh = match Context::new(self.options.clone()) {
            Ok(fresh) => fresh,
            // Without descriptors or memory for more, fall back to the back end that needs neither.
            Err(_) => match Context::new(self.options.clone().backend(BackendKind::Sync)) {
                Ok(fresh) => fresh,
                Err(errno) => panic!("laio: no context can be made after fork: {errno}"),
            },
        };
        fresh.background.notifiable = self.background.notifiable;
        let doorbell = fresh.background.doorbell();
        let inherited = self.background.doorbell();
        inherited.pass_on(doorbell.clone());
        // The child may have used a notifier before it used the context.
        if inherited.is_notified() {
            doorbell.keep_notification();
        }
        // Dropping the old context releases the inherited state.
        *self = fresh;
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("backend", &self.kind)
            .field("ring", &self.has_ring())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

/// The operations of a context whose tickets were dropped. The context abandons them by the function
/// beside the handle, which knows their type.
#[derive(Clone, Default)]
pub(crate) struct DroppedTickets(Rc<RefCell<Vec<(Handle, Abandon)>>>);

type Abandon = fn(&mut Context, Handle);

impl DroppedTickets {
    pub(crate) fn push(&self, handle: Handle, abandon: Abandon) {
        self.0.borrow_mut().push((handle, abandon));
    }

    pub(crate) fn pop(&self) -> Option<(Handle, Abandon)> {
        self.0.borrow_mut().pop()
    }

    /// Whether both are of the same context.
    pub(crate) fn is(&self, other: &DroppedTickets) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
