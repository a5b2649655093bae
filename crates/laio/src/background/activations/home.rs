//! The home carrier: the kernel thread on which the application began, which the C library knows,
//! and on which the application must end.
//!
//! After the first hand-off it runs the application only when that comes home. While idle it waits
//! for signals: those sent to the application by the TID of this thread (`pthread_kill`, timers)
//! are forwarded to the carrier that runs the application.

use super::carrier::Carrier;
use super::identity;
use super::shared::CarrierShared;
use super::spare::{forward, next_signal, run_application};
use crate::Errno;
use crate::sys;
use crate::sys::mask::bit;
use std::sync::atomic::Ordering::*;

/// Waits until the application comes home, and forwards signals.
pub(super) fn wait(me: &Carrier) -> ! {
    let shared = me.shared();
    loop {
        let saved = shared.returning.swap(0, SeqCst);
        if saved != 0 {
            run_application(me, saved);
        }
        // Not the signals that the application blocks: another thread may wait for them.
        let wanted = !shared.carried_mask() | bit(shared.signal);
        if let Some(mut info) = next_signal(wanted, None) {
            if info.is_of_library(CHANGES_IDENTITY, shared.process) {
                identity::stop_without_library();
            }
            forward(shared, &mut info);
        }
    }
}

/// The signal with which glibc changes the user or group of every thread that it knows, when one of
/// them calls `setuid` or a similar function. glibc waits for an answer from each thread, and the
/// home carrier cannot answer for the application.
const CHANGES_IDENTITY: i32 = 33;

/// Wakes the home carrier, because the application has parked to come home.
pub(super) fn call(shared: &CarrierShared) {
    // SAFETY: carriers live as long as what they share.
    let home = unsafe { &*shared.home.load(Relaxed) };
    let thread = home.number.load(Relaxed) as usize;
    let args = [shared.process as usize, thread, shared.signal as usize];
    // SAFETY: tgkill takes no pointers. The signal is blocked there, and ends the wait.
    while unsafe { sys::raw(libc::SYS_tgkill, args) } == Err(Errno::AGAIN) {
        // As many signals are queued for the user as may be, and this one is a real-time signal. The
        // application cannot go on before the home carrier wakes.
        let pause = [0i64, RETRY_NANOSECONDS];
        // SAFETY: the kernel reads the time, which lives through the call.
        let _ = unsafe { sys::raw(libc::SYS_nanosleep, [pause.as_ptr() as usize, 0]) };
    }
}

/// How long to wait before a signal that the kernel has refused is sent again.
const RETRY_NANOSECONDS: i64 = 1_000_000;
