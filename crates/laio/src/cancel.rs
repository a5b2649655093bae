//! Cancelling operations, on request and when their time-outs have passed.

use crate::context::Context;
use crate::lifecycle::Lifecycle;
use crate::operations::{Part, State};
use crate::{Errno, Handle};
use std::time::{Duration, Instant};

impl Context {
    /// Cancels an operation. Its completion still comes: `ECANCELED`, or the result if it finished
    /// first, or the bytes that were moved before. If an untyped call that opens or accepts a
    /// descriptor succeeded first, the descriptor is closed and the result is `ECANCELED`, unless
    /// its status word already has the result.
    ///
    /// ```
    /// use laio::ops::Sleep;
    /// use laio::{Context, Errno, Options, Outcome};
    /// let mut context = Context::new(Options::new())?;
    /// let sleep = Sleep::new(std::time::Duration::from_secs(60));
    /// let Outcome::Pending(ticket) = context.submit(sleep) else { panic!() };
    /// context.cancel(ticket.handle())?;
    /// let mut completions = Vec::new();
    /// context.poll(&mut completions, None)?;
    /// assert_eq!(completions[0].result, Err(Errno::CANCELED));
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// `ENOENT` if the handle is not live: foreign, or its completion was delivered. `EALREADY` if it
    /// has finished by itself and its completion waits in `poll`. To cancel twice is no error.
    pub fn cancel(&mut self, handle: Handle) -> Result<(), Errno> {
        self.notice_fork();
        let slot = match self.operations.in_flight(handle) {
            Err(Errno::ALREADY) if self.is_cancelled(handle) => return Ok(()),
            slot => slot?,
        };
        self.stats.cancelled += 1;
        self.cancel_slot(slot);
        self.unblock_queued();
        self.arm_descriptor();
        Ok(())
    }

    fn is_cancelled(&self, handle: Handle) -> bool {
        let slot = self.operations.find(handle);
        slot.is_some_and(|slot| self.operations[slot].cancelled)
    }

    /// Cancels an operation when `timeout` has passed from now; `None` removes the time-out. The
    /// operation then completes as if cancelled, but with `ETIME` instead of `ECANCELED`; network
    /// errors use `ETIMEDOUT`.
    ///
    /// ```
    /// use laio::ops::Read;
    /// use laio::{Context, Errno, Options, Outcome};
    /// use std::time::Duration;
    ///
    /// let mut context = Context::new(Options::new())?;
    /// let (from, _to) = std::io::pipe()?;
    /// let Outcome::Pending(ticket) = context.submit(Read::new(from, Vec::with_capacity(1))) else {
    ///     panic!("an empty pipe");
    /// };
    /// context.set_timeout(ticket.handle(), Some(Duration::from_millis(1)))?;
    /// let mut completions = Vec::new();
    /// context.poll(&mut completions, None)?;
    /// assert_eq!(completions[0].result, Err(Errno::TIME));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ENOENT` if the handle is not live, `EALREADY` if the operation has finished; `EMFILE`, `ENFILE`,
    /// `ENOMEM` if the pollable descriptor is in use and has no timer yet.
    pub fn set_timeout(&mut self, handle: Handle, timeout: Option<Duration>) -> Result<(), Errno> {
        self.notice_fork();
        let slot = self.operations.in_flight(handle)?;
        if self.operations[slot].cancelled {
            // It ends without one.
            return Ok(());
        }
        // A time-out too long to represent never expires.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.operations.set_deadline(slot, deadline);
        self.prepare_timer()?;
        self.arm_descriptor();
        Ok(())
    }

    /// Cancels the operations whose time has passed, and repeats the cancellation of those whose
    /// thread could not be interrupted.
    pub(crate) fn expire(&mut self) {
        if self.operations.deadlines.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(slot) = self.operations.next_expired(now) {
            match (self.operations[slot].cancelled, self.operations[slot].state) {
                (false, _) => {
                    self.stats.timed_out += 1;
                    self.cancel_slot(slot);
                }
                (true, State::With(part @ (Part::Helper | Part::Carrier))) => {
                    self.cancel_at(part, slot);
                }
                (true, _) => {}
            }
        }
        self.unblock_queued();
    }
}
