//! Completions: reaping and delivering them, and the one place where a context sleeps.

use crate::background::doorbell::Notifier;
use crate::background::{Background, Noticed, Steps};
use crate::context::Context;
use crate::lifecycle::Lifecycle;
use crate::operations::{Operations, Slot};
use crate::signaller::Signaller;
use crate::{Completion, Errno, Handle};
use std::os::fd::BorrowedFd;
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
    /// installed that forbids them, `EBADF` after the program has closed a descriptor of the engine's,
    /// or `ENOMEM` when the kernel has lacked memory for [`Limits::RING_REFUSALS`](crate::Limits)
    /// attempts in a row. The operations stay, and a later poll tries again.
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
        let polled = self.poll_rounds(options, &mut deliver);
        self.arm_descriptor();
        self.drop_discarded();
        polled
    }

    /// Polls until something was delivered, or until another reason to return.
    fn poll_rounds(
        &mut self,
        options: PollOptions,
        deliver: &mut impl FnMut(Completion),
    ) -> Result<usize, Errno> {
        let PollOptions {
            timeout,
            most,
            interruptible,
        } = options;
        self.notice_fork();
        self.abandon_dropped();
        self.inline_since_poll = 0;
        if let Some(signaller) = &self.signaller {
            signaller.rearm();
        }
        if self.background.is_exposed() {
            // Drained before reaping, so that later completions ring again.
            self.background.drain_doorbell()?;
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
            if !self.operations.ready.is_empty() || !wait || !first {
                self.reap(Some(Duration::ZERO))?;
            } else if self.background.any_finished() {
                self.reap_with(|background, operations, steps| {
                    background.reap_finished(operations, steps)
                })?;
            }
            let count = self.deliver(most, deliver);
            let notified = self.background.doorbell().take_notification();
            let expired = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if count > 0 || notified || !wait || (expired && !first) {
                return Ok(count);
            }
            // Only operations are left whose completions were delivered and whose values the
            // program has not taken.
            if self.operations.live() == self.operations.untaken() && !self.background.notifiable {
                // So there is nothing to wait for, but the mounts may have changed.
                self.reap(Some(Duration::ZERO))?;
                return Ok(0);
            }
            // Before the sleep, because what is waited for may be the end of a descriptor that an
            // abandoned operation owns.
            self.drop_discarded();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let interrupted = self.reap(left)?;
            let count = self.deliver(most, deliver);
            if count > 0 || (interrupted && interruptible) {
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
        if let Some(signaller) = &self.signaller {
            signaller.rearm();
        }
        if self.operations.in_flight(handle).is_ok() {
            let reaped = self.drain_and_reap();
            if reaped.is_err() {
                self.arm_descriptor();
                reaped?;
            }
        }
        let completion = match self.operations.in_flight(handle) {
            Ok(_) => Err(Errno::INPROGRESS),
            Err(Errno::ALREADY) => {
                let slot = self.operations.find(handle).expect("it is live");
                self.operations.ready.retain(|&ready| ready != slot);
                Ok(self.take_completion(slot))
            }
            Err(errno) => Err(errno),
        };
        self.arm_descriptor();
        self.drop_discarded();
        completion
    }

    fn drain_and_reap(&mut self) -> Result<(), Errno> {
        if self.background.is_exposed() {
            self.background.drain_doorbell()?;
        }
        self.reap(Some(Duration::ZERO)).map(drop)
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
        self.background.submit()
    }

    /// A descriptor that is readable whenever [`Context::poll`] would deliver something, for use in
    /// another event loop (`epoll`, `poll`, GLib, libuv). After it becomes readable call `poll` with a
    /// zero time-out until it delivers nothing.
    ///
    /// From then on operations are handed to the kernel one by one, as they are started, rather than
    /// in batches.
    ///
    /// ```
    /// use laio::{Context, Options};
    /// use rustix::event::epoll;
    ///
    /// let mut context = Context::new(Options::new())?;
    /// let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    /// let data = epoll::EventData::new_u64(1);
    /// epoll::add(&set, context.descriptor()?, data, epoll::EventFlags::IN)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ENOMEM` if the kernel cannot connect it to the ring.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Errno> {
        self.notice_fork();
        self.background.expose()?;
        self.prepare_timer()?;
        self.arm_descriptor();
        Ok(self.background.pollable())
    }

    /// A handle with which any thread can make [`Context::poll`] return.
    ///
    /// ```
    /// let mut context = laio::Context::new(laio::Options::new())?;
    /// let notifier = context.notifier();
    /// std::thread::spawn(move || notifier.notify());
    /// assert_eq!(context.poll(&mut Vec::new(), None)?, 0);
    /// # Ok::<(), laio::Errno>(())
    /// ```
    pub fn notifier(&mut self) -> Notifier {
        self.notice_fork();
        self.background.notifiable = true;
        Notifier(self.background.doorbell().clone())
    }

    /// Sends the calling thread a signal whenever [`Context::poll`] may have something to deliver,
    /// with `si_code` `SI_QUEUE` and the given word in `si_value`; at most one between two polls.
    /// `None` turns it off.
    ///
    /// # Errors
    /// `EINVAL` for an invalid signal, or one that cannot be caught; `EAGAIN`, `ENOMEM` if no
    /// thread can be started; `EMFILE`, `ENFILE` if no descriptors are left.
    pub fn set_signal(&mut self, signal: Option<(i32, usize)>) -> Result<(), Errno> {
        self.notice_fork();
        if signal.is_some_and(|(number, _)| !Signaller::can_send(number)) {
            return Err(Errno::INVAL);
        }
        self.signaller = None;
        if let Some((number, value)) = signal {
            let descriptor = self.descriptor()?;
            self.signaller = Some(Signaller::start(descriptor, number, value)?);
        }
        Ok(())
    }

    /// Delivers at most `most` completions; returns how many.
    fn deliver(&mut self, most: usize, deliver: &mut impl FnMut(Completion)) -> usize {
        let mut count = 0;
        while count < most
            && let Some(slot) = self.operations.ready.pop_front()
        {
            count += 1;
            deliver(self.take_completion(slot));
            // The program may have forked. The parent delivers the other completions.
            self.notice_fork();
        }
        let undelivered = self.operations.ready.len() as u32;
        self.operations.shrink_extra_slots(undelivered);
        count
    }

    /// Returns the completion of a finished operation and marks it as delivered.
    fn take_completion(&mut self, slot: Slot) -> Completion {
        self.stats.completions += 1;
        self.operations.take_completion(slot)
    }

    /// Waits until another operation fits into the limit; see [`Context::make_room`]. A
    /// notification is meant for `poll`: it does not end this wait, and is kept.
    pub(crate) fn wait_for_slot(&mut self) -> bool {
        let mut notified = false;
        let freed = self.make_room(&mut notified);
        if notified {
            self.background.doorbell().keep_notification();
        }
        freed
    }

    /// Waits until an operation finishes, then allows one slot more than the limit for each
    /// undelivered completion. Returns false if none can finish, if as many completions as the limit
    /// are undelivered, or on an error. `notified` becomes true if it takes a notification.
    fn make_room(&mut self, notified: &mut bool) -> bool {
        // A slot is freed only on delivery, which cannot happen here. So each undelivered completion
        // temporarily raises the limit by one.
        loop {
            let undelivered = self.operations.ready.len() as u32;
            self.operations.set_extra_slots(undelivered);
            if !self.operations.is_full() {
                return true;
            }
            let in_flight = |slot| self.operations[slot].state.is_in_flight();
            let can_help = self.operations.ready.len() < self.limits.operations.max(1) as usize
                && self.operations.slots().any(in_flight);
            if !can_help {
                return false;
            }
            self.drop_discarded();
            // With a notification pending, no wait would sleep.
            *notified |= self.background.doorbell().take_notification();
            if self.reap(None).is_err() {
                return false;
            }
        }
    }

    /// Reaps finished operations, waiting at most `timeout` if there are none. Returns whether the
    /// wait was interrupted (`EINTR`).
    pub(crate) fn reap(&mut self, timeout: Option<Duration>) -> Result<bool, Errno> {
        // Expired first, so that operations cancelled here are reaped below.
        let before = self.operations.ready.len();
        self.expire();
        self.submit_to_aio();
        let mut timeout = self.operations.deadlines.limit(timeout);
        if self.operations.ready.len() > before {
            timeout = Some(Duration::ZERO);
        }
        let sleeps = timeout != Some(Duration::ZERO);
        let noticed = self.reap_with(|background, operations, steps| {
            background.wait(timeout, operations, steps)
        })?;
        self.stats.sleeps += u64::from(sleeps && !noticed.spun);
        self.stats.spins += u64::from(noticed.spun);
        Ok(noticed.interrupted)
    }

    /// Reaps the steps that have finished with one of the background's verbs, and continues
    /// their operations.
    fn reap_with(
        &mut self,
        verb: impl FnOnce(&mut Background, &mut Operations, &mut Steps) -> Result<Noticed, Errno>,
    ) -> Result<Noticed, Errno> {
        let mut steps = std::mem::take(&mut self.steps);
        let noticed = verb(&mut self.background, &mut self.operations, &mut steps);
        self.note_new_rights();
        if let Ok(noticed) = &noticed {
            self.note(noticed);
        }
        self.run_steps(&mut steps);
        self.steps = steps;
        while let Some(slot) = self.background.take_failed_cancel() {
            self.cancel_again(slot);
        }
        self.submit_to_aio();
        self.unblock_queued();
        noticed
    }

    /// Makes sure that further events make the pollable descriptor readable by themselves, if it was
    /// handed out.
    pub(crate) fn arm_descriptor(&mut self) {
        if self.background.is_exposed() {
            self.operations.deadlines.set_timer();
            self.submit_to_aio();
            self.background
                .arm_descriptor(!self.operations.ready.is_empty());
        }
    }

    /// Submits the prepared requests of AIO; helpers make the calls that the kernel refuses.
    fn submit_to_aio(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        self.background.submit_to_aio(&self.operations, &mut steps);
        self.run_steps(&mut steps);
        self.steps = steps;
    }

    /// Adds a timer to the pollable descriptor, if that was handed out and any operation has a
    /// deadline.
    pub(crate) fn prepare_timer(&mut self) -> Result<(), Errno> {
        if self.background.is_exposed()
            && let Some(timer) = self.operations.deadlines.new_timer()?
        {
            let added = self.background.set_timer(timer);
            if added.is_err() {
                self.operations.deadlines.drop_timer();
            }
            return added;
        }
        Ok(())
    }

    fn note(&mut self, noticed: &Noticed) {
        if noticed.watched_mounts {
            self.knowledge.mounts.note_watched();
        }
        if noticed.mounts_changed {
            self.knowledge.mounts.refresh();
        }
        if noticed.timer_expired {
            self.operations.deadlines.silence_timer();
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::{BackendKind, Call, Context, Options, Outcome};
    use std::io::{Write, pipe};
    use std::os::fd::AsRawFd;

    /// Results of helpers that are there at every poll do not keep the events of streams away.
    #[test]
    fn events_arrive_although_helpers_always_have_results() {
        for ring in [true, false] {
            let options = Options::new().backend(BackendKind::Lazy).ring(ring);
            let mut context = Context::new(options).unwrap();
            let (reader, mut writer) = pipe().unwrap();
            let mut byte = [0u8; 1];
            let args = [reader.as_raw_fd() as usize, byte.as_mut_ptr() as usize, 1];
            // SAFETY: the byte outlives the operation, which ends below.
            let read = unsafe { context.call_with(Call::new(libc::SYS_read, args), 1) };
            assert!(matches!(read, Outcome::Pending(_)));
            writer.write_all(b"x").unwrap();
            let mut completions = Vec::new();
            let mut polls = 0;
            while !completions
                .iter()
                .any(|one: &crate::Completion| one.user_data == 1)
            {
                polls += 1;
                assert!(polls < 100, "ring: {ring}");
                // A helper checks the semaphores, and fails.
                let call = Call::new(libc::SYS_semop, [usize::MAX, 0, 0]);
                // SAFETY: there are no semaphores.
                let outcome = unsafe { context.call(call) };
                assert!(matches!(outcome, Outcome::Pending(_)));
                while !context.background.any_finished() {
                    std::thread::yield_now();
                }
                context.poll(&mut completions, None).unwrap();
            }
        }
    }
}
