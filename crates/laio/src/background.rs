//! The background: everything that takes operations while the program does something else. It owns
//! the parts of which a back end is composed, and offers one set of verbs for all of them: `start`
//! and `cancel` a step of an operation, `submit` what is prepared, `wait` for the parts, `reap`
//! what they report. [`crate::placement`] decides which part takes which step.

pub(crate) mod activations;
pub(crate) mod after_open;
pub(crate) mod aio;
pub(crate) mod doorbell;
mod helpers;
pub(crate) mod job;
pub(crate) mod lane;
pub(crate) mod one_shot;
pub(crate) mod reactor;
pub(crate) mod rights;
pub(crate) mod ring;
pub(crate) mod threads;
pub(crate) mod unanswered;

use crate::attempt::{CarriedCall, Why};
use crate::composition::{Composition, RingUse};
use crate::operations::{Operations, Part, Slot, State};
use crate::pool::patience::Patience;
use crate::step::{self, Next, total};
use crate::sys::high_fd::HighFd;
use crate::table::{Attempt, Row};
use crate::{Call, Errno, Limits, Options, Stats};
use activations::Activations;
use aio::Aio;
use doorbell::Doorbell;
use helpers::Helpers;
pub(crate) use helpers::UnansweredCalls;
use job::Cancelled;
use reactor::{Event, Reactor};
use ring::Ring;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use threads::Threads;
use unanswered::Unanswered;

/// The parts of one context.
#[derive(Debug)]
pub(crate) struct Background {
    waiter: Waiter,
    aio: Option<Aio>,
    threads: Threads,
    carriers: Option<Activations>,
    doorbell: Arc<Doorbell>,
    /// Whether streams are waited for by readiness rather than by helpers.
    reports_readiness: bool,
    /// Whether the pollable descriptor was handed out: from then on it must become readable even
    /// while no `poll` is running.
    exposed: bool,
    /// Whether a notifier was handed out: another thread may then end `poll`.
    pub(crate) notifiable: bool,
    /// The injected bound of one step; 0 for none.
    short: usize,
    events: Vec<Event>,
    /// How long to look for results of helpers before a sleep; `None` before the first look.
    patience: Option<Patience>,
    /// How often results of threads were reaped since the reactor was last asked.
    reaped_without_reactor: u32,
}

/// What the context waits on: a ring or epoll.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a context has one, and it never moves"
)]
enum Waiter {
    Ring(Ring),
    Reactor(Reactor),
}

/// How often results of threads may be reaped before the reactor is asked too: its events must not wait for
/// the end of these results.
const REAPS_WITHOUT_REACTOR: u32 = 16;

/// What a wait has found besides steps of operations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noticed {
    /// A signal or the kernel itself interrupted the wait (`EINTR`).
    pub(crate) interrupted: bool,
    /// The result of a helper was found without a sleep.
    pub(crate) spun: bool,
    /// The mount table was looked at.
    pub(crate) watched_mounts: bool,
    pub(crate) mounts_changed: bool,
    pub(crate) timer_expired: bool,
}

/// The steps that have finished, in order, with what comes next.
pub(crate) type Steps = Vec<(Slot, Next)>;

/// The parts besides helpers that a step may go to. A part that declines a step is cleared here,
/// and the placement is asked again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    /// There is a ring, and the thread's rights allow it to take the call.
    pub(crate) ring: bool,
    /// A ring or epoll reports readiness.
    pub(crate) readiness: bool,
    pub(crate) aio: bool,
}

