//! Signal handlers of the program.
//!
//! A signal may be delivered to a kernel thread from which the program has been taken. A handler would run there with
//! the thread-local variables of the program, which itself runs elsewhere at the same time. So handlers are
//! wrapped: where the program is not, the signal is sent on to where it is.

use super::carrier::Carrier;
use super::slots;
use super::spare::{SignalInfo, forward};
use super::state::{self, APP, CALL, with_state};
use crate::Errno;
use crate::sys::handoff;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const SIGNALS: usize = 65;
/// The program's handlers, by signal.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// What a handler is here: as with `SA_SIGINFO`.
pub type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// Installs a signal handler that always runs where the program runs, in contexts of the back end `activations`
/// too. Instead of `sigaction`, and with its flags and mask.
///
/// In the handler, laio may not be used. A signal that was sent on has the code `SI_QUEUE` where it had one that only
/// the kernel may give.
///
/// # Errors
/// Those of `sigaction`; `EINVAL` also for a number that is no signal.
pub fn handle_signal(
    signal: c_int,
    handler: Handler,
    flags: c_int,
    mask: &libc::sigset_t,
) -> Result<(), Errno> {
    let place = usize::try_from(signal).ok().and_then(|at| HANDLERS.get(at));
    place.ok_or(Errno::INVAL)?.store(handler as usize, SeqCst);
    // SAFETY: the action is fully initialised; its handler is async-signal-safe as far as the program's is.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let wrapper: Handler = wrapper;
        action.sa_sigaction = wrapper as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        action.sa_mask = *mask;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

extern "C" fn wrapper(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a ucontext_t to a handler installed with SA_SIGINFO.
    let interrupted = unsafe { context.cast::<ucontext_t>().as_ref() };
    let carrier = interrupted
        .map(handoff::stack_pointer)
        .and_then(slots::carrier_at);
    let Some(carrier) = carrier else {
        return run(signal, info, context);
    };
    // SAFETY: it is the carrier that was interrupted.
    let carrier: &Carrier = unsafe { &*carrier };
    let word = carrier.control.state.load(SeqCst);
    let running = with_state(word, APP);
    let stays = state::state(word) == CALL
        && carrier
            .control
            .state
            .compare_exchange(word, running, SeqCst, SeqCst)
            .is_ok();
    if !stays {
        // SAFETY: the kernel's own struct, of 128 bytes.
        let mut copy = unsafe { info.cast::<SignalInfo>().read_unaligned() };
        return forward(carrier.shared(), &mut copy);
    }
    // Nobody takes the program away while the handler runs.
    run(signal, info, context);
    carrier.control.state.store(word, SeqCst);
    // The call may begin anew, and what told of its blocking is forgotten.
    carrier.shared().wake_one();
}

fn run(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = HANDLERS[signal as usize].load(SeqCst);
    if handler != 0 {
        // SAFETY: only handlers are stored.
        let handler: Handler = unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    }
}
