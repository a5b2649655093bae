//! What carriers do while they do not run the application.
//!
//! The C library does not know these threads, so nothing here may use it, nor thread-local variables, nor
//! memory from the heap, nor panic: system calls by assembly, and what [`CarrierShared`] and [`Carrier`] hold.
//! Stacks are given up without unwinding, so nothing here may own what needs dropping.

use super::carrier::{Carrier, readiness};
use super::flight::Flight;
use super::shared::CarrierShared;
use super::state::{self, APP, CALL, SPARE, become_, with_state};
use super::{home, inspect};
use crate::sys::handoff::{Control, resume, set_thread_pointer};
use crate::sys::mask::{self, Mask, bit};
use crate::sys::{self};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::*;

/// Milliseconds until a call whose thread was only preempted is looked at again.
const AGAIN_MS: usize = 2;

/// The life of a new carrier.
///
/// # Safety
/// The entry of a thread made by [`sys::handoff::spawn`].
pub(super) unsafe extern "C" fn begin(control: *mut Control) -> ! {
    // SAFETY: the carrier that this thread was made for.
    let carrier = unsafe { Carrier::at(control) };
    wait_for_start(carrier);
    serve(carrier)
}

/// Until the thread's creator has made everything ready, or thought better of it.
pub(super) fn wait_for_start(me: &Carrier) {
    while me.ready.load(SeqCst) == readiness::NOT_YET {
        sys::futex_wait(&me.ready, readiness::NOT_YET, true);
    }
    if me.ready.load(SeqCst) == readiness::END {
        end(me);
    }
}

/// Waits for the application to block somewhere, and takes it on.
fn serve(me: &Carrier) -> ! {
    let shared = me.shared();
    let mut again: Option<inspect::Preempted<'_>> = None;
    loop {
        sleep(shared, again.is_some());
        if shared.closing.load(SeqCst) {
            end(me);
        }
        if !me.is_current() {
            shared.spares.fetch_sub(1, SeqCst);
            end(me);
        }
        if let Some(preempted) = again.take() {
            again = preempted.inspect_again(me);
        }
        if let Some(preempted) = inspect::inspect_current(me) {
            again = Some(preempted);
        }
    }
}

/// Until something happens.
fn sleep(shared: &CarrierShared, for_a_while: bool) {
    let mut event = [0u64; 2];
    let timeout = if for_a_while { AGAIN_MS } else { usize::MAX };
    let set = shared.waiting.as_raw_fd() as usize;
    let place = event.as_mut_ptr() as usize;
    // SAFETY: room for one event. What it says is of no interest: there is only one application to look at.
    let _ = unsafe { sys::raw(libc::SYS_epoll_pwait, [set, place, 1, timeout, 0, 8]) };
}

/// Goes on with the application of `victim`, which the caller has won.
pub(super) fn take_over(me: &Carrier, victim: &Carrier) -> ! {
    let shared = me.shared();
    victim.gate().close();
    shared.victim.store(from(victim), Relaxed);
    shared.spares.fetch_sub(1, Relaxed);
    shared.counts.handoffs.fetch_add(1, Relaxed);
    run_application(me, victim.control.saved.load(Relaxed))
}

/// Runs the application from where it has left its stack.
pub(super) fn run_application(me: &Carrier, saved: usize) -> ! {
    let shared = me.shared();
    me.control.interrupted.store(0, Relaxed);
    become_(&me.control.state, APP);
    shared.current.store(from(me), SeqCst);
    // SAFETY: this thread has won the application.
    unsafe { resume(saved, shared.application) }
}

/// A call has returned whose application is elsewhere.
///
/// # Safety
/// From the assembly: the carrier's own thread, on its own stack, with the application's thread pointer.
pub(super) unsafe extern "C" fn returned(control: *mut Control, word: usize) -> ! {
    #[cfg(laio_sanitized)]
    // SAFETY: by the caller.
    unsafe {
        restore_thread_pointer(control);
    }
    // SAFETY: by the caller.
    let me = unsafe { Carrier::at(control) };
    let flight = me.flight.load(Acquire);
    become_(&me.control.state, SPARE);
    // From here on nobody begins to interrupt it; who has begun is waited for. The signal is let through even if
    // the application has come to block it.
    while me.interrupts.load(SeqCst) != 0 {
        mask::unblock(bit(me.shared().signal));
        yield_now();
    }
    leave_application(me);
    let serves = !me.is_home() && me.is_current();
    if serves {
        // Before it lands: whoever has its result finds this carrier among the spares.
        me.shared().spares.fetch_add(1, Release);
    }
    // SAFETY: the flight of this call.
    unsafe { Flight::land(flight, word) };
    match serves {
        true => serve(me),
        false if me.is_home() => home::wait(me),
        false => end(me),
    }
}