impl Background {
    /// Makes the parts of a back end. `mounts`: the mount table, which they watch too.
    pub(crate) fn new(
        composition: &Composition,
        options: &Options,
        mounts: Option<BorrowedFd<'_>>,
    ) -> Result<Background, Errno> {
        let doorbell = Arc::new(Doorbell::new()?);
        let mut waiter = Waiter::new(composition.ring, options, &doorbell, mounts)?;
        let aio = Aio::new(
            composition.aio,
            &options.limits,
            options.allow_blocking_aio && !composition.carriers,
            &doorbell,
        );
        let aio = match aio {
            // A carrier or helper makes the calls.
            Err(_) if composition.carriers => None,
            aio => aio?,
        };
        if let (Some(ready_fd), Waiter::Reactor(reactor)) =
            (aio.as_ref().and_then(Aio::descriptor), &mut waiter)
        {
            reactor.set_aio(ready_fd)?;
        }
        Ok(Background {
            waiter,
            aio,
            threads: Threads::new(&doorbell, options),
            carriers: if composition.carriers {
                Some(Activations::new(&doorbell, options)?)
            } else {
                None
            },
            doorbell,
            reports_readiness: composition.readiness,
            exposed: false,
            notifiable: false,
            short: options.inject.short_transfer,
            events: Vec::new(),
            patience: None,
            reaped_without_reactor: 0,
        })
    }

    /// The parts that may take a step of a call of this row. `regular`: see
    /// [`InFlight::regular`](crate::operations::InFlight).
    pub(crate) fn accepts(&mut self, row: &Row, regular: bool) -> Parts {
        let has_ring = match &mut self.waiter {
            Waiter::Ring(ring) => ring.may_take(row, regular),
            Waiter::Reactor(_) => false,
        };
        Parts {
            ring: has_ring && self.threads.ring_may_take(row),
            readiness: self.reports_readiness(),
            aio: self.aio.is_some(),
        }
    }

    /// Hands a step of an operation, `call`, to a part. Returns false if the part has no form of
    /// this call: another part must take it.
    pub(crate) fn start(
        &mut self,
        part: Part,
        operations: &mut Operations,
        slot: Slot,
        call: &Call,
        why: Why,
    ) -> Result<bool, Errno> {
        let handle = operations.handle(slot);
        let operation = &mut operations[slot];
        let taken = match (part, &mut self.waiter) {
            (Part::Ring | Part::RingWorker, Waiter::Ring(ring)) => {
                self.threads.stamp_rights(operation)?;
                ring.start(operation, handle, call, why, part == Part::RingWorker)?
            }
            (Part::Ring | Part::RingWorker, Waiter::Reactor(_)) => false,
            (Part::Readiness, Waiter::Ring(ring)) => {
                let (fd, direction) = operation.awaited();
                ring.start_poll(handle, fd, direction)?;
                true
            }
            (Part::Readiness, Waiter::Reactor(reactor)) => {
                // Fails if epoll does not support the descriptor, it is not open, or
                // max_user_watches is reached.
                let (fd, direction) = operation.awaited();
                reactor.add(fd, direction, slot).is_ok()
            }
            (Part::Aio, _) => match &mut self.aio {
                Some(aio) => aio.start(slot, handle, operation.row, call, &mut self.threads),
                None => false,
            },
            (Part::Helper, _) => {
                // The attempt would have been made if the file system had one.
                let is_brief =
                    why == Why::KnownUnsupported && operation.row.attempt == Attempt::NowaitWrite;
                self.threads
                    .start(handle, operation, self.short, is_brief)?;
                if self.exposed {
                    // The program may sleep elsewhere.
                    self.threads.wake_for_shared();
                }
                true
            }
            (Part::Carrier, _) => unreachable!("a carrier has its call before the operation is"),
        };
        if taken {
            operation.state = State::With(part);
        }
        Ok(taken)
    }

    /// Takes over a call that blocked in its thread, for its operation.
    pub(crate) fn adopt(&self, flight: CarriedCall, operations: &mut Operations, slot: Slot) {
        operations[slot].state = State::With(Part::Carrier);
        if let Some(carriers) = &self.carriers {
            carriers.set_owner(flight, operations.handle(slot));
        }
    }

