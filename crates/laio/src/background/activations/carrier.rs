//! A carrier: a kernel thread that can run the application.

use super::flight::Flight;
use super::shared::CarrierShared;
use super::slots::Slot;
use super::spare;
use super::state::Gate;
use crate::Errno;
use crate::sys::handoff::{Birth, Control, SleepWord, spawn};
use crate::sys::high_fd::HighFd;
use crate::sys::perf::Switches;
use crate::sys::{self, mask};
use rustix::event::epoll;
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// What a carrier's thread, its creator and those who take the application from it share. It lies in a [`Slot`].
#[repr(C)]
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) control: Control,
    pub(super) shared: *const CarrierShared,
    /// Where its thread-local variables would be.
    pub(super) block: usize,
    /// The thread's number; 0 when it has ended.
    pub(super) number: AtomicU32,
    /// When it was made.
    epoch: u32,
    /// Whether it may begin: see [`readiness`].
    pub(super) ready: AtomicU32,
    /// The operation whose call it makes.
    pub(super) flight: AtomicPtr<Flight>,
    /// Signals sent to interrupt its call and not yet handled.
    pub(super) interrupts: AtomicU32,
    /// For rings that are not there.
    no_ring: [AtomicU64; 2],
    /// Tells what the thread does: `/proc/self/task/TID/syscall`.
    pub(super) activity: Option<HighFd>,
    /// Tells which signals it blocks: `/proc/self/task/TID/status`.
    pub(super) status: Option<HighFd>,
}

/// Values of [`Carrier::ready`].
pub(super) mod readiness {
    pub(in super::super) const NOT_YET: u32 = 0;
    pub(in super::super) const SERVE: u32 = 1;
    pub(in super::super) const END: u32 = 2;
}

impl Carrier {
    /// # Safety
    /// A pointer that a carrier's own thread or its application got, while the carrier lives.
    pub(super) unsafe fn at<'a>(control: *mut Control) -> &'a Carrier {
        // SAFETY: by the caller; the control is the first field. All that changes is atomic.
        unsafe { &*control.cast() }
    }

    pub(super) fn shared(&self) -> &CarrierShared {
        // SAFETY: it outlives its carriers.
        unsafe { &*self.shared }
    }

    pub(super) fn control(&self) -> *mut Control {
        (&raw const self.control).cast_mut()
    }

    pub(super) fn gate(&self) -> Gate<'_> {
        // SAFETY: the ring is unmapped after the carrier's end.
        Gate(unsafe { &*self.control.ring })
    }

    /// Whether it still is who the application is. At home all changes are made.
    pub(super) fn is_current(&self) -> bool {
        self.is_home() || self.epoch == self.shared().epoch.load(SeqCst)
    }

    pub(super) fn is_home(&self) -> bool {
        std::ptr::eq(self, self.shared().home.load(Relaxed))
    }
}

/// A carrier as its creator holds it.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) carrier: *mut Carrier,
    switches: Option<Switches>,
    slot: Option<Slot>,
}

impl Owned {
    /// The carrier of the calling thread, whose application begins there.
    pub(super) fn home(shared: &CarrierShared) -> Result<Owned, Errno> {
        let mut home = Owned::new(shared)?;
        #[cfg(laio_sanitized)]
        // SAFETY: nobody else has it yet.
        unsafe {
            (*home.carrier).block = sys::handoff::lend()?;
        }
        // SAFETY: gettid takes no pointers.
        let number = unsafe { sys::raw(libc::SYS_gettid, [])? };
        home.get().number.store(number as u32, SeqCst);
        home.observe(shared)?;
        home.get().ready.store(readiness::SERVE, SeqCst);
        Ok(home)
    }

    /// A new kernel thread, which inherits who the calling one is. It waits to be told to begin.
    pub(super) fn spare(shared: &CarrierShared) -> Result<Owned, Errno> {
        let mut spare = Owned::detector(shared, spare::begin)?;
        if let Err(errno) = spare.observe(shared) {
            spare.start_or_end(readiness::END);
            spare.wait_for_end();
            return Err(errno);
        }
        Ok(spare)
    }

