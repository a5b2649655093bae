//! The ring of an event loop: the thread that polls the future of a read that would block submits the read,
//! and the loop takes its CQE when the loop's own epoll reports the ring, so that no other thread
//! is woken while reads follow each other.
//!
//! The event loop may stand still while something waits for one of these reads, and it may end. Therefore a
//! driver looks at the ring every [`Limits::LOOP_RING_TICK`] while reads are in flight.

mod reads;

use super::helper_pool::HelperPool;
use super::inbox::{Rest, Watched};
use super::shared::Shared;
use super::task::{AnyTask, Duty};
use crate::attempt::Why;
use crate::background::ring::set_up_for_threads;
use crate::operations::Link;
use crate::sys::fork::Life;
use crate::table::{Attempt, Opcode, Row};
use crate::{BackendKind, Errno, Limits, Rights};
use reads::{Reading, Reads, Taken};
use rustix::event::{PollFd, PollFlags, poll};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// An io_uring of an event loop, for reads of files that would block: made by
/// [`Proactor::loop_ring`](crate::Proactor::loop_ring), used by
/// [`Submission::in_loop`](crate::Submission::in_loop).
///
/// The event loop watches the descriptor for readability, and then calls [`LoopRing::take_completions`],
/// which wakes the tasks. A read that would block so costs one `io_uring_enter`, and no wakeup of another
/// thread while reads follow each other: the first one after a pause makes a driver look at the ring. Reads
/// on remote file systems (FUSE, network), into several buffers, and what is not a read go to a driver as
/// without the ring.
///
/// Clones are the same ring. It is open until [`LoopRing::close`].
#[derive(Clone)]
pub struct LoopRing(Arc<Inner>);

/// Returns the ring of the event loop that runs on the calling thread.
pub type FindLoopRing = fn() -> Option<LoopRing>;

struct Inner {
    /// A forked child must not use the ring, whose memory it shares with its parent.
    life: Life,
    proactor: Weak<Shared>,
    descriptor: RawFd,
    reads: Mutex<Reads>,
}

impl LoopRing {
    pub(super) fn new(shared: &Arc<Shared>) -> Result<LoopRing, Errno> {
        let options = &shared.options;
        if options.no_ring || options.backend != Some(BackendKind::Lazy) {
            return Err(Errno::OPNOTSUPP);
        }
        let ring = set_up_for_threads(options.limits.ring_entries)?;
        Ok(LoopRing(Arc::new(Inner {
            life: Life::current(),
            proactor: Arc::downgrade(shared),
            descriptor: ring.as_raw_fd(),
            reads: Mutex::new(Reads::new(ring)),
        })))
    }

    /// Takes the CQEs and ends their operations, which wakes their tasks. Returns how many operations have
    /// ended.
    ///
    /// Any thread may call this at any time.
    pub fn take_completions(&self) -> usize {
        self.0.take_completions()
    }

    /// Submits no more reads: those that would block go to a driver. Reads in flight end.
    pub fn close(&self) {
        if self.0.life.is_current() {
            self.0.lock().is_closed = true;
        }
    }

    /// Adds a read, which [`LoopRing::enter`] submits.
    ///
    /// # Errors
    /// The operation, if the ring does not take it.
    pub(super) fn push(
        &self,
        duty: Duty,
        rest: Rest,
        helpers: &Arc<HelperPool>,
    ) -> Result<(), (Duty, Rest)> {
        if !self.0.life.is_current() {
            return Err((duty, rest));
        }
        let mut reads = self.0.lock();
        let refused = if reads.is_queue_full() {
            reads.submit()
        } else {
            Vec::new()
        };
        if !reads.has_room() {
            drop(reads);
            refused.into_iter().for_each(Reading::go_to_helper);
            return Err((duty, rest));
        }
        helpers.begin_in_ring(&duty);
        let added = reads.add(Reading {
            duty,
            rest,
            helpers: helpers.clone(),
            is_cancelled: false,
        });
        let watch = added.is_ok() && !std::mem::replace(&mut reads.is_watched, true);
        drop(reads);
        refused.into_iter().for_each(Reading::go_to_helper);
        if watch {
            helpers.watch(self.0.clone());
        }
        added.map_err(|Reading { duty, rest, .. }| {
            helpers.end_in_ring(&duty);
            (duty, rest)
        })
    }

