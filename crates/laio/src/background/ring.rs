//! The io_uring of one context: submission in batches, waiting, and from CQEs to what comes next.
//! [`prepare`] makes the SQEs.

mod failing;
mod opened;
mod polls;
mod prepare;
mod setup;
mod workers;

use super::doorbell::Doorbell;
use super::threads::Threads;
use super::{Noticed, Steps};
use crate::attempt::Why;
use crate::knowledge::facts;
use crate::operations::{InFlight, Operations, Part, Slot, State};
use crate::step::{self, Next, total};
use crate::table::{Opcode, Row};
use crate::{Errno, Handle, Limits, Options, Stats, ZeroCopyCounts};
use failing::Failing;
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use opened::Opened;
use polls::{Polled, Polls};
use setup::{Counted, Opcodes, rings_of_thread, set_up};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;
use workers::Workers;

pub(crate) use prepare::read_entry;
pub(crate) use setup::{set_up_for_threads, thread_has_rings};

/// A CQE of an operation.
#[derive(Clone, Copy, Debug)]
struct Cqe {
    /// The handle of an operation; see [`crate::Handle::to_raw`].
    handle: u64,
    result: i32,
    /// As the kernel has written them, so that a CQE is copied as a whole.
    flags: u32,
}

/// Which of its operation's CQEs this is. Only zero-copy sends have more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CqeKind {
    /// The only CQE.
    Only,
    /// The result of a zero-copy send; the kernel still uses the memory.
    Result,
    /// The notification: the kernel no longer uses the memory.
    Notification,
}

impl Cqe {
    #[inline]
    fn kind(&self) -> CqeKind {
        match (cqueue::notif(self.flags), cqueue::more(self.flags)) {
            (true, _) => CqeKind::Notification,
            (false, true) => CqeKind::Result,
            (false, false) => CqeKind::Only,
        }
    }
}

/// The ring, and the poll requests that the context itself has on it.
pub(crate) struct Ring {
    ring: ManuallyDrop<IoUring>,
    opcodes: Opcodes,
    workers: Workers,
    /// Entries pushed and not yet submitted.
    unsubmitted: u32,
    /// See [`Ring::has_batch`].
    batch: u32,
    /// Entries of operations in the kernel or the queue whose completion has not been reaped.
    outstanding: u32,
    /// The operations among these that wait for a device or a file system.
    on_files: u32,
    /// Whether the kernel has `IORING_ENTER_NO_IOWAIT`: since Linux 6.15.
    has_no_iowait: bool,
    /// CQEs taken from the completion queue and not yet returned by [`Ring::take_cqes`], which
    /// all CQEs pass through; it keeps CQEs longer only if the queue had to be emptied early.
    backlog: Vec<Cqe>,
    polls: Polls,
    /// Slots of operations for which a cancel request returned ENOENT.
    failed_cancels: Vec<Slot>,
    /// Operations whose cancel requests the submission queue did not take.
    untaken_cancels: Vec<Handle>,
    submissions: u64,
    /// The errno with which the kernel has refused the last `io_uring_enter` for lack of memory.
    refused: Option<Errno>,
    /// How often in a row the kernel has refused to wait, without a CQE to reap.
    refusals: u32,
    zero_copy: ZeroCopyCounts,
    /// The buffer of [`Ring::take_cqes`], empty between two calls of [`Ring::reap`].
    cqes: Vec<Cqe>,
    /// Whether polling the ring's own descriptor reports all completions, so that the doorbell is not registered. True
    /// before Linux 5.18: these kernels defer no task work, and registering an eventfd waits until nothing is in flight
    /// (seen on 5.10), but the poll of the doorbell always is.
    is_pollable: bool,
    /// Whether the kernel signals each CQE to the doorbell's eventfd.
    signals_doorbell: bool,
    /// See [`Options::trust_names`].
    trust_names: bool,
    /// The injected bound of one step; 0 for none.
    short: usize,
    failing: Failing,
    _counted: Counted,
}

/// The user data of the first cancel request: there is one value for each slot.
const CANCEL: u64 = polls::FIRST_OTHER;

