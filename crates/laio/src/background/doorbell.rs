//! Waking a context that sleeps: one eventfd, written only when somebody sleeps on it.

use crate::Errno;
use crate::sys::high_fd::HighFd;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// The bell of one context. Helpers and [`Notifier`]s ring it; the context sleeps on its descriptor.
#[derive(Debug)]
pub(crate) struct Doorbell {
    descriptor: HighFd,
    /// The context sleeps, or is about to: whoever clears this writes to the descriptor.
    armed: AtomicBool,
    /// A notifier asked `poll` to return.
    notified: AtomicBool,
    /// In a forked child: the bell of the context that has begun anew.
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

    /// Announces that the context will sleep. It must look once more for news after this, because news
    /// that came before found the bell unarmed.
    pub(crate) fn arm(&self) {
        self.armed.store(true, SeqCst);
    }

    /// The context is awake: further news need no wake-up.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, SeqCst);
    }

    /// News are there. To be called after they have been published.
    pub(crate) fn ring(&self) {
        if self.armed.swap(false, SeqCst) {
            // EAGAIN would mean a counter near 2^64, which is readable all the same.
            let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
        }
    }

    /// Makes sure that news can ring it.
    ///
    /// # Errors
    /// `EBADF`: the program has closed the descriptor, and a sleep would not end.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.descriptor.is_closed() {
            return Err(Errno::BADF);
        }
        Ok(())
    }

    /// Empties the descriptor, so that it is not readable any more; whether it was.
    pub(crate) fn drain(&self) -> bool {
        rustix::io::read(&self.descriptor, &mut [0u8; 8]).is_ok()
    }

    /// The descriptor is shared with the parent: from now on notifiers use another bell.
    pub(crate) fn pass_on(&self, heir: Arc<Doorbell>) {
        let _ = self.heir.set(heir);
    }

    fn notify(&self) {
        if let Some(heir) = self.heir.get() {
            return heir.notify();
        }
        self.notified.store(true, SeqCst);
        self.ring();
    }

    /// Puts back what [`Doorbell::take_notification`] took.
    pub(crate) fn keep_notification(&self) {
        self.notified.store(true, SeqCst);
    }

    /// Whether a notifier called and `poll` has not answered yet.
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.load(SeqCst)
    }

    /// Whether a notifier called since the last time.
    pub(crate) fn take_notification(&self) -> bool {
        self.notified.load(SeqCst) && self.notified.swap(false, SeqCst)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Makes the `poll` of a context return from any thread, as a waker needs it.
#[derive(Clone, Debug)]
pub struct Notifier(pub(crate) Arc<Doorbell>);

impl Notifier {
    /// Makes the present or the next [`Context::poll`](crate::Context::poll) return without waiting.
    /// Calls before that `poll` are merged into one.
    pub fn notify(&self) {
        self.0.notify();
    }
}