    /// Cancels an operation that was added before. Returns false if it has left the ring.
    pub(super) fn cancel(&self, task: &Arc<dyn AnyTask>) -> bool {
        let (found, refused) = self.0.lock().cancel(|reading| reading.duty.is_for(task));
        refused.into_iter().for_each(Reading::go_to_helper);
        found > 0
    }

    /// Whether the ring was made by this proactor, whose drivers look at it.
    pub(super) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        std::ptr::eq(self.0.proactor.as_ptr(), Arc::as_ptr(shared))
    }

    /// Submits what was added. What the kernel does not take goes to helpers.
    pub(super) fn enter(&self) {
        if !self.0.life.is_current() {
            return;
        }
        let refused = self.0.lock().submit();
        refused.into_iter().for_each(Reading::go_to_helper);
    }
}

impl Watched for Inner {
    /// Takes the CQEs that the event loop has left since the last look, or that a closed ring has. Returns
    /// whether reads are in flight; otherwise the next read has the ring watched again.
    fn look(&self) -> bool {
        let mut reads = self.lock();
        if reads.in_flight() == 0 {
            reads.is_watched = false;
            return false;
        }
        if reads.were_left() || reads.is_closed {
            let taken = reads.take();
            drop(reads);
            end(taken);
        }
        true
    }

    /// Closes the ring, cancels all reads, and waits until no read is in flight.
    fn stop(&self) {
        let mut reads = self.lock();
        reads.is_closed = true;
        let (_, refused) = reads.cancel(|_| true);
        drop(reads);
        refused.into_iter().for_each(Reading::go_to_helper);
        while !self.wait_for_end(Limits::LOOP_RING_TICK) {}
    }
}

/// Ends operations, which runs code of the program. Returns how many have ended here.
fn end(taken: Taken) -> usize {
    let Taken { over, refused } = taken;
    let count = over.len();
    over.into_iter().for_each(Reading::end);
    refused.into_iter().for_each(Reading::go_to_helper);
    count
}

impl Inner {
    fn take_completions(&self) -> usize {
        if !self.life.is_current() {
            return 0;
        }
        let taken = self.lock().take();
        end(taken)
    }

    /// Waits until no read is in flight. Returns false if `timeout` has passed before.
    fn wait_for_end(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        let timespec = |left| rustix::time::Timespec::try_from(left).ok();
        while self.lock().in_flight() > 0 {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            let descriptor = crate::sys::borrow(self.descriptor);
            let mut ready = descriptor.map(|ring| PollFd::from_borrowed_fd(ring, PollFlags::IN));
            let _ = poll(ready.as_mut_slice(), timespec(left).as_ref());
            self.take_completions();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Reads> {
        self.reads
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Whether a ring can take what an attempt has left of an operation on a local, regular file that waits for
/// no other operation.
pub(super) fn takes(
    shared: &Shared,
    has_ring: bool,
    row: &Row,
    rest: &Rest,
    links: &[Link; 2],
) -> bool {
    let may_wait = matches!(
        rest.why,
        Why::WouldBlock | Why::ExpectedToBlock | Why::UsuallyBlocks
    );
    may_wait
        && row.opcode == Some(Opcode::Read)
        && row.attempt == Attempt::NowaitRead
        && has_ring
        && rest.provisional.is_none()
        && !links[1].is_used()
        && shared.options.inject == Default::default()
        // A thread with a table of descriptors of its own may share the ring with others.
        && shared.options.whose_rights() != Rights::Thread
}

impl Drop for Inner {
    fn drop(&mut self) {
        let ended = self.life.is_current() && self.wait_for_end(Limits::LENT);
        let reads = self.reads.get_mut();
        let reads = reads.unwrap_or_else(|poisoned| poisoned.into_inner());
        if ended {
            reads.close_ring();
        } else {
            // Also in a forked child, whose parent uses the ring.
            reads.leak();
        }
    }
}

impl AsFd for LoopRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        crate::sys::borrow(self.0.descriptor).expect("a descriptor has no negative number")
    }
}

impl AsRawFd for LoopRing {
    fn as_raw_fd(&self) -> RawFd {
        self.0.descriptor
    }
}

impl fmt::Debug for LoopRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopRing")
            .field("descriptor", &self.0.descriptor)
            .finish_non_exhaustive()
    }
}