impl Ring {
    /// A ring for the calling thread; see [`set_up`] for errors.
    pub(crate) fn new(options: &Options, mounts: Option<RawFd>) -> Result<Ring, Errno> {
        let (ring, opcodes) = set_up(options.limits.ring_entries)?;
        Ok(Ring {
            _counted: Counted::new(),
            workers: Workers::for_ring(&ring, options.limits.ring_entries),
            has_no_iowait: ring.params().is_feature_no_iowait(),
            on_files: 0,
            ring: ManuallyDrop::new(ring),
            opcodes,
            unsubmitted: 0,
            batch: Limits::BATCH,
            outstanding: 0,
            backlog: Vec::new(),
            polls: Polls::new(mounts),
            failed_cancels: Vec::new(),
            untaken_cancels: Vec::new(),
            submissions: 0,
            refused: None,
            refusals: 0,
            zero_copy: ZeroCopyCounts::default(),
            cqes: Vec::new(),
            trust_names: options.trust_names,
            short: options.inject.short_transfer,
            failing: Failing::new(options.inject.failing_entry),
            is_pollable: facts::kernel_version() < (5, 18),
            signals_doorbell: false,
        })
    }

    fn opcodes(&self) -> &Opcodes {
        &self.opcodes
    }

    /// Whether the ring should take an operation of this row, or operations by name leave it no worker.
    /// `regular`: see [`InFlight::regular`].
    pub(crate) fn may_take(&mut self, row: &Row, regular: bool) -> bool {
        !workers::may_need_one(row, regular) || !self.workers.are_occupied(rings_of_thread())
    }

    /// Whether the kernel has zero-copy sends.
    pub(crate) fn sends_without_copy(&self) -> bool {
        self.opcodes.has(opcode::SendZc::CODE)
    }

    /// Adds the ring's counts to the statistics.
    pub(crate) fn add_counts(&self, stats: &mut Stats) {
        stats.submissions = self.submissions;
        stats.zero_copy.sends = self.zero_copy.sends;
        stats.zero_copy.copied = self.zero_copy.copied;
        stats.zero_copy.ordinary += self.zero_copy.ordinary;
    }

    /// Bytes of memory held, without the kernel's side.
    pub(crate) fn memory(&self) -> usize {
        (self.cqes.capacity() + self.backlog.capacity()) * size_of::<Cqe>()
    }

    /// Queues an operation; it is submitted with others at the next [`Ring::submit`] or wait.
    ///
    /// # Safety
    /// What the entry points to stays valid until its completion has been reaped.
    unsafe fn push(&mut self, entry: squeue::Entry, handle: u64) -> Result<(), Errno> {
        let entry = self.failing.entry(entry, handle);
        // SAFETY: forwarded to the caller.
        unsafe { self.push_entry(&entry.user_data(handle))? };
        self.outstanding += 1;
        Ok(())
    }

