//! A flight: one blocked call, from the carrier that makes it to the context that started it.

use super::atomic::AtomicPtr;
use super::carrier::Carrier;
use super::state::{Chained, push, take_all};
use crate::attempt::CarriedCall;
use crate::background::doorbell::Doorbell;
use crate::{Errno, Handle};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// One call.
#[derive(Debug)]
pub(super) struct Flight {
    next: AtomicPtr<Flight>,
    inbox: *const Inbox,
    /// The word that the call returned.
    word: AtomicUsize,
    /// Whether a carrier still uses this.
    pub(super) busy: AtomicBool,
    /// The operation. Only the application uses this and the next field.
    pub(super) handle: Cell<Option<Handle>>,
    /// The carrier that makes the call.
    pub(super) carrier: Cell<*const Carrier>,
}

impl Chained for Flight {
    fn next(&self) -> &AtomicPtr<Flight> {
        &self.next
    }
}

/// The outcome of a call on a carrier.
#[derive(Debug)]
pub(crate) enum CarryOutcome {
    Returned(Result<usize, Errno>),
    /// The call blocked, and a spare continues the application.
    InFlight(CarriedCall),
    /// There is no spare to continue the application, so the call has not been made. `EAGAIN`: a
    /// limit is reached.
    NoCarrier(Errno),
}

/// The list of landed flights of one context.
#[derive(Debug)]
pub(super) struct Inbox {
    landed: AtomicPtr<Flight>,
    doorbell: Arc<Doorbell>,
}

impl Inbox {
    pub(super) fn new(doorbell: Arc<Doorbell>) -> Inbox {
        Inbox {
            landed: AtomicPtr::new(std::ptr::null_mut()),
            doorbell,
        }
    }

    pub(super) fn doorbell(&self) -> Arc<Doorbell> {
        self.doorbell.clone()
    }

    /// Whether there are landed flights to reap.
    pub(super) fn has_landed(&self) -> bool {
        !self.landed.load(SeqCst).is_null()
    }

    /// Takes the landed flights, in the order of landing, as pointers and words.
    pub(super) fn reap(&self, into: &mut Vec<(*const Flight, usize)>) {
        let mut node: *const Flight = take_all(&self.landed);
        let first = into.len();
        while !node.is_null() {
            // SAFETY: flights live as long as their context, which is the caller.
            let flight = unsafe { &*node };
            into.push((node, flight.word.load(Relaxed)));
            node = flight.next.load(Relaxed);
        }
        into[first..].reverse();
    }
}

impl Flight {
    pub(super) fn new(inbox: &Inbox) -> Box<Flight> {
        Box::new(Flight {
            next: AtomicPtr::new(std::ptr::null_mut()),
            inbox,
            word: AtomicUsize::new(0),
            busy: AtomicBool::new(true),
            handle: Cell::new(None),
            carrier: Cell::new(std::ptr::null()),
        })
    }

    /// Publishes the result of the call. Called by the carrier, which must not touch the flight
    /// afterwards.
    ///
    /// # Safety
    /// The flight of a call that was taken over, once.
    pub(super) unsafe fn land(flight: *mut Flight, word: usize) {
        // SAFETY: the context keeps flight, inbox and bell until `busy` is cleared.
        unsafe {
            (*flight).word.store(word, Relaxed);
            let inbox = &*(*flight).inbox;
            push(&inbox.landed, flight);
            inbox.doorbell.ring();
            (*flight).busy.store(false, Release);
        }
    }
}

impl Flight {
    /// Waits until the carrier no longer uses the flight. This is short: the call has returned.
    pub(super) fn wait_until_done(&self) {
        while self.busy.load(Acquire) {
            std::thread::yield_now();
        }
    }

    /// Prepares the flight for another call.
    pub(super) fn recycle(&self) {
        self.busy.store(true, Relaxed);
    }
}