    /// Cancels a step of an operation, or asks the kernel to.
    pub(crate) fn cancel(
        &mut self,
        part: Part,
        operations: &mut Operations,
        slot: Slot,
    ) -> Cancelled {
        let handle = operations.handle(slot);
        let operation = &mut operations[slot];
        match (part, &mut self.waiter) {
            (Part::Ring | Part::RingWorker | Part::Readiness, Waiter::Ring(ring)) => {
                ring.cancel(handle);
                Cancelled::Running
            }
            (Part::Ring | Part::RingWorker | Part::Readiness, Waiter::Reactor(reactor)) => {
                let (fd, direction) = operation.awaited();
                reactor.remove(fd, direction);
                Cancelled::Removed
            }
            (Part::Aio, _) => {
                let aio = self.aio.as_mut().expect("an operation is in it");
                aio.cancel(slot, handle)
            }
            (Part::Helper, _) => self.threads.cancel(handle),
            (Part::Carrier, _) => match &self.carriers {
                Some(carriers) => carriers.cancel(handle),
                None => Cancelled::Running,
            },
        }
    }

    /// Takes the next operation for which the kernel did not find what a cancel request named.
    pub(crate) fn take_failed_cancel(&mut self) -> Option<Slot> {
        match &mut self.waiter {
            Waiter::Ring(ring) => ring.take_failed_cancel(),
            Waiter::Reactor(_) => None,
        }
    }

