//! The code of carriers that do not run the application.
//!
//! The C library does not know these threads, so this code must not use it, nor thread-local
//! variables, nor the heap, and must not panic: it makes system calls by assembly, and uses the
//! memory of [`CarrierShared`] and [`Carrier`]. Stacks are abandoned without unwinding, so no value
//! here may need dropping.

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

/// Milliseconds until a preempted thread is inspected again.
const AGAIN_MS: usize = 2;

/// The entry function of a new carrier.
///
/// # Safety
/// The entry of a thread made by [`sys::handoff::spawn`].
pub(super) unsafe extern "C" fn begin(control: *mut Control) -> ! {
    // SAFETY: the carrier that this thread was made for.
    let carrier = unsafe { Carrier::at(control) };
    wait_for_start(carrier);
    serve(carrier)
}

/// Waits until the creator has finished the initialisation, or wants the thread to end.
pub(super) fn wait_for_start(me: &Carrier) {
    while me.ready.load(SeqCst) == readiness::NOT_YET {
        sys::futex_wait(&me.ready, readiness::NOT_YET, true);
    }
    if me.ready.load(SeqCst) == readiness::END {
        end(me);
    }
}

/// Waits until the application blocks, and continues it.
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

/// Sleeps until an event, or for [`AGAIN_MS`].
fn sleep(shared: &CarrierShared, for_a_while: bool) {
    let mut event = [0u64; 2];
    let timeout = if for_a_while { AGAIN_MS } else { usize::MAX };
    let set = shared.waiting.as_raw_fd() as usize;
    let place = event.as_mut_ptr() as usize;
    // SAFETY: the buffer holds one event. Its content is not needed: there is only one application.
    let _ = unsafe { sys::raw(libc::SYS_epoll_pwait, [set, place, 1, timeout, 0, 8]) };
}

/// Continues the application of `victim`, which the caller has won.
pub(super) fn take_over(me: &Carrier, victim: &Carrier) -> ! {
    let shared = me.shared();
    victim.gate().close();
    shared.victim.store(from(victim), Relaxed);
    shared.spares.fetch_sub(1, Relaxed);
    shared.counts.handoffs.fetch_add(1, Relaxed);
    run_application(me, victim.control.saved.load(Relaxed))
}

/// Runs the application from its saved stack pointer.
pub(super) fn run_application(me: &Carrier, saved: usize) -> ! {
    let shared = me.shared();
    me.control.interrupted.store(0, Relaxed);
    become_(&me.control.state, APP);
    shared.current.store(from(me), SeqCst);
    // SAFETY: this thread has won the application.
    unsafe { resume(saved, shared.application) }
}

/// Handles the return of a call whose application runs on another carrier.
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
    // From here on no new interruption begins; wait for those announced. The signal is unblocked
    // even if the application blocks it now.
    while me.interrupts.load(SeqCst) != 0 {
        mask::unblock(bit(me.shared().signal));
        yield_now();
    }
    leave_application(me);
    let serves = !me.is_home() && me.is_current();
    if serves {
        // Before the result is published, so that a reader of the result finds this carrier among
        // the spares.
        me.shared().spares.fetch_add(1, Release);
    }
    // SAFETY: the flight of this call.
    unsafe { Flight::land(flight, word) };
    if serves {
        serve(me)
    } else if me.is_home() {
        home::wait(me)
    } else {
        end(me)
    }
}

/// Handles an application that has parked itself, to continue at home.
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
    // From now on signals are forwarded to the home carrier.
    shared.current.store(shared.home.load(Relaxed), SeqCst);
    leave_application(me);
    shared.spares.fetch_add(1, Release);
    shared.returning.store(saved, SeqCst);
    home::call(shared);
    serve(me)
}

/// Switches to the carrier's own thread-local variables: the sanitizers keep the application's
/// state in the application's, which runs on another thread now, or soon.
///
/// # Safety
/// On the carrier's own stack, by its own thread.
#[cfg(laio_sanitized)]
pub(super) unsafe fn restore_thread_pointer(control: *mut Control) {
    // SAFETY: by the caller.
    unsafe { set_thread_pointer((*control.cast::<Carrier>()).block) };
}

/// Detaches this thread from the application: from its signals and its thread-local variables.
fn leave_application(me: &Carrier) {
    mask::set(Mask::MAX);
    // SAFETY: nothing on this path uses thread-local variables. Signals are blocked by now: no handler sees this
    // block.
    unsafe { set_thread_pointer(me.block) };
    while me.shared().forwarding.load(SeqCst) != 0 {
        yield_now();
    }
    // Forward the signals that arrived for the application while this thread ran it.
    while let Some(mut info) = next_signal(!me.shared().carried_mask(), Some(0)) {
        forward(me.shared(), &mut info);
    }
}

/// Takes the next pending signal of a set; waits for it if no time is given.
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
    fn signal(&self) -> i32 {
        self.0[0] as i32
    }

    fn code(&self) -> i32 {
        self.0[1] as i32
    }

    /// Whether the C library of this process has sent this signal to a single thread.
    pub(super) fn is_of_library(&self, signal: i32, process: u32) -> bool {
        let sender = self.0[2] as u32;
        self.signal() == signal && self.code() == libc::SI_TKILL && sender == process
    }

    fn set_code(&mut self, code: i32) {
        self.0[1] = (self.0[1] & !0xffff_ffff) | u64::from(code as u32);
    }
}

/// Forwards a signal to the thread that runs the application.
pub(super) fn forward(shared: &CarrierShared, info: &mut SignalInfo) {
    if info.signal() == shared.signal {
        return;
    }
    // Only the kernel may use these codes (sent by the kernel, or to a thread).
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

/// Ends the thread. Its slot is free when the kernel has cleared the TID.
pub(super) fn end(me: &Carrier) -> ! {
    // The next user of the slot sees all stores made here: see `Owned::thread_number`.
    me.ready.store(readiness::END, Release);
    loop {
        // SAFETY: nothing of this thread needs cleaning up.
        let _ = unsafe { sys::raw(libc::SYS_exit, [0]) };
    }
}

const _: () = assert!(CALL == 1 && with_state(7, APP) == 4 && state::state(7) == SPARE);