/// The application has let go of its stack, to go on at home.
///
/// # Safety
/// As for [`returned`]; every signal is blocked.
pub(super) unsafe extern "C" fn parked(control: *mut Control) -> ! {
    #[cfg(laio_sanitized)]
    // SAFETY: by the caller.
    unsafe {
        restore_thread_pointer(control);
    }
    // SAFETY: by the caller.
    let me = unsafe { Carrier::at(control) };
    let shared = me.shared();
    let saved = me.control.saved.load(Relaxed);
    become_(&me.control.state, SPARE);
    // Signals go there from now on.
    shared.current.store(shared.home.load(Relaxed), SeqCst);
    leave_application(me);
    shared.spares.fetch_add(1, Release);
    shared.returning.store(saved, SeqCst);
    home::call(shared);
    serve(me)
}

/// From here on the carrier's own thread-local variables count: what the sanitizers know of the application is in those
/// of the application, which runs elsewhere, or is about to.
///
/// # Safety
/// On the carrier's own stack, by its own thread.
#[cfg(laio_sanitized)]
pub(super) unsafe fn restore_thread_pointer(control: *mut Control) {
    // SAFETY: by the caller.
    unsafe { set_thread_pointer((*control.cast::<Carrier>()).block) };
}

/// From now on this thread has nothing to do with the application: neither its signals nor its variables.
fn leave_application(me: &Carrier) {
    mask::set(Mask::MAX);
    // SAFETY: nothing on this path uses thread-local variables. Signals are blocked by now: no handler sees this
    // block.
    unsafe { set_thread_pointer(me.block) };
    while me.shared().forwarding.load(SeqCst) != 0 {
        yield_now();
    }
    // What came for the application while this thread was it.
    while let Some(mut info) = next_signal(!me.shared().carried_mask(), Some(0)) {
        forward(me.shared(), &mut info);
    }
}

/// Takes the next pending signal of a set, waiting for it if no time is given.
pub(super) fn next_signal(set: Mask, seconds: Option<i64>) -> Option<SignalInfo> {
    let mut info = SignalInfo([0; 16]);
    let time = seconds.map(|seconds| [seconds, 0]);
    let time_at = time.as_ref().map_or(0, |time| time.as_ptr() as usize);
    let (set_at, info_at) = ((&raw const set) as usize, (&raw mut info) as usize);
    let args = [set_at, info_at, time_at, size_of::<Mask>()];
    // SAFETY: all three live through the call; the kernel writes 128 bytes.
    unsafe { sys::raw(libc::SYS_rt_sigtimedwait, args) }.ok()?;
    Some(info)
}

/// `siginfo_t`, in words.
#[repr(C, align(16))]
pub(super) struct SignalInfo([u64; 16]);

impl SignalInfo {
    pub(super) fn signal(&self) -> i32 {
        self.0[0] as i32
    }

    fn code(&self) -> i32 {
        self.0[1] as i32
    }

    fn set_code(&mut self, code: i32) {
        self.0[1] = (self.0[1] & !0xffff_ffff) | u64::from(code as u32);
    }
}

/// Sends a signal on to the thread that runs the application.
pub(super) fn forward(shared: &CarrierShared, info: &mut SignalInfo) {
    if info.signal() == shared.signal {
        return;
    }
    // Only the kernel may say that it sent a signal itself, or that a thread was meant.
    if info.code() >= 0 || info.code() == libc::SI_TKILL {
        info.set_code(libc::SI_QUEUE);
    }
    shared.forwarding.fetch_add(1, SeqCst);
    // SAFETY: carriers live as long as what they share.
    let current = unsafe { &*shared.current.load(SeqCst) };
    let thread = current.number.load(Relaxed) as usize;
    let signal = info.signal() as usize;
    let info_at = std::ptr::from_mut(info) as usize;
    let args = [shared.process as usize, thread, signal, info_at];
    // SAFETY: the info lives through the call.
    let _ = unsafe { sys::raw(libc::SYS_rt_tgsigqueueinfo, args) };
    shared.forwarding.fetch_sub(1, SeqCst);
}

fn from(carrier: &Carrier) -> *mut Carrier {
    std::ptr::from_ref(carrier).cast_mut()
}

fn yield_now() {
    // SAFETY: no pointers.
    let _ = unsafe { sys::raw(libc::SYS_sched_yield, []) };
}

/// Ends the thread. Its slot is free when the kernel says so.
pub(super) fn end(me: &Carrier) -> ! {
    // Whoever uses the slot next sees all that was done here: see `Owned::thread_number`.
    me.ready.store(readiness::END, Release);
    loop {
        // SAFETY: nothing of this thread needs cleaning up.
        let _ = unsafe { sys::raw(libc::SYS_exit, [0]) };
    }
}

const _: () = assert!(CALL == 1 && with_state(7, APP) == 4 && state::state(7) == SPARE);