    /// Whether a full batch of steps waits to be submitted.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        let in_ring = matches!(&self.waiter, Waiter::Ring(ring) if ring.has_batch());
        let in_aio = self.aio.as_ref().map_or(0, |aio| aio.prepared());
        in_ring || in_aio >= Limits::BATCH
    }

    /// Submits the prepared requests of AIO, as many as the library takes.
    pub(crate) fn submit_to_aio(&mut self, operations: &Operations, steps: &mut Steps) {
        if let Some(aio) = &mut self.aio {
            aio.submit(operations, steps);
        }
    }

    /// Submits the queued entries of the ring, and wakes helpers for jobs that share one.
    pub(crate) fn submit(&mut self) -> Result<(), Errno> {
        self.threads.wake_for_shared();
        self.submit_to_ring()
    }

    fn submit_to_ring(&mut self) -> Result<(), Errno> {
        match &mut self.waiter {
            Waiter::Ring(ring) if ring.unsubmitted() > 0 => ring.submit(),
            _ => Ok(()),
        }
    }

    /// Whether results of threads or AIO wait that no descriptor reports.
    pub(crate) fn any_finished(&self) -> bool {
        self.threads.any_finished()
            || self
                .carriers
                .as_ref()
                .is_some_and(Activations::any_finished)
            || self.aio.as_ref().is_some_and(Aio::any_finished)
    }

    /// Waits at most `timeout` until a part reports something, and reaps the steps that have
    /// finished. On an error, those of threads are reaped nevertheless.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        operations: &mut Operations,
        steps: &mut Steps,
    ) -> Result<Noticed, Errno> {
        let mut timeout = timeout;
        let awaits_threads = self.threads.outstanding() > 0;
        let mut may_sleep = timeout != Some(Duration::ZERO);
        let spun = may_sleep && awaits_threads && self.spin(timeout)?;
        if spun {
            timeout = Some(Duration::ZERO);
            may_sleep = false;
        }
        if awaits_threads && self.threads.help_shared() {
            timeout = Some(timeout.map_or(Helpers::SHARED_AT_MOST, |time| {
                time.min(Helpers::SHARED_AT_MOST)
            }));
        }
        let rings = !spun && self.needs_doorbell();
        if may_sleep {
            if rings {
                self.doorbell.check()?;
                self.arm();
                // Events from before the doorbell was armed did not ring it.
                if self.any_finished() || self.doorbell.is_notified() {
                    timeout = Some(Duration::ZERO);
                }
            }
            self.note_mask();
        }
        let waited = match &mut self.waiter {
            Waiter::Ring(ring) => {
                let doorbell = rings.then_some(&*self.doorbell);
                ring.wait(timeout, doorbell, operations, &mut self.threads, steps)
            }
            Waiter::Reactor(_) => self.wait_on_reactor(timeout, operations, steps),
        };
        if may_sleep && rings && !self.exposed {
            self.doorbell.disarm();
        }
        self.reap_threads(operations, steps);
        waited.map(|noticed| Noticed { spun, ..noticed })
    }

    /// Looks for the result of a helper before a sleep, and for what else would end it. Returns
    /// whether there is something.
    fn spin(&mut self, timeout: Option<Duration>) -> Result<bool, Errno> {
        let spin_us = self.threads.spin_us();
        let patience = self.patience.get_or_insert_with(|| Patience::new(spin_us));
        patience.note_wait(self.threads.expected_wait());
        if !patience.expects_soon() {
            return Ok(false);
        }
        match &mut self.waiter {
            Waiter::Ring(ring) if ring.unsubmitted() > 0 => ring.submit()?,
            Waiter::Ring(_) => {}
            // Only a system call would show its events.
            Waiter::Reactor(reactor) if reactor.is_awaiting() => return Ok(false),
            Waiter::Reactor(_) => {}
        }
        let (waiter, threads, doorbell) = (&mut self.waiter, &self.threads, &self.doorbell);
        let found = patience.spin(timeout.unwrap_or(Duration::MAX), || {
            let other = match waiter {
                Waiter::Ring(ring) => ring.has_completions() || ring.needs_enter(),
                Waiter::Reactor(_) => false,
            };
            other || threads.any_finished() || doorbell.is_notified()
        });
        Ok(found)
    }

    /// Reaps the steps of threads and AIO that have finished, usually without a system call for others.
    pub(crate) fn reap_finished(
        &mut self,
        operations: &mut Operations,
        steps: &mut Steps,
    ) -> Result<Noticed, Errno> {
        self.reap_threads(operations, steps);
        self.reap_aio(false, operations, steps)?;
        self.reaped_without_reactor += 1;
        match &mut self.waiter {
            Waiter::Ring(ring) => ring.wait(
                Some(Duration::ZERO),
                None,
                operations,
                &mut self.threads,
                steps,
            ),
            Waiter::Reactor(_) if self.reaped_without_reactor > REAPS_WITHOUT_REACTOR => {
                self.wait_on_reactor(Some(Duration::ZERO), operations, steps)
            }
            Waiter::Reactor(_) => Ok(Noticed::default()),
        }
    }

    fn wait_on_reactor(
        &mut self,
        timeout: Option<Duration>,
        operations: &mut Operations,
        steps: &mut Steps,
    ) -> Result<Noticed, Errno> {
        let Waiter::Reactor(reactor) = &mut self.waiter else {
            unreachable!("asked of a reactor")
        };
        self.reaped_without_reactor = 0;
        let mut noticed = Noticed {
            interrupted: reactor.wait(timeout, &mut self.events)?,
            watched_mounts: true,
            ..Noticed::default()
        };
        let mut aio = false;
        for event in self.events.drain(..) {
            match event {
                Event::Ready(slot) => steps.push((slot, Next::Attempt)),
                Event::Doorbell => drop(self.doorbell.drain()),
                Event::Mounts => noticed.mounts_changed = true,
                Event::Timer => noticed.timer_expired = true,
                Event::Aio => aio = true,
            }
        }
        self.reap_aio(aio, operations, steps)?;
        Ok(noticed)
    }

    /// `ready_fd`: the library's descriptor was readable.
    fn reap_aio(
        &mut self,
        ready_fd: bool,
        operations: &mut Operations,
        steps: &mut Steps,
    ) -> Result<(), Errno> {
        match &mut self.aio {
            Some(aio) => aio.reap(ready_fd, operations, &mut self.threads, self.short, steps),
            None => Ok(()),
        }
    }

    fn reap_threads(&mut self, operations: &mut Operations, steps: &mut Steps) {
        if let Some(carriers) = &mut self.carriers {
            for (handle, result) in carriers.reap() {
                let slot = operations.live_slot(handle);
                steps.push((slot, step::after_carrier(&mut operations[slot], result)));
            }
        }
        for (handle, result) in self.threads.reap() {
            let slot = operations.live_slot(handle);
            steps.push((slot, Next::Finished(total(operations[slot].done, result))));
        }
    }

    /// Whether a thread or AIO may have to ring the doorbell while the context sleeps.
    fn needs_doorbell(&self) -> bool {
        let carried = self.carriers.as_ref().map_or(0, Activations::outstanding);
        self.exposed
            || self.notifiable
            || self.threads.outstanding() + carried > 0
            || self.aio.as_ref().is_some_and(Aio::needs_doorbell)
    }

    fn arm(&mut self) {
        self.doorbell.arm();
        if let Some(aio) = &mut self.aio {
            aio.watch();
        }
    }
}

