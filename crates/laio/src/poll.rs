//! Completions: reaping and delivering them, and the one place where a context sleeps.

use crate::background::activations::Activations;
use crate::background::aio::Aio;
use crate::background::doorbell::Notifier;
use crate::background::reactor::Event;
use crate::context::{Context, Waiter};
use crate::operation::Slot;
use crate::step::Step;
use crate::{Completion, Errno, Handle, Limits};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How [`Context::poll_with`] polls. By default it waits for the first completion, and delivers all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollOptions {
    /// How long to wait for the first completion; `None`: for ever.
    pub timeout: Option<Duration>,
    /// How many completions to deliver at most.
    pub most: usize,
    /// Whether to return 0 also when a signal handler has run in this thread, so that a loop can
    /// check what the handler has set. A handler that runs just before is not noticed: it must use
    /// a [`Notifier`]. The kernel interrupts waits for its own purposes too (seen on Linux 6.18
    /// while a ring is being torn down), which looks the same.
    pub interruptible: bool,
}

impl Default for PollOptions {
    fn default() -> PollOptions {
        PollOptions {
            timeout: None,
            most: usize::MAX,
            interruptible: false,
        }
    }
}

impl Context {
    /// Appends the completions of operations that have finished to `completions`, waiting for the first
    /// of them at most `timeout` (`None`: for ever). Returns how many.
    ///
    /// Returns 0 when the time-out expires, when a [`Notifier`] was used, and at once when there is
    /// nothing to wait for: no operation in flight and no notifier made.
    ///
    /// # Errors
    /// The errors of io_uring or epoll when waiting fails, for example `EPERM` after a filter was
    /// installed that forbids them, or `EBADF` after the program has closed a descriptor of the
    /// engine's. The operations stay.
    pub fn poll(
        &mut self,
        completions: &mut Vec<Completion>,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let options = PollOptions {
            timeout,
            ..PollOptions::default()
        };
        self.poll_with(options, |completion| completions.push(completion))
    }

