//! The io_uring of one context: submission in batches, reaping, waiting.

use super::doorbell::Doorbell;
use crate::operation::Slot;
use crate::sys::away::Away;
use crate::{Errno, Handle, Limits, facts};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::time::Duration;

/// A completion as the ring reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reaped {
    /// The handle of an operation; see [`crate::Handle::to_raw`].
    pub(crate) handle: u64,
    pub(crate) result: i32,
    pub(crate) part: Part,
}

/// What a completion is of its operation's. Only sending without a copy has more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All that comes.
    Whole,
    /// The result; the kernel still has the memory.
    Result,
    /// The kernel has let go of the memory.
    Release,
}

impl Part {
    fn of(flags: u32) -> Part {
        match (cqueue::notif(flags), cqueue::more(flags)) {
            (true, _) => Part::Release,
            (false, true) => Part::Result,
            (false, false) => Part::Whole,
        }
    }
}

/// The ring and what the context itself has on it.
pub(crate) struct Ring {
    ring: ManuallyDrop<IoUring>,
    opcodes: Opcodes,
    /// Entries pushed and not yet submitted.
    unsubmitted: u32,
    /// Entries of operations in the kernel or the queue whose completion has not been reaped.
    outstanding: u32,
    /// Completions taken early to make room.
    backlog: Vec<Reaped>,
    doorbell_armed: bool,
    mounts: Option<RawFd>,
    mounts_armed: bool,
    mounts_changed: bool,
    /// The timer of operations' deadlines, where the pollable descriptor must tell of it.
    timer: Option<RawFd>,
    timer_armed: bool,
    timer_went_off: bool,
    /// Slots of operations that the kernel did not find when it was asked to cancel them.
    missed: Vec<Slot>,
    pub(crate) submissions: u64,
    /// The bell is never registered: before Linux 5.18 that waits until nothing is in flight (seen on 5.10), and the bell's
    /// own poll always is. No task work is deferred there, so that polling the ring's descriptor tells of everything.
    tells_by_itself: bool,
    _counted: Counted,
}

/// Which operations the kernel's io_uring has.
#[derive(Clone)]
pub(crate) struct Opcodes(Box<[bool; 256]>);

impl std::fmt::Debug for Opcodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Opcodes({} supported)",
            self.0.iter().filter(|there| **there).count()
        )
    }
}

impl Opcodes {
    pub(crate) fn has(&self, code: u8) -> bool {
        self.0[code as usize]
    }
}

/// Entries that are not operations have a zero in the low half of their user data, which no handle has.
const DOORBELL: u64 = 1 << 32;
const MOUNTS: u64 = 2 << 32;
const TIMER: u64 = 3 << 32;
/// The first of the requests to cancel: one for each slot.
const CANCEL: u64 = 4 << 32;

const GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;

std::thread_local! {
    /// Rings of the calling thread.
    static RINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Whether the calling thread has rings, which serve no other kernel thread.
pub(crate) fn thread_has_rings() -> bool {
    RINGS.get() > 0
}

/// Counts a ring while it lives.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Counted {
        let _ = RINGS.try_with(|rings| rings.set(rings.get() + 1));
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = RINGS.try_with(|rings| rings.set(rings.get() - 1));
    }
}

