//! The application's side: a thread of the program, whose kernel thread changes.

use super::carrier::{Owned, readiness};
use super::detectors;
use super::flight::{CarryOutcome, Flight, Inbox};
use super::identity;
use super::rseq::Unregistered;
use super::shared::CarrierShared;
use super::slots;
use super::state::{self, APP, TAKEN, become_};
use crate::attempt::CarriedCall;
use crate::sys::fork::Life;
use crate::sys::high_fd::{self, HighFd};
use crate::sys::interrupt::{self, Signal};
use crate::sys::{self, handoff, mask};
use crate::{Call, Detector, Errno};
use std::cell::{Cell, RefCell};
use std::os::fd::AsRawFd;
use std::rc::{Rc, Weak};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// Spares kept ready: one to continue the application, and one for its next call.
const SPARES: u32 = 2;
/// Seconds within which the self-test hand-off must succeed.
const SELF_TEST_SECONDS: i64 = 2;
/// Milliseconds for which a change of identity waits for the home carrier to be free.
const CHANGE_TIMEOUT_MS: u32 = 1000;

std::thread_local! {
    /// The contexts of a thread share its carriers.
    static THREAD: RefCell<Weak<Thread>> = const { RefCell::new(Weak::new()) };
}

/// A thread of the program and its carriers.
#[derive(Debug)]
pub(super) struct Thread {
    life: Life,
    /// The maximum number of carriers, without the home carrier.
    limit: Cell<usize>,
    spares: RefCell<Vec<Owned>>,
    /// Why no carrier can be added.
    cannot_grow: Cell<Option<Errno>>,
    /// See [`identity::is_dumpable`].
    dumpable: Cell<bool>,
    /// Whether a context of the thread does not promise settled rights.
    compares_rights: Cell<bool>,
    /// Detector threads.
    detectors: RefCell<Vec<Owned>>,
    home: Owned,
    pub(super) shared: Box<CarrierShared>,
    rseq: Unregistered,
}

impl Thread {
    /// Returns the carriers of the calling thread, and makes them if there are none.
    pub(super) fn join(
        inbox: &Inbox,
        detector: Option<Detector>,
        limit: usize,
        signal: Option<i32>,
    ) -> Result<Rc<Thread>, Errno> {
        let present = THREAD.with_borrow(Weak::upgrade);
        if let Some(thread) = present
            && thread.life.is_current()
            && detector.is_none_or(|wanted| wanted == thread.shared.detector)
        {
            thread.limit.set(thread.limit.get().max(limit));
            return Ok(thread);
        }
        handoff::check()?;
        let detectors = detectors::in_order(detector)?;
        let mut refused = Errno::NOSYS;
        for detector in detectors {
            match Thread::new(detector, limit, signal).and_then(|thread| thread.self_test(inbox)) {
                Ok(thread) => {
                    THREAD.set(Rc::downgrade(&thread));
                    return Ok(thread);
                }
                Err(errno) => refused = errno,
            }
        }
        Err(refused)
    }

    /// Whether the calling thread has carriers.
    pub(super) fn is_present() -> bool {
        let present = THREAD.try_with(|thread| thread.borrow().upgrade());
        present.is_ok_and(|thread| thread.is_some_and(|thread| thread.life.is_current()))
    }

    fn new(detector: Detector, limit: usize, signal: Option<i32>) -> Result<Rc<Thread>, Errno> {
        let signal = Signal::install(signal)?;
        interrupt::set_carriers(on_cancel_signal);
        let shared = Box::new(CarrierShared::new(
            detector,
            detectors::sleep_words(detector),
            signal.number(),
        )?);
        let home = Owned::home(&shared)?;
        become_(&home.get().control.state, APP);
        shared.home.store(home.carrier, SeqCst);
        shared.current.store(home.carrier, SeqCst);
        shared.mask.store(mask::get(), Relaxed);
        let thread = Thread {
            life: Life::current(),
            limit: Cell::new(limit),
            spares: RefCell::default(),
            cannot_grow: Cell::new(None),
            dumpable: Cell::new(identity::is_dumpable()),
            compares_rights: Cell::new(false),
            detectors: RefCell::default(),
            home,
            shared,
            rseq: Unregistered::new(),
        };
        while thread.shared.spares.load(Relaxed) < SPARES {
            thread.grow()?;
        }
        *thread.detectors.borrow_mut() = detectors::start(&thread.shared)?;
        Ok(Rc::new(thread))
    }