    /// Polls as the options say, and passes each completion to `deliver`. Returns how many.
    ///
    /// ```
    /// use laio::{Context, Options, PollOptions};
    /// use std::time::Duration;
    ///
    /// let mut context = Context::new(Options::new())?;
    /// let options = PollOptions {
    ///     timeout: Some(Duration::from_millis(1)),
    ///     most: 10,
    ///     ..PollOptions::default()
    /// };
    /// let delivered = context.poll_with(options, |completion| println!("{completion:?}"))?;
    /// assert_eq!(delivered, 0, "nothing is in flight");
    /// # Ok::<(), laio::Errno>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Context::poll`].
    pub fn poll_with(
        &mut self,
        options: PollOptions,
        mut deliver: impl FnMut(Completion),
    ) -> Result<usize, Errno> {
        let PollOptions {
            timeout,
            most,
            interruptible,
        } = options;
        self.notice_fork();
        self.abandon_dropped();
        self.inline_since_poll = 0;
        self.rearm_signal();
        if self.exposed {
            // Drained before reaping, so that later completions ring again.
            self.drain_doorbell()?;
        }
        let wait = timeout != Some(Duration::ZERO) && most > 0;
        let deadline = timeout
            .filter(|_| wait)
            .and_then(|time| Instant::now().checked_add(time));
        let mut first = true;
        loop {
            // Reap without sleeping if completions are ready, if the caller does not wait, and in
            // every round but the first. The first round only looks for results of threads and
            // AIO, because the wait below reaps everything else.
            if !self.ready.is_empty() || !wait || !first {
                self.reap(Some(Duration::ZERO))?;
            } else if self.any_thread_finished() {
                self.reap_threads();
                self.unblock_queued();
            } else if self.any_finished_in_aio() {
                self.reap_aio(false)?;
                self.unblock_queued();
            }
            let count = self.deliver(most, &mut deliver);
            let notified = self.doorbell.take_notification();
            let expired = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if count > 0 || notified || !wait || (expired && !first) {
                self.after_poll();
                return Ok(count);
            }
            // Only operations are left whose completions were delivered and whose values the
            // program has not taken.
            if self.operations.live() == self.operations.untaken() && !self.notifiable {
                // So there is nothing to wait for, but the mounts may have changed.
                self.reap(Some(Duration::ZERO))?;
                return Ok(0);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let interrupted = self.reap(left)?;
            let count = self.deliver(most, &mut deliver);
            if count > 0 || (interrupted && interruptible) {
                self.after_poll();
                return Ok(count);
            }
            first = false;
        }
    }

    /// Delivers the completion of one operation, if it has finished. Reaps completions without
    /// waiting.
    ///
    /// # Errors
    /// `EINPROGRESS` if it has not finished; `ENOENT` if the handle is not live: foreign, or its
    /// completion was delivered; and as for [`Context::poll`].
    pub fn poll_one(&mut self, handle: Handle) -> Result<Completion, Errno> {
        self.notice_fork();
        self.abandon_dropped();
        self.inline_since_poll = 0;
        self.rearm_signal();
        if self.in_flight(handle).is_ok() {
            if self.exposed {
                self.drain_doorbell()?;
            }
            self.reap(Some(Duration::ZERO))?;
        }
        let completion = match self.in_flight(handle) {
            Ok(_) => Err(Errno::INPROGRESS),
            Err(Errno::ALREADY) => {
                let slot = self.operations.find(handle).expect("it is live");
                self.ready.retain(|&ready| ready != slot);
                Ok(self.take_completion(slot))
            }
            Err(errno) => Err(errno),
        };
        self.after_poll();
        completion
    }

    /// Submits the prepared entries of the ring and of AIO to the kernel. `poll` does this itself;
    /// call it before sleeping elsewhere for longer.
    ///
    /// Operations queued behind earlier ones are not submitted: `poll` starts them. If the kernel
    /// takes no entries at present (`EAGAIN`, `EBUSY`), they stay queued for the next `poll` or
    /// `flush`, and this is no error.
    ///
    /// # Errors
    /// As for [`Context::poll`].
    pub fn flush(&mut self) -> Result<(), Errno> {
        self.notice_fork();
        self.submit_to_aio();
        match &mut self.waiter {
            Waiter::Ring(ring) if ring.unsubmitted() > 0 => ring.submit(),
            _ => Ok(()),
        }
    }

    /// Whether a full batch of operations waits to be submitted.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        let in_ring = match &self.waiter {
            Waiter::Ring(ring) => ring.unsubmitted(),
            Waiter::Reactor(_) => 0,
        };
        let in_aio = self.aio.as_ref().map_or(0, |aio| aio.prepared());
        in_ring.max(in_aio) >= Limits::BATCH
    }

    /// A descriptor that is readable whenever [`Context::poll`] would deliver something, for use in
    /// another event loop (`epoll`, `poll`, GLib, libuv). After it becomes readable call `poll` with a
    /// zero time-out until it delivers nothing.
    ///
    /// From then on operations are handed to the kernel one by one, as they are started, rather than
    /// in batches.
    ///
    /// # Errors
    /// `ENOMEM` if the kernel cannot connect it to the ring.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Errno> {
        self.notice_fork();
        if let Waiter::Ring(ring) = &mut self.waiter {
            ring.expose(&self.doorbell)?;
        }
        self.prepare_timer()?;
        self.exposed = true;
        self.arm_descriptor();
        Ok(match &self.waiter {
            Waiter::Ring(ring) => ring.pollable(&self.doorbell),
            Waiter::Reactor(reactor) => reactor.as_fd(),
        })
    }

    /// A handle with which any thread can make [`Context::poll`] return.
    pub fn notifier(&mut self) -> Notifier {
        self.notice_fork();
        self.notifiable = true;
        Notifier(self.doorbell.clone())
    }

    /// Delivers at most `most` completions; returns how many.
    fn deliver(&mut self, most: usize, deliver: &mut impl FnMut(Completion)) -> usize {
        let mut count = 0;
        while count < most
            && let Some(slot) = self.ready.pop_front()
        {
            count += 1;
            deliver(self.take_completion(slot));
        }
        self.operations.shrink_extra_slots(self.ready.len() as u32);
        count
    }

    /// Returns the completion of a finished operation and marks it as delivered.
    fn take_completion(&mut self, slot: Slot) -> Completion {
        let completion = self.operations.completion(slot);
        let payload = self.payloads.get(slot as usize);
        if payload.is_some_and(Option::is_some) {
            self.operations.deliver(slot);
        } else {
            self.operations.remove(slot);
        }
        self.stats.completions += 1;
        completion
    }

    fn after_poll(&mut self) {
        if self.exposed {
            self.arm_descriptor();
        }
    }

    /// Drains the doorbell, so that the pollable descriptor reports further events.
    fn drain_doorbell(&mut self) -> Result<(), Errno> {
        match &mut self.waiter {
            Waiter::Ring(ring) if self.doorbell.drain() => ring.expose_again(&self.doorbell),
            Waiter::Ring(_) => Ok(()),
            Waiter::Reactor(_) => {
                self.doorbell.drain();
                Ok(())
            }
        }
    }

    /// Makes sure that further events make the pollable descriptor readable by themselves.
    pub(crate) fn arm_descriptor(&mut self) {
        self.doorbell.arm();
        self.deadlines.set_timer();
        if let Waiter::Ring(ring) = &mut self.waiter {
            // The next poll reports an error.
            let _ = ring
                .watch(Some(&self.doorbell))
                .and_then(|()| ring.submit());
            if ring.has_completions() {
                self.doorbell.ring();
            }
        }
        self.submit_to_aio();
        if let Some(aio) = &mut self.aio {
            aio.watch();
        }
        if self.any_thread_finished() || !self.ready.is_empty() || self.any_finished_in_aio() {
            self.doorbell.ring();
        }
    }

    /// Waits until another operation fits into the limit; see [`Context::make_room`]. A
    /// notification does not end this wait.
    pub(crate) fn wait_for_slot(&mut self) -> bool {
        // A notification is meant for `poll`, and must not end this wait.
        let notified = self.doorbell.take_notification();
        let freed = self.make_room();
        if notified {
            self.doorbell.keep_notification();
        }
        freed
    }

    /// Waits until an operation finishes, then allows one slot more than the limit for each
    /// undelivered completion. Returns false if none can finish, if as many completions as the limit
    /// are undelivered, or on an error.
    fn make_room(&mut self) -> bool {
        // A slot is freed only on delivery, which cannot happen here. So each undelivered completion
        // temporarily raises the limit by one.
        loop {
            self.operations.set_extra_slots(self.ready.len() as u32);
            if !self.operations.is_full() {
                return true;
            }
            let in_flight = |slot| self.operations[slot].state.is_in_flight();
            let can_help = self.ready.len() < self.limits.operations.max(1) as usize
                && self.operations.slots().any(in_flight);
            if !can_help || self.reap(None).is_err() {
                return false;
            }
        }
    }

    /// Reaps finished operations, waiting at most `timeout` if there are none. Returns whether the
    /// wait was interrupted (`EINTR`).
    pub(crate) fn reap(&mut self, timeout: Option<Duration>) -> Result<bool, Errno> {
        // Expired first, so that operations cancelled here are reaped below.
        let before = self.ready.len();
        self.expire();
        self.submit_to_aio();
        let mut timeout = self.until_next_deadline(timeout);
        if self.ready.len() > before {
            timeout = Some(Duration::ZERO);
        }
        let sleep = timeout != Some(Duration::ZERO);
        let aio_needs_doorbell = self.aio.as_ref().is_some_and(Aio::needs_doorbell);
        let by_threads =
            self.helpers.outstanding() + self.one_shot.outstanding() + self.calls_in_flight();
        let needs_doorbell =
            self.exposed || self.notifiable || by_threads > 0 || aio_needs_doorbell;
        if sleep {
            if needs_doorbell {
                self.doorbell.check()?;
                self.doorbell.arm();
                if let Some(aio) = &mut self.aio {
                    aio.watch();
                }
                // Events from before the doorbell was armed did not ring it.
                if self.any_thread_finished()
                    || self.doorbell.is_notified()
                    || self.any_finished_in_aio()
                {
                    timeout = Some(Duration::ZERO);
                }
            }
            self.stats.sleeps += 1;
            if let Some(activations) = &self.activations {
                activations.note_mask();
            }
        }
        let result = match &self.waiter {
            Waiter::Ring(_) => self.reap_ring(timeout, needs_doorbell),
            Waiter::Reactor(_) => self.reap_reactor(timeout),
        };
        if sleep && needs_doorbell && !self.exposed {
            self.doorbell.disarm();
        }
        self.reap_threads();
        self.unblock_queued();
        result
    }

    fn reap_ring(
        &mut self,
        timeout: Option<Duration>,
        needs_doorbell: bool,
    ) -> Result<bool, Errno> {
        let mut interrupted = false;
        let Waiter::Ring(ring) = &mut self.waiter else {
            unreachable!("asked of a ring")
        };
        if timeout != Some(Duration::ZERO) {
            interrupted = ring.wait(needs_doorbell.then_some(&*self.doorbell), timeout)?;
        } else {
            // A program that never sleeps must notice a new file system too.
            ring.watch(None)?;
            if ring.unsubmitted() > 0 {
                ring.submit()?;
            }
        }
        self.knowledge.mounts.note_watched();
        let mut reaped = std::mem::take(&mut self.reaped);
        ring.reap(&mut reaped)?;
        if needs_doorbell && ring.doorbell_fired() {
            self.doorbell.drain();
        }
        if ring.take_mounts_changed() {
            self.knowledge.mounts.refresh();
        }
        if ring.take_timer_expired() {
            self.deadlines.silence_timer();
        }
        for one in reaped.drain(..) {
            self.ring_completed(one);
        }
        self.reaped = reaped;
        while let Waiter::Ring(ring) = &mut self.waiter
            && let Some(slot) = ring.take_failed_cancel()
        {
            self.cancel_again(slot);
        }
        Ok(interrupted)
    }

    fn reap_reactor(&mut self, timeout: Option<Duration>) -> Result<bool, Errno> {
        let Waiter::Reactor(reactor) = &mut self.waiter else {
            unreachable!("asked of a reactor")
        };
        let mut events = std::mem::take(&mut self.events);
        let result = reactor.wait(timeout, &mut events);
        let mut aio = false;
        for event in events.drain(..) {
            match event {
                Event::Ready(slot) => self.proceed(slot, Step::Attempt),
                Event::Doorbell => {
                    self.doorbell.drain();
                }
                Event::Mounts => self.knowledge.mounts.refresh(),
                Event::Timer => self.deadlines.silence_timer(),
                Event::Aio => aio = true,
            }
        }
        self.events = events;
        self.knowledge.mounts.note_watched();
        let interrupted = result?;
        self.reap_aio(aio)?;
        Ok(interrupted)
    }

    /// Whether calls have finished in other threads.
    fn any_thread_finished(&self) -> bool {
        let carried = self.activations.as_ref();
        self.helpers.any_finished()
            || self.one_shot.any_finished()
            || carried.is_some_and(Activations::any_finished)
    }

    /// The number of blocked calls that carriers make.
    fn calls_in_flight(&self) -> usize {
        self.activations
            .as_ref()
            .map_or(0, Activations::outstanding)
    }

    fn reap_threads(&mut self) {
        if let Some(activations) = &mut self.activations {
            for (handle, result) in activations.collect() {
                let slot = self.operations.find(handle);
                self.carrier_completed(slot.expect("a call in flight is live"), result);
            }
        }
        if self.one_shot.any_queued() {
            self.note_rights();
        }
        let mut returned = self.helpers.collect();
        returned.append(&mut self.one_shot.collect(self.rights.version()));
        for (handle, result) in returned {
            let slot = self
                .operations
                .find(handle)
                .expect("a helper's operation is live");
            self.helper_completed(slot, result);
        }
    }
}
