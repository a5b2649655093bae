//! The state shared by all carriers of one application thread.

use super::carrier::Carrier;
use super::detectors::Barrier;
use crate::Detector;
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
    /// The epoll set that spares sleep on: the switch records of all carriers, and the two eventfds
    /// below.
    pub(super) waiting: HighFd,
    /// Wakes one spare.
    one: HighFd,
    /// Wakes all spares, level-triggered.
    all: HighFd,
    pub(super) closing: AtomicBool,
    /// Incremented when the thread's identity changes; carriers of an earlier epoch do not run the
    /// application any more.
    pub(super) epoch: AtomicU32,
    pub(super) detector: Detector,
    sleep_words: Box<[SleepWord]>,
    pub(super) barrier: Barrier,
    /// The carrier that runs the application.
    pub(super) current: AtomicPtr<Carrier>,
    /// The carrier from which the application was taken last.
    pub(super) victim: AtomicPtr<Carrier>,
    /// The number of threads that are sending a signal to the current carrier. A carrier that is no
    /// longer current waits until this is 0, and then forwards its pending signals.
    pub(super) forwarding: AtomicU32,
    /// The application's own kernel thread.
    pub(super) home: AtomicPtr<Carrier>,
    /// The number of carriers that could continue the application.
    pub(super) spares: AtomicU32,
    /// The signals that the application blocks, as last seen.
    pub(super) mask: AtomicU64,
    /// The application's thread pointer.
    pub(super) application: usize,
    /// The stack pointer of an application that has parked itself to continue at home; 0 if none
    /// has.
    pub(super) returning: AtomicUsize,
    /// The signal that interrupts calls and wakes the home carrier.
    pub(super) signal: i32,
    pub(super) process: u32,
    pub(super) counts: Counts,
}

/// Statistics.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) handoffs: AtomicU64,
    /// How often a spare was woken although the call had returned, or was only preempted.
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
            barrier: Barrier::for_detector(detector),
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

    /// The sleep words of the detectors; the first is the backstop's. Empty if switch records are
    /// used.
    pub(super) fn sleep_words(&self) -> &[SleepWord] {
        &self.sleep_words
    }

    /// The flags for what the assembly does before a call; see [`crate::sys::handoff::detected`].
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

    /// Records the signals that the application blocks, as seen on its last kernel thread.
    pub(super) fn note_mask(&self, mask: Mask) {
        let signal = bit(self.signal);
        let known = self.mask.load(Relaxed);
        // Carriers never block the cancel signal; on the home carrier the program decides.
        self.mask
            .store((mask & !signal) | (known & signal), Relaxed);
    }

    /// The mask of a carrier that runs the application: without the signal that interrupts calls.
    pub(super) fn carried_mask(&self) -> Mask {
        self.mask.load(Relaxed) & !bit(self.signal)
    }
}