/// The pollable descriptor, the doorbell and the timer.
impl Background {
    /// Whether the pollable descriptor was handed out.
    #[inline]
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed
    }

    /// Prepares the pollable descriptor for being handed out.
    pub(crate) fn expose(&mut self) -> Result<(), Errno> {
        if let Waiter::Ring(ring) = &mut self.waiter {
            ring.expose(&self.doorbell)?;
        }
        self.exposed = true;
        Ok(())
    }

    /// The descriptor that is readable when a part has something to report.
    pub(crate) fn pollable(&self) -> BorrowedFd<'_> {
        match &self.waiter {
            Waiter::Ring(ring) => ring.pollable(&self.doorbell),
            Waiter::Reactor(reactor) => reactor.as_fd(),
        }
    }

    /// Makes sure that further events make the pollable descriptor readable by themselves.
    /// `any_ready`: completions wait already.
    pub(crate) fn arm_descriptor(&mut self, any_ready: bool) {
        self.arm();
        if let Waiter::Ring(ring) = &mut self.waiter {
            // An error makes the descriptor readable too: the next poll reports it. So do entries that
            // the kernel did not take: the next poll submits them again.
            let watched = ring.watch_descriptor(&self.doorbell);
            if watched.is_err() || ring.has_completions() || ring.unsubmitted() > 0 {
                self.doorbell.ring();
            }
        }
        if any_ready || self.any_finished() {
            self.doorbell.ring();
        }
    }

    /// Drains the doorbell, so that the pollable descriptor reports further events.
    pub(crate) fn drain_doorbell(&mut self) -> Result<(), Errno> {
        let drained = self.doorbell.drain();
        match &mut self.waiter {
            Waiter::Ring(ring) if drained => match ring.expose_again(&self.doorbell) {
                Err(Errno::NOMEM) => {
                    // No CQE would signal it before the next poll, which registers it again.
                    self.doorbell.arm();
                    self.doorbell.ring();
                    Ok(())
                }
                registered => registered,
            },
            _ => Ok(()),
        }
    }

    pub(crate) fn doorbell(&self) -> &Arc<Doorbell> {
        &self.doorbell
    }

    /// Makes the pollable descriptor report the timer of operations' deadlines too.
    pub(crate) fn set_timer(&mut self, timer: &HighFd) -> Result<(), Errno> {
        match &mut self.waiter {
            Waiter::Ring(ring) => ring.set_timer(timer.as_raw_fd()),
            Waiter::Reactor(reactor) => reactor.set_timer(timer.as_fd())?,
        }
        Ok(())
    }
}

/// What the context asks of the parts, or tells them all.
impl Background {
    /// Whether operations go to an io_uring.
    #[inline]
    pub(crate) fn has_ring(&self) -> bool {
        matches!(self.waiter, Waiter::Ring(_))
    }

    /// Whether the ring has zero-copy sends.
    pub(crate) fn sends_without_copy(&self) -> bool {
        matches!(&self.waiter, Waiter::Ring(ring) if ring.sends_without_copy())
    }

    /// Whether streams are waited for by readiness rather than by helpers.
    pub(crate) fn reports_readiness(&self) -> bool {
        self.reports_readiness
    }

    /// The carriers of `activations`.
    #[inline]
    pub(crate) fn carriers(&self) -> Option<&Activations> {
        self.carriers.as_ref()
    }