impl Ring {
    /// Sets up a ring for the calling thread. Any error means that io_uring is not to be had here:
    /// `ENOSYS`, `EPERM` and `EACCES` where it is absent or forbidden, `ENOMEM` and `EMFILE` at limits,
    /// `EOPNOTSUPP` where it lacks what the engine needs (Linux before 5.11).
    pub(crate) fn new(entries: u32, mounts: Option<RawFd>) -> Result<Ring, Errno> {
        let ring = moved_away(Ring::set_up(entries.clamp(8, Limits::RING_ENTRIES_MAX))?)?;
        let parameters = ring.params();
        if !(parameters.is_feature_nodrop()
            && parameters.is_feature_ext_arg()
            && parameters.is_feature_rw_cur_pos()
            && parameters.is_feature_submit_stable())
        {
            return Err(Errno::OPNOTSUPP);
        }
        let opcodes = probe_opcodes(&ring)?;
        // A filter may allow to set a ring up and forbid to use it.
        // SAFETY: nothing is submitted, and there are no arguments.
        unsafe {
            ring.submitter()
                .enter::<libc::sigset_t>(0, 0, GETEVENTS, None)?
        };
        Ok(Ring {
            _counted: Counted::new(),
            ring: ManuallyDrop::new(ring),
            opcodes,
            unsubmitted: 0,
            outstanding: 0,
            backlog: Vec::new(),
            doorbell_armed: false,
            mounts,
            mounts_armed: false,
            mounts_changed: false,
            timer: None,
            timer_armed: false,
            timer_went_off: false,
            missed: Vec::new(),
            submissions: 0,
            tells_by_itself: facts::kernel_version() < (5, 18),
        })
    }