    /// # Safety
    /// As for [`Ring::push`].
    unsafe fn push_entry(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        // SAFETY: by the caller.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The submission queue is full: submitting empties it, unless the kernel wants its
            // completions reaped first.
            self.submit()?;
            if self.ring.submission().is_full() {
                self.take_to_backlog();
                if self.backlog.is_empty() {
                    return Err(Errno::AGAIN);
                }
            }
        }
        self.unsubmitted += 1;
        Ok(())
    }

    /// Queues a cancel request for an operation. The operation's own CQE still comes. If the
    /// submission queue does not take the request, the next [`Ring::watch`] queues it.
    pub(crate) fn cancel(&mut self, handle: Handle) {
        if self.push_cancel(handle).is_err() {
            self.untaken_cancels.push(handle);
        }
    }

    fn push_cancel(&mut self, handle: Handle) -> Result<(), Errno> {
        let data = CANCEL + ((handle.slot() as u64) << 32);
        let entry = opcode::AsyncCancel::new(handle.to_raw());
        let entry = entry.build().user_data(data);
        // SAFETY: the entry points to nothing.
        unsafe { self.push_entry(&entry) }
    }

    /// The number of entries that are not submitted yet.
    #[inline]
    pub(crate) fn unsubmitted(&self) -> u32 {
        self.unsubmitted
    }

    /// Whether so many entries are queued that they are submitted at once: a device should not wait
    /// for the rest of what the program starts. Batches grow while each is complete when it has been
    /// submitted, because then no device waits.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        self.unsubmitted >= self.batch
    }

    /// Chooses the size of the next batch, after a submission.
    fn adapt_batch(&mut self) {
        let complete = self.backlog.len() + self.ring.completion().len();
        self.batch = if complete >= self.outstanding as usize {
            (self.batch * 2).min(Limits::BATCH_MAX)
        } else {
            Limits::BATCH
        };
    }

    /// Submits the queued entries, without waiting.
    pub(crate) fn submit(&mut self) -> Result<(), Errno> {
        self.enter(0, None).map(|_| ())
    }

    /// Registers the doorbell's eventfd, so that the kernel signals each CQE, including those that
    /// deferred task work holds back: polling the ring's own descriptor does not report these.
    pub(crate) fn expose(&mut self, doorbell: &Doorbell) -> Result<(), Errno> {
        if self.is_pollable {
            return Ok(());
        }
        match self
            .ring
            .submitter()
            .register_eventfd(doorbell.as_fd().as_raw_fd())
        {
            Err(error) if Errno::from(&error) != Errno::BUSY => return Err(error.into()),
            // Registered before.
            _ => self.signals_doorbell = true,
        }
        Ok(())
    }

    /// Registers the eventfd again after it was signalled. CQEs posted meanwhile do not signal it:
    /// the caller reaps after this.
    ///
    /// Since Linux 6.11 (seen on 6.18), a CQE posted while another eventfd is being written is
    /// signalled with a delay. The kernel marks that signal as pending, never clears the mark, and so
    /// sends no further one; registering again does.
    pub(crate) fn expose_again(&mut self, doorbell: &Doorbell) -> Result<(), Errno> {
        if self.is_pollable {
            return Ok(());
        }
        match self.ring.submitter().unregister_eventfd() {
            // ENXIO: the last registration failed after it had been removed.
            Err(error) if Errno::from(&error) != Errno::NXIO => Err(error.into()),
            _ => self.expose(doorbell),
        }
    }

    /// Returns the descriptor that is readable when there are completions: the doorbell, once it is exposed, or the
    /// ring's own, which also reports the doorbell while the ring polls that.
    pub(crate) fn pollable<'a>(&'a self, doorbell: &'a Doorbell) -> BorrowedFd<'a> {
        if self.is_pollable {
            // SAFETY: the ring lives as long as the borrow, and so does its descriptor.
            unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
        } else {
            doorbell.as_fd()
        }
    }

    /// Waits at most `timeout` for CQEs, and reaps the steps that have finished. `doorbell`: if it
    /// may end the wait.
    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        doorbell: Option<&Doorbell>,
        operations: &mut Operations,
        threads: &mut Threads,
        steps: &mut Steps,
    ) -> Result<Noticed, Errno> {
        let mut interrupted = false;
        if timeout != Some(Duration::ZERO) {
            interrupted = self.sleep(doorbell, timeout)?;
        } else {
            // A program that never sleeps must notice a new file system too.
            match self.watch(None) {
                // The next call asks again.
                Err(Errno::AGAIN) => {}
                watched => watched?,
            }
            if self.unsubmitted > 0 {
                self.submit()?;
            }
        }
        self.reap(operations, threads, steps)?;
        // Also if the doorbell was never armed: draining it is harmless then. While the kernel signals CQEs
        // to it, it may only be drained before they are reaped.
        if let Some(doorbell) = doorbell
            && !self.polls.is_armed(Polled::Doorbell)
            && !self.signals_doorbell
        {
            doorbell.drain();
        }
        Ok(Noticed {
            interrupted,
            watched_mounts: true,
            mounts_changed: self.polls.take_fired(Polled::Mounts),
            timer_expired: self.polls.take_fired(Polled::Timer),
            ..Noticed::default()
        })
    }

    /// Reaps the steps that have finished.
    fn reap(
        &mut self,
        operations: &mut Operations,
        threads: &mut Threads,
        steps: &mut Steps,
    ) -> Result<(), Errno> {
        let mut cqes = std::mem::take(&mut self.cqes);
        let result = self.take_cqes(&mut cqes);
        for cqe in cqes.drain(..) {
            let handle = Handle::from_raw(cqe.handle).expect("the ring's entries carry handles");
            let slot = operations.live_slot(handle);
            let operation = &mut operations[slot];
            let is_call = matches!(operation.state, State::With(Part::Ring | Part::RingWorker));
            if is_call {
                self.note_end(operation);
            }
            if cqe.kind() != CqeKind::Only && self.is_notification(operation, &cqe) {
                if operation.state == State::AwaitingNotif && operation.awaiting_notif == 0 {
                    steps.push((slot, Next::Finished(operation.result)));
                }
                continue;
            }
            let step = match self.unfinished(operation, &cqe) {
                Ok(step) => step,
                Err(result) => {
                    let rights_changed = threads.refused_by_other_rights(operation, result);
                    step::after_result(operation, result, self.short, rights_changed)
                }
            };
            steps.push((slot, step));
        }
        self.cqes = cqes;
        result
    }

    /// A call that the ring has made is over.
    fn note_end(&mut self, operation: &InFlight) {
        if workers::occupies_one(operation.row) {
            self.workers.end(operation.ring_epoch);
        }
        self.on_files -= u32::from(workers::may_need_one(operation.row, operation.regular));
    }

    /// Submits, and waits for a CQE; `None` waits for ever. A time-out or a signal ends the wait
    /// without an error. Returns whether the wait was interrupted (`EINTR`).
    fn sleep(
        &mut self,
        doorbell: Option<&Doorbell>,
        timeout: Option<Duration>,
    ) -> Result<bool, Errno> {
        // A ring that signals the doorbell does not poll it: see `sleep_on_doorbell`.
        let signalled = doorbell.filter(|_| self.signals_doorbell);
        match self.watch(doorbell.filter(|_| signalled.is_none())) {
            // The submission queue is full, and the kernel takes no entries.
            Err(Errno::AGAIN) => {
                self.pause(Errno::AGAIN, timeout)?;
                return Ok(false);
            }
            watched => watched?,
        }
        if let Some(doorbell) = signalled {
            return self.sleep_on_doorbell(doorbell, timeout);
        }
        let may_sleep = self.backlog.is_empty() && self.untaken_cancels.is_empty();
        let want = u32::from(may_sleep);
        self.refused = None;
        let interrupted = self.enter(want, timeout)?;
        match self.refused.take() {
            Some(errno) if self.backlog.is_empty() => self.pause(errno, timeout)?,
            _ => {}
        }
        Ok(interrupted)
    }

    /// The same on the doorbell's eventfd, to which the kernel signals CQEs. The ring does not poll that
    /// eventfd: the CQE of the poll would signal it in turn, some milliseconds later (Linux 6.11 and
    /// later), for ever.
    fn sleep_on_doorbell(
        &mut self,
        doorbell: &Doorbell,
        timeout: Option<Duration>,
    ) -> Result<bool, Errno> {
        use rustix::event::{PollFd, PollFlags, poll};
        self.refused = None;
        self.submit()?;
        if self.has_completions() || !self.untaken_cancels.is_empty() {
            return Ok(false);
        }
        if let Some(errno) = self.refused.take() {
            self.pause(errno, timeout)?;
            return Ok(false);
        }
        let timeout = timeout.and_then(|time| time.try_into().ok());
        let mut events = [PollFd::new(doorbell, PollFlags::IN)];
        let interrupted = match poll(&mut events, timeout.as_ref()).map_err(Errno::from) {
            Ok(_) => false,
            Err(Errno::INTR) => true,
            Err(errno) => return Err(errno),
        };
        if doorbell.drain() {
            self.expose_again(doorbell)?;
        }
        Ok(interrupted)
    }

    /// Arms what makes the pollable descriptor readable, and submits.
    pub(crate) fn watch_descriptor(&mut self, doorbell: &Doorbell) -> Result<(), Errno> {
        self.watch((!self.signals_doorbell).then_some(doorbell))?;
        self.submit()
    }

    /// Arms the polls of the doorbell, the mount table and the timer, so that they end a wait too;
    /// and queues the cancel requests that the submission queue did not take before.
    fn watch(&mut self, doorbell: Option<&Doorbell>) -> Result<(), Errno> {
        for handle in std::mem::take(&mut self.untaken_cancels) {
            self.cancel(handle);
        }
        for (polled, entry) in self.polls.missing(doorbell) {
            // SAFETY: the entry points to nothing.
            unsafe { self.push_entry(&entry)? };
            self.polls.armed(polled);
        }
        Ok(())
    }

    /// Calls io_uring_enter. Returns whether the wait was interrupted (`EINTR`).
    fn enter(&mut self, want: u32, timeout: Option<Duration>) -> Result<bool, Errno> {
        let timespec = timeout.map(types::Timespec::from);
        let arguments = match &timespec {
            Some(timespec) => types::SubmitArgs::new().timespec(timespec),
            None => types::SubmitArgs::new(),
        };
        // Without NO_IOWAIT the kernel counts a processor that sleeps here as waiting for a disk. While the
        // ring does wait for one, the count is right, and some governors raise the clock for it.
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        flags.set(
            EnterFlags::NO_IOWAIT,
            self.has_no_iowait && self.on_files == 0,
        );
        // GETEVENTS even without a wait: it runs deferred completions and flushes an overflow.
        let result = unsafe {
            // SAFETY: the arguments live through the call and have the type EXT_ARG stands for.
            self.ring
                .submitter()
                .enter(self.unsubmitted, want, flags.bits(), Some(&arguments))
        };
        let submitted = self.unsubmitted > 0;
        self.unsubmitted = self.ring.submission().len() as u32;
        if submitted {
            self.submissions += 1;
            self.adapt_batch();
        }
        let refused = match result.map_err(Errno::from) {
            // The kernel lacks memory, or its overflow list is not empty: reaping helps, and entries
            // that were not taken stay queued.
            Err(errno @ (Errno::AGAIN | Errno::BUSY | Errno::NOMEM)) => {
                self.take_to_backlog();
                errno
            }
            result => {
                self.refusals = 0;
                return match result {
                    Ok(_) | Err(Errno::TIME) => Ok(false),
                    Err(Errno::INTR) => Ok(true),
                    Err(errno) => Err(errno),
                };
            }
        };
        self.refused = Some(refused);
        Ok(false)
    }

    /// Sleeps for a moment in place of a wait that the kernel has refused, so that the next one does
    /// not follow at once.
    ///
    /// # Errors
    /// The errno, after [`Limits::RING_REFUSALS`] of them in a row.
    fn pause(&mut self, errno: Errno, timeout: Option<Duration>) -> Result<(), Errno> {
        let pause = Limits::RING_RETRY;
        std::thread::sleep(timeout.map_or(pause, |timeout| timeout.min(pause)));
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals > Limits::RING_REFUSALS {
            Err(errno)
        } else {
            Ok(())
        }
    }

    /// Whether the kernel holds CQEs back until the next enter.
    #[inline]
    pub(crate) fn needs_enter(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Returns the next step of an operation whose CQE carries no result of its call; else the
    /// call's result.
    fn unfinished(
        &mut self,
        operation: &mut InFlight,
        cqe: &Cqe,
    ) -> Result<Next, Result<usize, Errno>> {
        let cancelled = Next::Finished(total(operation.done, Err(Errno::CANCELED)));
        if operation.state == State::With(Part::Readiness) {
            return Ok(if operation.cancelled {
                cancelled
            } else {
                Next::Attempt
            });
        }
        let result = result(operation, cqe.result);
        if operation.zero_copy && !operation.cancelled && has_no_zero_copy(result) {
            operation.zero_copy = false;
            self.zero_copy.ordinary += 1;
            return Ok(Next::Again(Why::WouldBlock));
        }
        let opened = if self.trust_names {
            Opened::Result
        } else {
            opened::settle(operation, result)
        };
        match opened {
            Opened::Result => Err(result),
            Opened::MayWait if operation.cancelled => Ok(cancelled),
            Opened::MayWait => Ok(Next::Helper),
        }
    }

    /// Counts the two CQEs of a zero-copy send. Returns whether this one is the notification: the
    /// kernel no longer uses the memory.
    fn is_notification(&mut self, operation: &mut InFlight, cqe: &Cqe) -> bool {
        if cqe.kind() == CqeKind::Result {
            operation.awaiting_notif += 1;
            return false;
        }
        operation.awaiting_notif -= 1;
        // After a refusal the operation is an ordinary send, and the notification says nothing
        // about copying.
        if operation.zero_copy {
            self.zero_copy.sends += 1;
            self.zero_copy.copied += u64::from(has_copied(cqe.result));
        }
        true
    }

    /// Takes all CQEs. Enters the kernel only if it holds some back.
    ///
    /// # Errors
    /// Those of entering, and `EBADF` if the program has closed a descriptor of the context's own:
    /// to poll it again at once would end every wait.
    fn take_cqes(&mut self, cqes: &mut Vec<Cqe>) -> Result<(), Errno> {
        if self.needs_enter() {
            self.submit()?;
        }
        self.take_to_backlog();
        std::mem::swap(&mut self.backlog, cqes);
        self.backlog.clear();
        if self.polls.take_lost() {
            Err(Errno::BADF)
        } else {
            Ok(())
        }
    }

    fn take_to_backlog(&mut self) {
        let mut completions = self.ring.completion();
        for completion in &mut completions {
            let handle = completion.user_data();
            if handle as u32 != 0 {
                let cqe = Cqe {
                    handle,
                    result: self.failing.result(handle, completion.result()),
                    flags: completion.flags(),
                };
                self.outstanding -= u32::from(cqe.kind() != CqeKind::Result);
                self.backlog.push(cqe);
                continue;
            }
            if handle < CANCEL {
                self.polls.ended(handle, completion.result());
            } else if completion.result() == -libc::ENOENT {
                self.failed_cancels.push(((handle - CANCEL) >> 32) as Slot);
            }
        }
    }

    /// Takes the next operation for which a cancel request returned ENOENT. It may have finished,
    /// or be moving between queues of the kernel.
    pub(crate) fn take_failed_cancel(&mut self) -> Option<Slot> {
        self.failed_cancels.pop()
    }

    /// Whether there are CQEs to reap.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.backlog.is_empty() || !self.ring.completion().is_empty()
    }

    /// Adds a timer to the polls of the ring.
    pub(crate) fn set_timer(&mut self, timer: RawFd) {
        self.polls.set_timer(timer);
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("opcodes", &self.opcodes)
            .field("unsubmitted", &self.unsubmitted)
            .field("outstanding", &self.outstanding)
            .finish_non_exhaustive()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // If the program has closed the descriptor by mistake, its number must not be closed again;
        // the memory is leaked.
        let ring = crate::sys::borrow(self.ring.as_raw_fd());
        if ring.is_some_and(|ring| rustix::io::fcntl_getfd(ring).is_ok()) {
            // SAFETY: dropped once, here. The context has waited for all operations before; in a forked child, where
            // the operations are the parent's, this unmaps the child's view only.
            unsafe { ManuallyDrop::drop(&mut self.ring) };
        }
    }
}

/// Returns the call's result from that of the CQE.
fn result(operation: &InFlight, ring: i32) -> Result<usize, Errno> {
    let result = match ring {
        0.. => Ok(ring as usize),
        _ if Errno::from_raw(-ring).is_interruption() => Err(Errno::INTR),
        _ => Err(Errno::from_raw(-ring)),
    };
    match (operation.row.opcode, result) {
        // An expired time-out is a successful sleep.
        (Some(Opcode::Timeout), Err(Errno::TIME)) => Ok(0),
        (Some(Opcode::Statx), Ok(_)) => Ok(0),
        (_, result) => result,
    }
}

/// Whether a zero-copy notification reports that the kernel has copied the data.
fn has_copied(release: i32) -> bool {
    release as u32 & (1 << 31) != 0
}

/// Whether a zero-copy send was refused, so that the rest must be an ordinary send: the socket type
/// has none, RLIMIT_MEMLOCK is reached, or a filter forbids this operation.
fn has_no_zero_copy(result: Result<usize, Errno>) -> bool {
    matches!(
        result,
        Err(Errno::OPNOTSUPP
            | Errno::INVAL
            | Errno::NOMEM
            | Errno::NOBUFS
            | Errno::PERM
            | Errno::ACCES)
    )
}
