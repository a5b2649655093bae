//! A flight: one call that goes on without the application, from the carrier that makes it to the context that made
//! it.

use super::atomic::AtomicPtr;
use super::carrier::Carrier;
use super::state::{Chained, push, take_all};
use crate::Handle;
use crate::background::doorbell::Doorbell;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// One call.
#[derive(Debug)]
pub(super) struct Flight {
    next: AtomicPtr<Flight>,
    inbox: *const Inbox,
    /// What the call returned.
    word: AtomicUsize,
    /// A carrier is not done with this yet.
    pub(super) busy: AtomicBool,
    /// The rest is the application's only. The operation:
    pub(super) handle: Cell<Option<Handle>>,
    /// Who makes the call.
    pub(super) carrier: Cell<*const Carrier>,
}

impl Chained for Flight {
    fn next(&self) -> &AtomicPtr<Flight> {
        &self.next
    }
}

/// Where the flights of one context land.
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

    /// Whether any flight has landed and was not collected.
    pub(super) fn has_landed(&self) -> bool {
        !self.landed.load(SeqCst).is_null()
    }

    /// Takes what has landed, in the order of landing, as pointers and words.
    pub(super) fn collect(&self, into: &mut Vec<(*const Flight, usize)>) {
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

    /// The call has returned. By the carrier, which must not touch the flight any more.
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
    /// Until the carrier has let go. Not for long: the call has returned, or is about to be collected.
    pub(super) fn wait_until_done(&self) {
        while self.busy.load(Acquire) {
            std::thread::yield_now();
        }
    }

    /// For another call.
    pub(super) fn recycle(&self) {
        self.busy.store(true, Relaxed);
    }
}
