//! The ring of an event loop: the thread that polls the future of a read that would block submits the read,
//! and the loop takes its CQE when the loop's own epoll reports the ring, so that no other thread is woken.
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
use crate::{BackendKind, Errno, Limits, Options};
use reads::{Reading, Reads, Taken};
use rustix::event::{PollFd, PollFlags, poll};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// An io_uring of an event loop, for reads of files that would block: made by
/// [`Proactor::loop_ring`](crate::Proactor::loop_ring), used by
/// [`Submission::in_loop`](crate::Submission::in_loop).
///
/// The event loop watches the descriptor for readability, and then calls [`LoopRing::take_completions`],
/// which wakes the tasks. A read that would block so costs one `io_uring_enter`, and no wakeup of another
/// thread. Reads on remote file systems (FUSE, network), into several buffers, and what is not a read go to
/// a driver as without the ring.
///
/// Clones are the same ring. It is open until [`LoopRing::close`].
#[derive(Clone)]
pub struct LoopRing(Arc<Inner>);

/// Returns the ring of the event loop that runs on the calling thread.
pub type FindLoopRing = fn() -> Option<LoopRing>;

struct Inner {
    /// A forked child must not use the ring, whose memory it shares with its parent.
    life: Life,
    descriptor: RawFd,
    is_closed: AtomicBool,
    reads: Mutex<Reads>,
}

impl LoopRing {
    pub(super) fn new(options: &Options) -> Result<LoopRing, Errno> {
        if options.no_ring || options.backend != Some(BackendKind::Lazy) {
            return Err(Errno::OPNOTSUPP);
        }
        let ring = set_up_for_threads(options.limits.ring_entries)?;
        Ok(LoopRing(Arc::new(Inner {
            life: Life::current(),
            descriptor: ring.as_raw_fd(),
            is_closed: AtomicBool::new(false),
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
        self.0.is_closed.store(true, Relaxed);
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
        if self.0.is_closed.load(Relaxed) || !self.0.life.is_current() {
            return Err((duty, rest));
        }
        let mut reads = self.0.lock();
        if !reads.has_room() {
            return Err((duty, rest));
        }
        helpers.begin_line(&duty);
        let added = reads.add(Reading {
            duty,
            rest,
            helpers: helpers.clone(),
            is_cancelled: false,
        });
        let watch = added.is_ok() && !std::mem::replace(&mut reads.is_watched, true);
        drop(reads);
        if watch {
            helpers.watch(self.0.clone());
        }
        added.map_err(|Reading { duty, rest, .. }| {
            helpers.end_line_of(&duty);
            (duty, rest)
        })
    }

    /// Cancels an operation that was added before, if it is still in flight.
    pub(super) fn cancel(&self, task: &Arc<dyn AnyTask>) {
        let refused = self.0.lock().cancel(|reading| reading.duty.is_for(task));
        refused.into_iter().for_each(Reading::go_to_helper);
    }

    /// Submits what was added. What the kernel does not take goes to helpers.
    pub(super) fn enter(&self) {
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
        if reads.were_left() || self.is_closed.load(Relaxed) {
            let taken = reads.take();
            drop(reads);
            end(taken);
        }
        true
    }

    /// Closes the ring, cancels all reads, and waits until no read is in flight.
    fn stop(&self) {
        self.is_closed.store(true, Relaxed);
        let refused = self.lock().cancel(|_| true);
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
}

impl Drop for Inner {
    fn drop(&mut self) {
        let ended = self.life.is_current() && self.wait_for_end(Limits::LENT);
        let reads = self.reads.get_mut();
        let reads = reads.unwrap_or_else(|poisoned| poisoned.into_inner());
        if ended {
            reads.free();
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
