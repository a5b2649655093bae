//! The context, through which a thread makes its system calls: construction and accessors. For the
//! calls see `calls.rs`, for their completions `poll.rs`.

use crate::background::activations::{self, Activations};
use crate::background::aio::Aio;
use crate::background::doorbell::Doorbell;
use crate::background::helpers::Helpers;
use crate::background::one_shot::OneShotThreads;
use crate::background::reactor::{Event, Reactor};
use crate::background::ring::{Reaped, Ring};
use crate::deadlines::Deadlines;
use crate::descriptors::Descriptors;
use crate::knowledge::Knowledge;
use crate::knowledge::mounts::{Mount, Mounts};
use crate::operation::{Operations, Slot, State};
use crate::options::BackPressure;
use crate::rights::{self, Rights};
use crate::signaller::Signaller;
use crate::strategy::{self, Strategy};
use crate::sys::fork::Life;
use crate::table::Class;
use crate::testing::Inject;
use crate::ticket::DroppedTickets;
use crate::{BackendKind, Errno, Handle, Limits, Options, Stats};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

/// What the context waits on: a ring or epoll. It also takes the operations that need neither a
/// helper nor AIO.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a context has one, and it never moves"
)]
pub(crate) enum Waiter {
    Ring(Ring),
    Reactor(Reactor),
}

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
    pub(crate) operations: Operations,
    pub(crate) knowledge: Knowledge,
    pub(crate) descriptors: Descriptors,
    pub(crate) waiter: Waiter,
    pub(crate) aio: Option<Aio>,
    pub(crate) helpers: Helpers,
    /// Threads that each make one call, for calls that must not run in an existing helper (see
    /// `rights.rs`).
    pub(crate) one_shot: OneShotThreads,
    pub(crate) rights: Rights,
    pub(crate) activations: Option<Activations>,
    pub(crate) doorbell: Arc<Doorbell>,
    /// Finished operations whose completions have not been delivered, oldest first.
    pub(crate) ready: VecDeque<Slot>,
    /// Typed operations, by slot.
    pub(crate) payloads: Vec<Option<Box<dyn Any>>>,
    pub(crate) dropped: DroppedTickets,
    pub(crate) deadlines: Deadlines,
    pub(crate) signaller: Option<Signaller>,
    /// Descriptors on which an operation has ended while others are queued.
    pub(crate) unblocked: Vec<RawFd>,
    pub(crate) stats: Stats,
    pub(crate) inline_since_poll: u32,
    /// Whether the pollable descriptor was handed out: from then on it must become readable even
    /// while no `poll` is running.
    pub(crate) exposed: bool,
    /// Whether a notifier was handed out: another thread may then end `poll`.
    pub(crate) notifiable: bool,
    pub(crate) reaped: Vec<Reaped>,
    pub(crate) events: Vec<Event>,
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
    ///   `ENOENT`, `EPERM` or `ETIME` if its conditions are not met.
    ///
    /// `lazy` works without a ring if io_uring is not available.
    pub fn new(options: Options) -> Result<Context, Errno> {
        let kind = match options.backend {
            Some(kind) => kind,
            None => BackendKind::from_environment()?.unwrap_or(BackendKind::Lazy),
        };
        let limits = options.limits;
        let doorbell = Arc::new(Doorbell::new()?);
        let strategies = strategy::of(kind, &options);
        let knowledge = Knowledge::new(kind, &options, &strategies);
        let mut waiter = Waiter::new(kind, &options, &doorbell, &knowledge.mounts)?;
        let aio = Aio::new(kind, &limits, options.allow_blocking_aio, &doorbell)?;
        if let (Some(ready_fd), Waiter::Reactor(reactor)) =
            (aio.as_ref().and_then(Aio::descriptor), &mut waiter)
        {
            reactor.set_aio(ready_fd)?;
        }
        let activations = Activations::for_kind(kind, &options, &doorbell)?;
        Ok(Context {
            kind,
            strategies,
            trivial_is_plain: strategies[Class::Instant as usize] == Strategy::Plain,
            inject: options.inject,
            limits,
            back_pressure: options.back_pressure,
            life: Life::current(),
            operations: Operations::new(limits.operations.clamp(1, OPERATIONS_MAX)),
            descriptors: Descriptors::default(),
            knowledge,
            waiter,
            aio,
            helpers: Helpers::new(
                doorbell.clone(),
                &limits,
                options.back_pressure == BackPressure::Wait,
                options.cancel_signal,
            ),
            one_shot: OneShotThreads::new(
                doorbell.clone(),
                &limits,
                options.back_pressure == BackPressure::Wait,
                options.cancel_signal,
            ),
            rights: Rights::new(options.settled_rights),
            activations,
            doorbell,
            ready: VecDeque::new(),
            payloads: Vec::new(),
            dropped: DroppedTickets::default(),
            deadlines: Deadlines::default(),
            signaller: None,
            unblocked: Vec::new(),
            stats: Stats::new(),
            inline_since_poll: 0,
            exposed: false,
            notifiable: false,
            reaped: Vec::new(),
            events: Vec::new(),
            thread_bound: PhantomData,
            options,
        })
    }

    /// Cancels an operation. Its completion still comes: `ECANCELED`, or the result if it finished
    /// first, or the bytes that were moved before. If an untyped call that opens or accepts a
    /// descriptor succeeded first, the descriptor is closed and the result is `ECANCELED`, unless
    /// its status word already has the result.
    ///
    /// # Errors
    /// `ENOENT` if the handle is not live: foreign, or its completion was delivered. `EALREADY` if it
    /// has finished by itself and its completion waits in `poll`. To cancel twice is no error.
    pub fn cancel(&mut self, handle: Handle) -> Result<(), Errno> {
        self.notice_fork();
        let slot = match self.in_flight(handle) {
            Err(Errno::ALREADY) if self.is_cancelled(handle) => return Ok(()),
            slot => slot?,
        };
        self.stats.cancelled += 1;
        self.cancel_slot(slot);
        self.unblock_queued();
        if self.exposed {
            self.arm_descriptor();
        }
        Ok(())
    }

    fn is_cancelled(&self, handle: Handle) -> bool {
        let slot = self.operations.find(handle);
        slot.is_some_and(|slot| self.operations[slot].cancelled)
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
        matches!(self.waiter, Waiter::Ring(_))
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
        if let Waiter::Ring(ring) = &self.waiter {
            stats.submissions = ring.submissions;
        }
        if let Some(activations) = &self.activations {
            (stats.handoffs, stats.false_wakeups) = activations.counts();
        }
        stats
    }

    /// The file system that an open file is on. Sends no request to a remote file system.
    pub fn mount_of(&mut self, file: impl AsFd) -> Option<&Mount> {
        let (_, mount) = self.knowledge.mounts.of(file.as_fd().as_raw_fd()).ok()?;
        mount.map(|mount| self.knowledge.mounts.get(mount))
    }

    /// A number that changes when file systems are mounted or unmounted. The context notices such
    /// changes in `poll`.
    pub fn mount_changes(&self) -> u64 {
        self.knowledge.mounts.changes()
    }
}

impl Waiter {
    fn new(
        kind: BackendKind,
        options: &Options,
        doorbell: &Doorbell,
        mounts: &Mounts,
    ) -> Result<Waiter, Errno> {
        use std::os::fd::AsRawFd;
        let wants_ring = match kind {
            BackendKind::Uring => true,
            BackendKind::Lazy => !options.no_ring,
            _ => false,
        };
        let changes_thread = activations::thread_has_carriers();
        if wants_ring && changes_thread && kind == BackendKind::Uring {
            return Err(Errno::BUSY);
        }
        if wants_ring && !changes_thread {
            let watched = mounts.descriptor().map(|fd| fd.as_raw_fd());
            match Ring::new(options.limits.ring_entries, watched) {
                Ok(ring) => {
                    rights::note_ring();
                    return Ok(Waiter::Ring(ring));
                }
                Err(errno) if kind == BackendKind::Uring => return Err(errno),
                // io_uring is absent, forbidden, or at a limit: `lazy` works without it.
                Err(_) => {}
            }
        }
        Ok(Waiter::Reactor(Reactor::new(
            doorbell.as_fd(),
            mounts.descriptor(),
        )?))
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
