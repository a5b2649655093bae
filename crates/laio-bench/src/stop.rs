//! Ending a benchmark before its time, with everything that it has made removed.

use crate::error::{Error, While};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Asks a benchmark to stop: what it has started is ended, and what it has made is removed.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Asked>);

#[derive(Debug, Default)]
struct Asked {
    asked: AtomicBool,
    /// The command that runs now. Not its number, which could be another process's by now.
    running: Mutex<Option<OwnedFd>>,
}

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks.
    pub fn stop(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        if let Some(running) = self.running().as_ref() {
            end(running);
        }
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// An error if somebody has asked.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.is_asked() {
            true => Err(std::io::Error::from(ErrorKind::Interrupted)).doing("stopped as asked"),
            false => Ok(()),
        }
    }

    /// While what is returned lives, asking ends this process.
    pub(crate) fn ends(&self, child: &Child) -> Ending<'_> {
        let descriptor = Pid::from_raw(child.id().cast_signed())
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if self.is_asked()
            && let Some(descriptor) = &descriptor
        {
            end(descriptor);
        }
        *self.running() = descriptor;
        // Between the look and the entry somebody may have asked.
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