    /// Deferred task work (Linux 6.1) keeps completions from interrupting the application's own calls;
    /// cooperative task work (5.19) keeps it from being signalled; older kernels have neither.
    fn set_up(entries: u32) -> Result<IoUring, Errno> {
        let deferred = IoUring::builder()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries);
        let error = match deferred {
            Ok(ring) => return Ok(ring),
            Err(error) => Errno::from(error),
        };
        if error != Errno::INVAL {
            return Err(error);
        }
        let mut cooperative = IoUring::builder();
        cooperative
            .setup_submit_all()
            .setup_coop_taskrun()
            .setup_taskrun_flag();
        match cooperative.build(entries).map_err(Errno::from) {
            Err(Errno::INVAL) => Ok(IoUring::builder().build(entries)?),
            result => result,
        }
    }

    pub(crate) fn opcodes(&self) -> &Opcodes {
        &self.opcodes
    }

    /// Queues an operation; it is submitted with others at the next [`Ring::submit`] or wait.
    ///
    /// # Safety
    /// What the entry points to stays valid until its completion has been reaped.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry, handle: u64) -> Result<(), Errno> {
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
            // Full: the kernel takes what is queued, which empties the queue, unless it wants its
            // completions reaped first.
            self.submit()?;
            if self.ring.submission().is_full() {
                self.reap_to_backlog();
                if self.backlog.is_empty() {
                    return Err(Errno::AGAIN);
                }
            }
        }
        self.unsubmitted += 1;
        Ok(())
    }

    /// Asks the kernel to cancel an operation. The operation's own completion still comes.
    pub(crate) fn cancel(&mut self, handle: Handle) -> Result<(), Errno> {
        let data = CANCEL + ((handle.slot() as u64) << 32);
        let entry = opcode::AsyncCancel::new(handle.to_raw());
        let entry = entry.build().user_data(data);
        // SAFETY: the entry points to nothing.
        unsafe { self.push_entry(&entry) }
    }

    /// Entries that wait to be submitted.
    #[inline]
    pub(crate) fn unsubmitted(&self) -> u32 {
        self.unsubmitted
    }

    /// Submits what is queued, without waiting.
    pub(crate) fn submit(&mut self) -> Result<(), Errno> {
        self.enter(0, None).map(|_| ())
    }

    /// Makes the kernel ring the bell for each completion, also for those that deferred task work holds
    /// back: polling the ring's own descriptor does not report these.
    pub(crate) fn expose(&mut self, doorbell: &Doorbell) -> Result<(), Errno> {
        if self.tells_by_itself {
            return Ok(());
        }
        match self
            .ring
            .submitter()
            .register_eventfd(doorbell.as_fd().as_raw_fd())
        {
            Err(error) if Errno::from(&error) != Errno::BUSY => Err(error.into()),
            // Registered before.
            _ => Ok(()),
        }
    }

    /// Registers the bell anew after it has rung. What completes meanwhile does not ring it: the caller looks
    /// for completions after this.
    ///
    /// Since Linux 6.11 (seen on 6.18) a registration rings once only for completions that come from within a
    /// write to an eventfd, and then never again for any such: the mark that such a ring is on its way is
    /// not taken back.
    pub(crate) fn expose_again(&mut self, doorbell: &Doorbell) -> Result<(), Errno> {
        if self.tells_by_itself {
            return Ok(());
        }
        self.ring.submitter().unregister_eventfd()?;
        self.expose(doorbell)
    }

    /// The descriptor that tells of completions: the bell, once it is exposed, or the ring's own, which tells of the bell too
    /// while that is watched.
    pub(crate) fn telling<'a>(&'a self, doorbell: &'a Doorbell) -> BorrowedFd<'a> {
        match self.tells_by_itself {
            // SAFETY: the ring lives as long as the borrow, and so does its descriptor.
            true => unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) },
            false => doorbell.as_fd(),
        }
    }

    /// Submits, and waits for a completion; `None` waits for ever. The time-out ends the wait without an
    /// error, and so does a signal, of which it tells.
    pub(crate) fn wait(
        &mut self,
        doorbell: Option<&Doorbell>,
        timeout: Option<Duration>,
    ) -> Result<bool, Errno> {
        self.watch(doorbell)?;
        let want = u32::from(self.backlog.is_empty());
        self.enter(want, timeout)
    }

    /// Puts the doorbell and the mount table on the ring, so that they too end a wait.
    pub(crate) fn watch(&mut self, doorbell: Option<&Doorbell>) -> Result<(), Errno> {
        if let Some(doorbell) = doorbell
            && !self.doorbell_armed
        {
            let fd = types::Fd(doorbell.as_fd().as_raw_fd());
            let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32)
                .build()
                .user_data(DOORBELL);
            // SAFETY: the entry points to nothing.
            unsafe { self.push_entry(&entry)? };
            self.doorbell_armed = true;
        }
        if let Some(mounts) = self.mounts
            && !self.mounts_armed
        {
            let events = (libc::POLLPRI | libc::POLLERR) as u32;
            let entry = opcode::PollAdd::new(types::Fd(mounts), events)
                .build()
                .user_data(MOUNTS);
            // SAFETY: the entry points to nothing.
            unsafe { self.push_entry(&entry)? };
            self.mounts_armed = true;
        }
        if let Some(timer) = self.timer
            && !self.timer_armed
        {
            let entry = opcode::PollAdd::new(types::Fd(timer), libc::POLLIN as u32)
                .build()
                .user_data(TIMER);
            // SAFETY: the entry points to nothing.
            unsafe { self.push_entry(&entry)? };
            self.timer_armed = true;
        }
        Ok(())
    }

    /// Enters the kernel; true if a signal handler has run.
    fn enter(&mut self, want: u32, timeout: Option<Duration>) -> Result<bool, Errno> {
        let timespec = timeout.map(types::Timespec::from);
        let arguments = match &timespec {
            Some(timespec) => types::SubmitArgs::new().timespec(timespec),
            None => types::SubmitArgs::new(),
        };
        // GETEVENTS also without a wait: it runs deferred completions and flushes an overflow.
        let result = unsafe {
            // SAFETY: the arguments live through the call and have the type EXT_ARG stands for.
            let flags = GETEVENTS | ENTER_EXT_ARG;
            self.ring
                .submitter()
                .enter(self.unsubmitted, want, flags, Some(&arguments))
        };
        if self.unsubmitted > 0 {
            self.submissions += 1;
        }
        self.unsubmitted = self.ring.submission().len() as u32;
        match result.map_err(Errno::from) {
            Ok(_) | Err(Errno::TIME) => Ok(false),
            Err(Errno::INTR) => Ok(true),
            // The kernel is short of memory for requests, or its overflow list is not empty: reaping
            // helps, and what was not taken stays queued.
            Err(Errno::AGAIN | Errno::BUSY) => {
                self.reap_to_backlog();
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Whether the kernel holds completions back until the next enter.
    #[inline]
    fn needs_enter(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Takes all completions that are there. Enters the kernel only if it holds some back.
    pub(crate) fn reap(&mut self, reaped: &mut Vec<Reaped>) -> Result<(), Errno> {
        if self.needs_enter() {
            self.submit()?;
        }
        self.reap_to_backlog();
        std::mem::swap(&mut self.backlog, reaped);
        self.backlog.clear();
        Ok(())
    }

    fn reap_to_backlog(&mut self) {
        // Not `self.ring.completion()` in the loop: it borrows all of self.
        let mut completions = self.ring.completion();
        for completion in &mut completions {
            let handle = completion.user_data();
            if handle as u32 != 0 {
                let part = Part::of(completion.flags());
                self.outstanding -= u32::from(part != Part::Result);
                self.backlog.push(Reaped {
                    handle,
                    result: completion.result(),
                    part,
                });
                continue;
            }
            match handle {
                DOORBELL => self.doorbell_armed = false,
                MOUNTS => {
                    self.mounts_armed = false;
                    self.mounts_changed = completion.result() >= 0;
                }
                TIMER => {
                    self.timer_armed = false;
                    self.timer_went_off = true;
                }
                CANCEL.. => {
                    if completion.result() == -libc::ENOENT {
                        self.missed.push(((handle - CANCEL) >> 32) as Slot);
                    }
                }
                other => unreachable!("user data {other:#x} was never submitted"),
            }
        }
    }

    /// Whether the doorbell has been heard (and must be drained) since it was put on the ring.
    pub(crate) fn doorbell_heard(&self) -> bool {
        !self.doorbell_armed
    }

    /// The next operation that was not found when it was to be cancelled. It may be over, or just on its
    /// way from one queue of the kernel's to another.
    pub(crate) fn take_missed(&mut self) -> Option<Slot> {
        self.missed.pop()
    }

    /// Whether completions wait to be reaped.
    pub(crate) fn has_news(&mut self) -> bool {
        !self.backlog.is_empty() || !self.ring.completion().is_empty()
    }

    /// Whether the mounts have changed since the last time.
    pub(crate) fn take_mounts_changed(&mut self) -> bool {
        std::mem::take(&mut self.mounts_changed)
    }

    /// From now on this timer's going off rings the bell too.
    pub(crate) fn set_timer(&mut self, timer: RawFd) {
        self.timer = Some(timer);
    }

    /// Whether the timer has gone off since the last time.
    pub(crate) fn take_timer_went_off(&mut self) -> bool {
        std::mem::take(&mut self.timer_went_off)
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
        // What a program has closed by mistake may not be closed once more; its memory stays.
        let ring = crate::sys::borrow(self.ring.as_raw_fd());
        if ring.is_some_and(|ring| rustix::io::fcntl_getfd(ring).is_ok()) {
            // SAFETY: dropped once, here. The context has waited for all operations before; in a forked child, where
            // the operations are the parent's, this unmaps the child's view only.
            unsafe { ManuallyDrop::drop(&mut self.ring) };
        }
    }
}

/// The same ring by a descriptor that is out of the way.
fn moved_away(ring: IoUring) -> Result<IoUring, Errno> {
    // SAFETY: it is open as long as the ring is there.
    let descriptor = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    let Some(away) = Away::copy(&descriptor) else {
        return Ok(ring);
    };
    let parameters = ring.params().clone();
    // SAFETY: a descriptor of this ring, given away here, and what the kernel has said of it.
    Ok(unsafe { IoUring::from_fd(away.into_raw_fd(), parameters)? })
}

fn probe_opcodes(ring: &IoUring) -> Result<Opcodes, Errno> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let mut opcodes = Box::new([false; 256]);
    for code in 0..=u8::MAX {
        opcodes[code as usize] = probe.is_supported(code);
    }
    Ok(Opcodes(opcodes))
}
