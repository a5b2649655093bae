//! Stops a benchmark early, and removes all its files.

use crate::error::{Error, While};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A request to stop a benchmark: its processes are ended, and its files are removed.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    asked: AtomicBool,
    /// The running command. Not its process id, which the kernel may have reused.
    running: Mutex<Option<OwnedFd>>,
}

impl Stop {
    /// Returns a request that is not made yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Makes the request.
    pub fn stop(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        if let Some(running) = self.running().as_ref() {
            end(running);
        }
    }

    /// Whether the request was made.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Returns an error if the request was made.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_asked() {
            Err(std::io::Error::from(ErrorKind::Interrupted)).doing("stopped as asked")
        } else {
            Ok(())
        }
    }

    /// While the returned value exists, a request kills this process.
    pub(crate) fn ends(&self, child: &Child) -> Ending<'_> {
        let descriptor = Pid::from_raw(child.id().cast_signed())
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if self.is_asked()
            && let Some(descriptor) = &descriptor
        {
            end(descriptor);
        }
        *self.running() = descriptor;
        // The request may have been made between the check and the registration.
        if self.is_asked() {
            self.stop();
        }
        Ending(self)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<OwnedFd>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(process: &OwnedFd) {
    // It may have ended by itself.
    let _ = pidfd_send_signal(process, Signal::TERM);
}

/// See [`Stop::ends`].
pub(crate) struct Ending<'a>(&'a Stop);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.running() = None;
    }
}