    /// Tests that a hand-off works here: makes a blocking call, and returns to the home carrier.
    fn self_test(self: Rc<Thread>, inbox: &Inbox) -> Result<Rc<Thread>, Errno> {
        use rustix::event::{EventfdFlags, eventfd};
        let event = HighFd::from(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut wanted = libc::pollfd {
            fd: event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let time = [SELF_TEST_SECONDS, 0];
        let args = [
            (&raw mut wanted) as usize,
            1,
            (&raw const time) as usize,
            0,
            0,
        ];
        let flight = Flight::new(inbox);
        loop {
            // SAFETY: what is pointed to lives until the flight has landed, which is waited for.
            match unsafe { self.call(&flight, &Call::new(libc::SYS_ppoll, args)) } {
                CarryOutcome::InFlight(_) => break,
                CarryOutcome::NoCarrier(errno) => return Err(errno),
                // A signal handler of the program.
                CarryOutcome::Returned(Err(Errno::INTR)) => {}
                CarryOutcome::Returned(_) => return Err(Errno::TIME),
            }
        }
        rustix::io::write(&event, &1u64.to_ne_bytes())?;
        flight.wait_until_done();
        inbox.reap(&mut Vec::new());
        self.go_home();
        Ok(self)
    }

    /// Turns on the comparison of rights after each hand-off.
    pub(super) fn compare_rights(&self) {
        self.compares_rights.set(true);
    }

    /// Makes a call; if it blocks, returns on another kernel thread.
    ///
    /// # Safety
    /// As for the system call, and what is pointed to, and the flight, must live until it has landed.
    #[inline]
    pub(super) unsafe fn call(&self, flight: &Flight, call: &Call) -> CarryOutcome {
        if self.shared.spares.load(Acquire) == 0
            && let Err(errno) = self.grow()
        {
            return CarryOutcome::NoCarrier(errno);
        }
        // SAFETY: carriers live as long as this; the current one is that of the running kernel thread.
        let returned = unsafe {
            let carrier = self.shared.current.load(Relaxed);
            let flight = std::ptr::from_ref(flight).cast_mut();
            (*carrier).flight.store(flight, Release);
            handoff::call(&raw mut (*carrier).control, call.number, &call.args)
        };
        if returned.taken == 0 {
            return CarryOutcome::Returned(Errno::from_register(returned.word));
        }
        self.after_handoff();
        flight.carrier.set(self.shared.victim.load(Relaxed));
        CarryOutcome::InFlight(CarriedCall((&raw const *flight).cast()))
    }

    /// Finishes a hand-off, on the new kernel thread.
    #[cold]
    fn after_handoff(&self) {
        mask::set(self.shared.carried_mask());
        if self.compares_rights.get() || self.dumpable.get() != identity::is_dumpable() {
            self.identity_may_have_changed();
        }
        while self.shared.spares.load(Relaxed) < SPARES && self.grow().is_ok() {}
    }

    /// Records the signal mask, which may have changed.
    pub(super) fn note_mask(&self) {
        self.shared.note_mask(mask::get());
    }

    /// Adds a carrier.
    #[cold]
    fn grow(&self) -> Result<(), Errno> {
        let mut spares = self.spares.borrow_mut();
        spares.retain(Owned::is_alive);
        if spares.len() >= self.limit.get() {
            return Err(Errno::AGAIN);
        }
        if let Some(errno) = self.cannot_grow.get() {
            return Err(errno);
        }
        // Carriers keep their descriptors; the last free numbers are left to the program.
        if spares.len() >= SPARES as usize && !high_fd::has_spare_numbers(&self.shared.waiting) {
            return Err(Errno::MFILE);
        }
        let spare = Owned::spare(&self.shared).inspect_err(|&errno| {
            // A lasting error is not retried for each call; a temporary shortage is.
            let passing = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
            self.cannot_grow
                .set((!passing.contains(&errno)).then_some(errno));
        })?;
        self.shared.spares.fetch_add(1, Release);
        spare.start_or_end(readiness::SERVE);
        spares.push(spare);
        Ok(())
    }

    /// Prepares a change of credentials, filters or namespaces, which must be made on the home
    /// carrier.
    ///
    /// # Errors
    /// `EBUSY` if the home carrier is blocked in a call.
    pub(super) fn begin_change(&self) -> Result<(), Errno> {
        let home = &self.home.get().control.state;
        for _ in 0..CHANGE_TIMEOUT_MS {
            if state::state(home.load(SeqCst)) != TAKEN {
                self.go_home();
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Errno::BUSY)
    }

    /// Renews the carriers after a change of identity, so that they inherit the new one. Calls in
    /// flight keep the old one, and their carriers end with them.
    pub(super) fn renew(&self) {
        self.shared.epoch.fetch_add(1, SeqCst);
        let mut spares = self.spares.borrow_mut();
        let idle = |spare: &&Owned| state::state(spare.get().control.state.load(SeqCst)) != TAKEN;
        for spare in spares.iter().filter(idle) {
            while spare.is_alive() {
                self.shared.wake_one();
                std::thread::yield_now();
            }
        }
        spares.retain(Owned::is_alive);
        drop(spares);
        self.cannot_grow.set(None);
        self.dumpable.set(identity::is_dumpable());
        while self.shared.spares.load(Relaxed) < SPARES && self.grow().is_ok() {}
    }

    /// Whether all carriers that may run the application have the identity of the current one.
    pub(super) fn carriers_agree(&self) -> bool {
        // SAFETY: carriers live as long as this.
        let current = unsafe { &*self.shared.current.load(Relaxed) };
        let spares = self.spares.borrow();
        let mut all = spares.iter().chain(std::iter::once(&self.home));
        all.all(|one| !one.get().is_current() || identity::is_same(one.get(), current))
    }

    /// Checks for a change of identity that was made other than through laio, so that only the
    /// previous carrier has it.
    #[cold]
    fn identity_may_have_changed(&self) {
        self.dumpable.set(identity::is_dumpable());
        // SAFETY: carriers live as long as this.
        let (now, before) = unsafe {
            (
                &*self.shared.current.load(Relaxed),
                &*self.shared.victim.load(Relaxed),
            )
        };
        // The comparison uses the C library, whose errno belongs to the program.
        // SAFETY: the place of this thread's errno.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        let kept = unsafe { *errno };
        if !identity::is_same(now, before) {
            identity::stop();
        }
        // SAFETY: as above.
        unsafe { *errno = kept };
    }

    /// Brings the application back to its home carrier, where it must end. None of its calls may be
    /// in flight there.
    fn go_home(&self) {
        let current = self.shared.current.load(Relaxed);
        if current == self.home.carrier {
            return;
        }
        mask::set(mask::Mask::MAX);
        // SAFETY: the current carrier is that of the running thread.
        unsafe { handoff::park(&raw mut (*current).control) };
        // Orders this after the home carrier's last actions.
        self.shared.current.load(Acquire);
        mask::set(self.shared.mask.load(Relaxed));
    }

    /// Interrupts the call of a flight that has not landed. Returns false if the kernel refused the
    /// signal: see [`interrupt::Interruptible::interrupt`].
    pub(super) fn interrupt(&self, flight: &Flight) -> bool {
        // SAFETY: carriers live as long as this.
        let carrier = unsafe { &*flight.carrier.get() };
        if state::announce(&carrier.interrupts) > 0 {
            // An earlier signal for this call is pending. The kernel keeps one standard signal of a
            // number, so the carrier would wait for a second one for ever.
            handled(&carrier.interrupts);
            return true;
        }
        let same = std::ptr::eq(carrier.flight.load(Relaxed), flight);
        let mut refused = false;
        // A carrier that has left this state waits for announced interruptions.
        if state::state(carrier.control.state.load(SeqCst)) == TAKEN && same {
            carrier.control.interrupted.store(1, SeqCst);
            let thread = carrier.number.load(Relaxed) as usize;
            let shared = &self.shared;
            let args = [shared.process as usize, thread, shared.signal as usize];
            // SAFETY: tgkill takes no pointers.
            let sent = unsafe { sys::raw(libc::SYS_tgkill, args) };
            if sent.is_ok() {
                return true;
            }
            refused = sent == Err(Errno::AGAIN);
        }
        handled(&carrier.interrupts);
        !refused
    }

    /// The number of live carriers, without the home carrier.
    pub(super) fn carriers(&self) -> usize {
        self.spares.borrow().len()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if !self.life.is_current() {
            for carrier in self.spares.get_mut() {
                carrier.forget_in_child();
            }
            self.home.forget_in_child();
            self.rseq.forget_in_child();
            return;
        }
        self.go_home();
        self.shared.closing.store(true, SeqCst);
        self.shared.wake_all();
        detectors::wake_all(&self.shared);
        let threads = self.spares.get_mut().iter();
        for thread in threads.chain(self.detectors.get_mut().iter()) {
            thread.wait_for_end();
        }
    }
}

/// Handles the signal that interrupts calls. Returns whether it was meant for a carrier.
fn on_cancel_signal(context: &mut libc::ucontext_t) -> bool {
    let Some(carrier) = slots::carrier_at(handoff::stack_pointer(context)) else {
        return false;
    };
    handoff::interrupt(context);
    // SAFETY: the slot is in use: its carrier is what this handler has interrupted.
    handled(unsafe { &(*carrier).interrupts });
    true
}

/// Takes back one announcement, if there is one: the handler also runs for a wakeup of the home carrier.
fn handled(interrupts: &AtomicU32) {
    let _ = interrupts.fetch_update(SeqCst, SeqCst, |sent| sent.checked_sub(1));
}