    #[inline]
    pub(crate) fn carriers_mut(&mut self) -> Option<&mut Activations> {
        self.carriers.as_mut()
    }

    /// Records the program's signal mask, which may have changed.
    pub(crate) fn note_mask(&self) {
        if let Some(carriers) = &self.carriers {
            carriers.note_mask();
        }
    }

    /// Starts new helpers after a call of this row has changed the thread's rights.
    pub(crate) fn rights_changed(&mut self, by: &Row) {
        self.threads.rights_changed(by);
    }

    /// Whether the thread's rights were found to have changed since this was last asked.
    pub(crate) fn take_new_rights(&mut self) -> bool {
        self.threads.take_new_rights()
    }

    /// The number of live helper threads of both kinds.
    pub(crate) fn helper_threads(&self) -> usize {
        self.threads.count()
    }

    /// What remote file systems have not answered.
    pub(crate) fn unanswered(&self) -> Unanswered {
        self.threads.unanswered()
    }

    /// The same for other threads, without calls of one-shot threads.
    pub(crate) fn unanswered_calls(&self) -> UnansweredCalls {
        self.threads.unanswered_calls()
    }

    /// Adds the counts of the parts to the statistics.
    pub(crate) fn add_counts(&self, stats: &mut Stats) {
        if let Waiter::Ring(ring) = &self.waiter {
            ring.add_counts(stats);
        }
        if let Some(aio) = &self.aio {
            stats.aio = aio.counts;
        }
        stats.helper_wakeups = self.threads.wakeups();
        stats.made_by_caller = self.threads.made_by_caller();
        let unanswered = self.unanswered();
        stats.unanswered = unanswered.calls() as u64;
        stats.hung_mounts = unanswered.hung().count() as u64;
        if let Some(carriers) = &self.carriers {
            (stats.handoffs, stats.false_wakeups) = carriers.counts();
        }
    }

    /// Bytes of memory that the parts hold.
    pub(crate) fn memory(&self) -> usize {
        let waiter = match &self.waiter {
            Waiter::Ring(ring) => ring.memory(),
            Waiter::Reactor(reactor) => reactor.memory(),
        };
        waiter + self.aio.as_ref().map_or(0, Aio::memory)
    }

    /// In a forked child: releases what the child inherited, without touching state shared with the
    /// parent.
    pub(crate) fn forget_in_child(&mut self) {
        self.threads.forget_in_child();
        if let Some(carriers) = &mut self.carriers {
            carriers.forget_in_child();
        }
        if let Some(aio) = &mut self.aio {
            aio.forget_in_child();
        }
    }
}

impl Parts {
    /// Clears a part that has declined the step.
    pub(crate) fn decline(&mut self, part: Part) {
        match part {
            Part::Ring | Part::RingWorker => self.ring = false,
            Part::Readiness => self.readiness = false,
            Part::Aio => self.aio = false,
            Part::Helper | Part::Carrier => unreachable!("neither declines a step"),
        }
    }
}

impl Waiter {
    fn new(
        ring: RingUse,
        options: &Options,
        doorbell: &Doorbell,
        mounts: Option<BorrowedFd<'_>>,
    ) -> Result<Waiter, Errno> {
        if ring != RingUse::Never {
            match Waiter::new_ring(options, mounts) {
                Ok(waiter) => return Ok(waiter),
                Err(errno) if ring == RingUse::Required => return Err(errno),
                // io_uring is absent, forbidden, or at a limit: `lazy` works without it.
                Err(_) => {}
            }
        }
        Ok(Waiter::Reactor(Reactor::new(doorbell.as_fd(), mounts)?))
    }

    fn new_ring(options: &Options, mounts: Option<BorrowedFd<'_>>) -> Result<Waiter, Errno> {
        // Activations change the thread, and a ring belongs to one thread.
        if activations::thread_has_carriers() {
            return Err(Errno::BUSY);
        }
        let watched = mounts.map(|fd| fd.as_raw_fd());
        let ring = Ring::new(options, watched)?;
        rights::note_ring();
        Ok(Waiter::Ring(ring))
    }
}
