//! Activations: the call itself is made; only if it blocks does another kernel thread (a spare
//! carrier) continue the application.
//!
//! A *kernel thread* is here a thread of the process as the kernel schedules it, with a TID of its
//! own (not a kthread). The application, which is one thread to the program, moves between them.

mod atomic;
mod carrier;
#[cfg_attr(laio_sanitized, sanitize(address = "off", thread = "off"))]
pub(crate) mod detectors;
mod flight;
#[cfg_attr(laio_sanitized, sanitize(address = "off", thread = "off"))]
mod home;
mod identity;
#[cfg_attr(laio_sanitized, sanitize(address = "off", thread = "off"))]
mod inspect;
mod rseq;
mod shared;
pub(crate) mod signals;
mod slots;
#[cfg_attr(laio_sanitized, sanitize(address = "off", thread = "off"))]
mod spare;
mod state;
// They test the hand-off, which other architectures do not have.
#[cfg(all(test, not(miri), target_arch = "x86_64"))]
mod tests;
mod thread;

use self::flight::{Flight, Inbox};
use self::thread::Thread;
use super::doorbell::Doorbell;
use super::job::Cancelled;
use super::ring::thread_has_rings;
use crate::attempt::CarriedCall;
use crate::{Call, Detector, Errno, Handle, Options, Rights};
pub(crate) use flight::CarryOutcome;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The activations state of one context. The contexts of a thread share its carriers.
#[derive(Debug)]
pub(crate) struct Activations {
    /// The flight of the next call.
    next: *const Flight,
    free: Vec<*const Flight>,
    landed: Vec<(*const Flight, usize)>,
    outstanding: usize,
    /// All flights. They do not move, because carriers hold their addresses.
    #[expect(clippy::vec_box, reason = "carriers know their addresses")]
    flights: Vec<Box<Flight>>,
    inbox: Box<Inbox>,
    thread: Rc<Thread>,
}

/// Whether the calling thread has carriers, so that its kernel thread may change. Rings bound to
/// one kernel thread cannot be used then.
pub(crate) fn thread_has_carriers() -> bool {
    Thread::is_present()
}

impl Activations {
    /// Makes carriers for the calling thread, or uses those it has. New carriers are tested by one
    /// hand-off.
    pub(crate) fn new(doorbell: &Arc<Doorbell>, options: &Options) -> Result<Activations, Errno> {
        if thread_has_rings() {
            return Err(Errno::BUSY);
        }
        let inbox = Box::new(Inbox::new(doorbell.clone()));
        let limit = (options.limits.carriers as usize).max(2);
        let thread = Thread::join(&inbox, options.detector, limit, options.cancel_signal)?;
        if options.whose_rights() != Rights::Settled {
            thread.compare_rights();
        }
        let first = Flight::new(&inbox);
        Ok(Activations {
            next: &raw const *first,
            free: Vec::new(),
            landed: Vec::new(),
            outstanding: 0,
            flights: vec![first],
            inbox,
            thread,
        })
    }

    /// Makes a call. If it blocks, this function returns nevertheless, on another kernel thread.
    ///
    /// # Safety
    /// As for the system call; what its pointers point to stays until its result is reaped.
    #[inline]
    pub(crate) unsafe fn call(&mut self, call: &Call) -> CarryOutcome {
        // SAFETY: flights live as long as this; the rest is the caller's.
        let outcome = unsafe { self.thread.call(&*self.next, call) };
        if let CarryOutcome::InFlight(_) = outcome {
            self.replace_next();
        }
        outcome
    }

    /// Takes another flight for the next call, because the last one is in use.
    #[cold]
    fn replace_next(&mut self) {
        self.outstanding += 1;
        self.next = match self.free.pop() {
            Some(flight) => flight,
            None => {
                let flight = Flight::new(&self.inbox);
                let address: *const Flight = &raw const *flight;
                self.flights.push(flight);
                address
            }
        };
    }

    /// Sets the operation that a call in flight belongs to.
    pub(crate) fn set_owner(&self, flight: CarriedCall, handle: Handle) {
        // SAFETY: `record_in_flight` has made it of a flight, and flights live as long as this.
        unsafe { &*flight.0.cast::<Flight>() }
            .handle
            .set(Some(handle));
    }

    /// The number of calls that have not been reaped.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Whether there are returned calls to reap.
    #[inline]
    pub(crate) fn any_finished(&self) -> bool {
        self.outstanding > 0 && self.inbox.has_landed()
    }

    /// Takes the results of calls that have returned.
    pub(crate) fn reap(&mut self) -> Vec<(Handle, Result<usize, Errno>)> {
        if !self.any_finished() {
            return Vec::new();
        }
        self.inbox.reap(&mut self.landed);
        let mut results = Vec::with_capacity(self.landed.len());
        for (flight, word) in self.landed.drain(..) {
            // SAFETY: flights live as long as this.
            let landed = unsafe { &*flight };
            landed.wait_until_done();
            let handle = landed.handle.take().expect("set when the call was taken");
            landed.recycle();
            self.free.push(flight);
            self.outstanding -= 1;
            results.push((handle, Errno::from_register(word)));
        }
        results
    }

    /// Interrupts a call.
    pub(crate) fn cancel(&self, handle: Handle) -> Cancelled {
        let flight = self
            .flights
            .iter()
            .find(|flight| flight.handle.get() == Some(handle));
        Cancelled::running(flight.is_none_or(|flight| self.thread.interrupt(flight)))
    }

    /// Records the program's signal mask, which may have changed.
    pub(crate) fn note_mask(&self) {
        self.thread.note_mask();
    }

    /// Makes a call that changes the thread's identity (credentials, namespaces, filters), and
    /// renews the carriers.
    pub(crate) fn change_identity(
        &self,
        change: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        self.thread.begin_change()?;
        let result = change();
        if result.is_ok() {
            self.thread.renew();
        }
        result
    }

    /// Whether all carriers have the same identity for the kernel.
    pub(crate) fn carriers_agree(&self) -> bool {
        self.thread.carriers_agree()
    }

    /// The number of kernel threads, without the program's own.
    pub(crate) fn carriers(&self) -> usize {
        self.thread.carriers()
    }

    /// The number of hand-offs and of false wakeups, of all contexts of the thread.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let counts = &self.thread.shared.counts;
        (
            counts.handoffs.load(Relaxed),
            counts.false_wakeups.load(Relaxed),
        )
    }

    /// The detector of blocked calls.
    pub(crate) fn detector(&self) -> Detector {
        self.thread.shared.detector
    }

    /// In a forked child: forgets the calls in flight, which are the parent's.
    pub(crate) fn forget_in_child(&mut self) {
        self.outstanding = 0;
        std::mem::forget(std::mem::take(&mut self.flights));
    }
}

impl Drop for Activations {
    fn drop(&mut self) {
        if self.outstanding == 0 {
            return;
        }
        // Calls are still in flight: the memory that they will write is leaked.
        std::mem::forget(std::mem::take(&mut self.flights));
        let none = Box::new(Inbox::new(self.inbox.doorbell()));
        std::mem::forget(std::mem::replace(&mut self.inbox, none));
        std::mem::forget(self.thread.clone());
    }
}