    /// A new kernel thread that does not carry, but begins here.
    pub(super) fn detector(
        shared: &CarrierShared,
        entry: unsafe extern "C" fn(*mut Control) -> !,
    ) -> Result<Owned, Errno> {
        let thread = Owned::new(shared)?;
        let birth = Birth {
            entry,
            control: thread.get().control(),
            thread_pointer: thread.get().block,
            number: &thread.get().number,
        };
        let _blocked = mask::AllBlocked::new();
        // SAFETY: the slot lives until the thread has ended, which its owner waits for. The thread does not look at it
        // before it is told to begin.
        unsafe { (*thread.carrier).block = spawn(&birth)? };
        Ok(thread)
    }

    fn new(shared: &CarrierShared) -> Result<Owned, Errno> {
        let slot = Slot::take()?;
        let carrier = slot.carrier();
        let no_ring = [const { AtomicU64::new(0) }; 2];
        let sleep_words: &[SleepWord] = shared.sleep_words();
        // SAFETY: the slot is free, and large enough.
        unsafe {
            carrier.write(Carrier {
                control: Control {
                    state: AtomicU64::new(super::state::SPARE),
                    saved: AtomicUsize::new(0),
                    stack: slot.stack(),
                    ring: &raw const (*carrier).no_ring,
                    interrupted: AtomicU32::new(0),
                    detected: shared.detected(),
                    processor: AtomicU32::new(0),
                    sleep_words: sleep_words.len() as u32,
                    sleep_word: sleep_words.as_ptr(),
                    wake: super::detectors::wake,
                    on_return: spare::returned,
                    on_park: spare::parked,
                },
                shared,
                block: slot.thread_pointer(),
                number: AtomicU32::new(0),
                epoch: shared.epoch.load(Relaxed),
                ready: AtomicU32::new(readiness::NOT_YET),
                flight: AtomicPtr::new(std::ptr::null_mut()),
                interrupts: AtomicU32::new(0),
                no_ring,
                activity: None,
                status: None,
            });
        }
        Ok(Owned {
            carrier,
            switches: None,
            slot: Some(slot),
        })
    }

    pub(super) fn get(&self) -> &Carrier {
        // SAFETY: it lives in the slot that this owns; what others change meanwhile is atomic.
        unsafe { &*self.carrier }
    }

    /// Makes it seen when the thread blocks.
    fn observe(&mut self, shared: &CarrierShared) -> Result<(), Errno> {
        let number = self.get().number.load(SeqCst);
        let open = |name: &str| {
            let path = format!("/proc/self/task/{number}/{name}");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            Ok::<_, Errno>(HighFd::from(rustix::fs::open(path, flags, Mode::empty())?))
        };
        let (activity, status) = (open("syscall")?, open("status")?);
        // SAFETY: the thread does not look at this before it is told to begin.
        unsafe {
            (*self.carrier).activity = Some(activity);
            (*self.carrier).status = Some(status);
        }
        if !shared.uses_records() {
            return Ok(());
        }
        let switches = Switches::of(number)?;
        let data = epoll::EventData::new_u64(0);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&shared.waiting, switches.as_fd(), data, flags)?;
        // SAFETY: as above.
        unsafe { (*self.carrier).control.ring = switches.words() };
        self.get().gate().close();
        self.switches = Some(switches);
        Ok(())
    }

    /// Lets the thread begin, or end.
    pub(super) fn start_or_end(&self, what: u32) {
        let ready = &self.get().ready;
        ready.store(what, SeqCst);
        sys::futex_wake(ready, 1);
    }

    /// Whether the thread has not ended.
    pub(super) fn is_alive(&self) -> bool {
        self.thread_number().is_some()
    }

    /// The number of the thread, if it has not ended.
    fn thread_number(&self) -> Option<u32> {
        let number = self.get().number.load(SeqCst);
        if number == 0 {
            // The kernel has cleared it; this was the thread's own last word.
            self.get().ready.load(Acquire);
        }
        (number != 0).then_some(number)
    }

    /// Waits until the thread has ended and no longer uses its slot.
    pub(super) fn wait_for_end(&self) {
        while let Some(number) = self.thread_number() {
            // Not a private one: the kernel wakes as for any process.
            sys::futex_wait(&self.get().number, number, false);
        }
    }

    /// In a forked child: the thread is the parent's.
    pub(super) fn forget_in_child(&mut self) {
        if let Some(switches) = self.switches.take() {
            switches.forget_in_child();
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.switches = None;
        // SAFETY: the thread has ended, or is the application's own at home; nobody uses the carrier any more.
        unsafe { self.carrier.drop_in_place() };
        self.slot = None;
    }
}
