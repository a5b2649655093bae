//! A carrier: a kernel thread that can run the application.

use super::flight::Flight;
use super::shared::CarrierShared;
use super::slots::Slot;
use super::spare;
use super::state::Gate;
use crate::Errno;
use crate::sys::handoff::{Birth, Control, SleepWord, spawn};
use crate::sys::high_fd::HighFd;
use crate::sys::perf::{Attributes, Ring};
use crate::sys::{self, mask};
use rustix::event::epoll;
use rustix::fs::{Mode, OFlags};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// The state of a carrier, used by its thread, its creator and the carriers that take the
/// application from it. It lies in a [`Slot`].
#[repr(C)]
#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) control: Control,
    pub(super) shared: *const CarrierShared,
    /// The address of its substitute for a thread block.
    pub(super) block: usize,
    /// The thread's TID; 0 when it has ended.
    pub(super) number: AtomicU32,
    /// The epoch in which it was made.
    epoch: u32,
    /// Whether it may begin: see [`readiness`].
    pub(super) ready: AtomicU32,
    /// The flight of the call that it makes.
    pub(super) flight: AtomicPtr<Flight>,
    /// The number of signals sent to interrupt its call and not yet handled.
    pub(super) interrupts: AtomicU32,
    /// Substitute for `data_head` and `data_tail` without a ring of switch records.
    no_ring: [AtomicU64; 2],
    /// `/proc/self/task/TID/syscall`: what the thread does.
    pub(super) activity: Option<HighFd>,
    /// `/proc/self/task/TID/status`: which signals it blocks.
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

    fn control(&self) -> *mut Control {
        (&raw const self.control).cast_mut()
    }

    pub(super) fn gate(&self) -> Gate<'_> {
        // SAFETY: the ring is unmapped after the carrier's end.
        Gate(unsafe { &*self.control.ring })
    }

    /// Whether its identity is the application's. Changes are made on the home carrier.
    pub(super) fn is_current(&self) -> bool {
        self.is_home() || self.epoch == self.shared().epoch.load(SeqCst)
    }

    pub(super) fn is_home(&self) -> bool {
        std::ptr::eq(self, self.shared().home.load(Relaxed))
    }
}

/// A carrier, owned by its creator.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) carrier: *mut Carrier,
    switches: Option<Ring>,
    slot: Option<Slot>,
}

impl Owned {
    /// Makes the home carrier: that of the calling thread.
    pub(super) fn home(shared: &CarrierShared) -> Result<Owned, Errno> {
        let mut home = Owned::new(shared)?;
        #[cfg(laio_sanitized)]
        // SAFETY: no other thread has it yet.
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

    /// Starts a new kernel thread, which inherits the identity of the calling one. It waits for
    /// [`Owned::start_or_end`].
    pub(super) fn spare(shared: &CarrierShared) -> Result<Owned, Errno> {
        let mut spare = Owned::detector(shared, spare::begin)?;
        if let Err(errno) = spare.observe(shared) {
            spare.start_or_end(readiness::END);
            spare.wait_for_end();
            return Err(errno);
        }
        Ok(spare)
    }

    /// Starts a new kernel thread that is no carrier, with this entry function.
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
        // before it is started.
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

    /// Opens the files, and the switch records, that show whether the thread blocks.
    fn observe(&mut self, shared: &CarrierShared) -> Result<(), Errno> {
        let number = self.get().number.load(SeqCst);
        let open = |name: &str| {
            let path = format!("/proc/self/task/{number}/{name}");
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            Ok::<_, Errno>(HighFd::from(rustix::fs::open(path, flags, Mode::empty())?))
        };
        let (activity, status) = (open("syscall")?, open("status")?);
        // SAFETY: the thread does not look at this before it is started.
        unsafe {
            (*self.carrier).activity = Some(activity);
            (*self.carrier).status = Some(status);
        }
        if !shared.uses_records() {
            return Ok(());
        }
        let switches = Ring::open(number, &Attributes::switches(), 1)?;
        let data = epoll::EventData::new_u64(0);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&shared.waiting, switches.as_fd(), data, flags)?;
        // SAFETY: as above.
        unsafe { (*self.carrier).control.ring = switches.words() };
        self.get().gate().close();
        self.switches = Some(switches);
        Ok(())
    }

    /// Makes the waiting thread start or end: see [`readiness`].
    pub(super) fn start_or_end(&self, what: u32) {
        let ready = &self.get().ready;
        ready.store(what, SeqCst);
        sys::futex_wake(ready, 1);
    }

    /// Whether the thread has not ended.
    pub(super) fn is_alive(&self) -> bool {
        self.thread_number().is_some()
    }

    /// The TID of the thread, if it has not ended.
    fn thread_number(&self) -> Option<u32> {
        let number = self.get().number.load(SeqCst);
        if number == 0 {
            // The kernel has cleared the TID; this orders later reads after the thread's last
            // store.
            self.get().ready.load(Acquire);
        }
        (number != 0).then_some(number)
    }

    /// Waits until the thread has ended and no longer uses its slot.
    pub(super) fn wait_for_end(&self) {
        while let Some(number) = self.thread_number() {
            // Not a private futex: the kernel's wake on thread exit is not private.
            sys::futex_wait(&self.get().number, number, false);
        }
    }

    /// In a forked child: forgets the thread, which is the parent's.
    pub(super) fn forget_in_child(&mut self) {
        if let Some(switches) = self.switches.take() {
            switches.forget_in_child();
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.switches = None;
        // SAFETY: the thread has ended, or is the application's own at home; no thread uses the carrier any more.
        unsafe { self.carrier.drop_in_place() };
        self.slot = None;
    }
}
