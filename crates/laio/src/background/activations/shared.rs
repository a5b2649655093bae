//! What all carriers of one application thread share.

use super::carrier::Carrier;
use super::detectors::{Barrier, Detector};
use crate::Errno;
use crate::sys::handoff::SleepWord;
use crate::sys::high_fd::HighFd;
use crate::sys::mask::{Mask, bit};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// Never moves, and outlives the carriers.
#[derive(Debug)]
pub(super) struct CarrierShared {
    /// Where spares sleep: the records of all carriers, and the two bells below.
    pub(super) waiting: HighFd,
    /// Wakes one spare.
    one: HighFd,
    /// Wakes all spares, for ever.
    all: HighFd,
    pub(super) closing: AtomicBool,
    /// Grows when the thread's identity changes; carriers of before do not run the application any more.
    pub(super) epoch: AtomicU32,
    pub(super) detector: Detector,
    sleep_words: Box<[SleepWord]>,
    pub(super) barrier: Barrier,
    /// The carrier that runs the application.
    pub(super) current: AtomicPtr<Carrier>,
    /// From whom the application was taken last.
    pub(super) victim: AtomicPtr<Carrier>,
    /// Threads that are sending a signal to it. Whoever is no longer the current one waits for them, and then
    /// sends on what has come to itself.
    pub(super) forwarding: AtomicU32,
    /// The application's own kernel thread.
    pub(super) home: AtomicPtr<Carrier>,
    /// Carriers that could take the application on.
    pub(super) spares: AtomicU32,
    /// The signals that the application blocks, as far as is known.
    pub(super) mask: AtomicU64,
    /// Where the application's thread-local variables are.
    pub(super) application: usize,
    /// The application has parked itself, with this stack pointer, to go on at home.
    pub(super) returning: AtomicUsize,
    /// The signal that interrupts calls and wakes the home carrier.
    pub(super) signal: i32,
    pub(super) process: u32,
    pub(super) counts: Counts,
}

/// What has happened, for people.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) handoffs: AtomicU64,
    /// Times a spare looked and the call had returned, or had only been preempted.
    pub(super) false_wakeups: AtomicU64,
}

impl CarrierShared {
    pub(super) fn new(
        detector: Detector,
        sleep_words: usize,
        signal: i32,
    ) -> Result<CarrierShared, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = || Ok::<_, Errno>(HighFd::from(eventfd(0, flags)?));
        let (one, all) = (event()?, event()?);
        let waiting = HighFd::from(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let data = epoll::EventData::new_u64(0);
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&waiting, one.as_fd(), data, edge)?;
        epoll::add(&waiting, all.as_fd(), data, epoll::EventFlags::IN)?;
        Ok(CarrierShared {
            waiting,
            one,
            all,
            closing: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            detector,
            sleep_words: (0..sleep_words).map(|_| SleepWord::default()).collect(),
            barrier: Barrier::of(detector),
            current: AtomicPtr::new(std::ptr::null_mut()),
            victim: AtomicPtr::new(std::ptr::null_mut()),
            home: AtomicPtr::new(std::ptr::null_mut()),
            spares: AtomicU32::new(0),
            forwarding: AtomicU32::new(0),
            mask: AtomicU64::new(0),
            application: crate::sys::handoff::thread_pointer(),
            returning: AtomicUsize::new(0),
            signal,
            process: std::process::id(),
            counts: Counts::default(),
        })
    }

    /// Where detectors sleep; the first is the backstop's. None where records tell.
    pub(super) fn sleep_words(&self) -> &[SleepWord] {
        &self.sleep_words
    }

    /// What the assembly does for detectors before a call.
    pub(super) fn detected(&self) -> u32 {
        use crate::sys::handoff::{detected, processor_known_by};
        match (self.sleep_words.is_empty(), self.barrier) {
            (true, _) => 0,
            (false, Barrier::Sleepers) => detected::YES | processor_known_by(),
            (false, Barrier::Program) => detected::YES | detected::BY_FENCE | processor_known_by(),
        }
    }

    pub(super) fn uses_records(&self) -> bool {
        self.detector == Detector::Perf
    }

    pub(super) fn wake_one(&self) {
        let _ = rustix::io::write(&self.one, &1u64.to_ne_bytes());
    }

    pub(super) fn wake_all(&self) {
        let _ = rustix::io::write(&self.all, &1u64.to_ne_bytes());
    }

    /// The application blocks these signals, as the kernel thread shows on which it was last.
    pub(super) fn note_mask(&self, mask: Mask) {
        let signal = bit(self.signal);
        let known = self.mask.load(Relaxed);
        // Carriers never block that one; at home it is as the program wants it.
        self.mask
            .store((mask & !signal) | (known & signal), Relaxed);
    }

    /// What a carrier that runs the application blocks: never the signal that interrupts calls.
    pub(super) fn carried_mask(&self) -> Mask {
        self.mask.load(Relaxed) & !bit(self.signal)
    }
}
