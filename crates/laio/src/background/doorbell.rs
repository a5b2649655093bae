//! The doorbell: an eventfd that wakes a sleeping context and makes its pollable descriptor readable,
//! written only while it is armed for that.

use crate::Errno;
use crate::sys::high_fd::HighFd;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// The doorbell of one context. Threads that have a result for the context, and [`Notifier`]s, ring
/// it; the descriptor is one of those on which the context sleeps.
#[derive(Debug)]
pub(crate) struct Doorbell {
    descriptor: HighFd,
    /// Whether the context sleeps or is about to, or the program may wait for the pollable
    /// descriptor. The call of [`Doorbell::ring`] that clears this writes to the eventfd.
    armed: AtomicBool,
    /// Whether a notifier asked `poll` to return.
    notified: AtomicBool,
    /// In a forked child: the doorbell of the child's new context.
    heir: OnceLock<Arc<Doorbell>>,
}

impl Doorbell {
    pub(crate) fn new() -> Result<Doorbell, Errno> {
        Ok(Doorbell {
            descriptor: HighFd::from(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            armed: AtomicBool::new(false),
            notified: AtomicBool::new(false),
            heir: OnceLock::new(),
        })
    }

    /// Announces that the context will sleep. The context must check for completions again after
    /// this, because earlier ones found the doorbell unarmed.
    pub(crate) fn arm(&self) {
        self.armed.store(true, SeqCst);
    }

    /// Announces that the context is awake and needs no wakeup.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, SeqCst);
    }

    /// Wakes the context if it sleeps. Call this after publishing a result.
    pub(crate) fn ring(&self) {
        if self.armed.swap(false, SeqCst) {
            // EAGAIN would mean a counter near 2^64, which is readable all the same.
            let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
        }
    }

    /// Checks that the eventfd is still open.
    ///
    /// # Errors
    /// `EBADF`: the program has closed the descriptor, and a sleep would not end.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.descriptor.is_closed() {
            return Err(Errno::BADF);
        }
        Ok(())
    }

    /// Drains the eventfd. Returns whether it was readable.
    pub(crate) fn drain(&self) -> bool {
        rustix::io::read(&self.descriptor, &mut [0u8; 8]).is_ok()
    }

    /// Makes notifiers use another doorbell, in a forked child, which shares this eventfd with its
    /// parent.
    pub(crate) fn pass_on(&self, heir: Arc<Doorbell>) {
        let _ = self.heir.set(heir);
    }

    fn notify(&self) {
        if let Some(heir) = self.heir.get() {
            return heir.notify();
        }
        self.notified.store(true, SeqCst);
        self.ring();
        // It may have been passed on meanwhile.
        if let Some(heir) = self.heir.get() {
            heir.notify();
        }
    }

    /// Puts back what [`Doorbell::take_notification`] took.
    pub(crate) fn keep_notification(&self) {
        self.notified.store(true, SeqCst);
    }

    /// Whether a notifier was used and `poll` has not returned since.
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.load(SeqCst)
    }

    /// Returns whether a notifier was used, and resets that.
    pub(crate) fn take_notification(&self) -> bool {
        self.notified.load(SeqCst) && self.notified.swap(false, SeqCst)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A handle with which any thread can make the `poll` of a context return, like a waker.
#[derive(Clone, Debug)]
pub struct Notifier(pub(crate) Arc<Doorbell>);

impl Notifier {
    /// Makes the current or the next [`Context::poll`](crate::Context::poll) return without
    /// waiting. Several calls before that `poll` have the effect of one.
    pub fn notify(&self) {
        self.0.notify();
    }
}
