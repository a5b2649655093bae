//! Signal handlers of the program.
//!
//! A signal may be delivered to a kernel thread from which the program has been taken. A handler
//! would run there with the thread-local variables of the program, which runs on another thread at
//! the same time. So handlers are wrapped: on such a thread the wrapper forwards the signal to the
//! carrier that runs the program.

use super::carrier::Carrier;
use super::slots;
use super::spare::{SignalInfo, forward};
use super::state::{self, APP, CALL, with_state};
use crate::Errno;
use crate::sys::handoff;
use libc::{c_int, c_void, sigaction, siginfo_t, ucontext_t};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};

/// A signal handler, as with `SA_SIGINFO`.
pub type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// Installs a signal handler that always runs on the kernel thread that runs the program, in
/// contexts of the back end `activations` too. Use it instead of `sigaction`, with its flags and
/// mask.
///
/// The handler must not use laio. A forwarded signal has the code `SI_QUEUE` instead of a code that
/// only the kernel may set.
///
/// # Errors
/// Those of `sigaction`; `EINVAL` also for an invalid signal number.
pub fn handle_signal(
    signal: c_int,
    handler: Handler,
    flags: c_int,
    mask: &libc::sigset_t,
) -> Result<(), Errno> {
    // SAFETY: plain data; the handler takes what one with SA_SIGINFO is given.
    unsafe {
        let mut action: sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        action.sa_mask = *mask;
        set_signal_action(signal, Some(&action)).map(drop)
    }
}

/// Sets the action of a signal like `sigaction(2)`, with a handler that always runs on the kernel
/// thread that runs the program: see [`handle_signal`]. Returns the previous action. `SIG_DFL` and
/// `SIG_IGN` have their usual meaning.
///
/// # Safety
/// The handler must be valid, and of the kind that the flags say.
///
/// # Errors
/// Those of `sigaction`; nothing has changed then.
pub unsafe fn set_signal_action(
    signal: c_int,
    action: Option<&sigaction>,
) -> Result<sigaction, Errno> {
    let place = usize::try_from(signal).ok().and_then(|at| HANDLED.get(at));
    let place = place.ok_or(Errno::INVAL)?;
    let (handler, flags) = (place.handler.load(SeqCst), place.flags.load(SeqCst));
    let wrapped = action.map(|action| place.wrap(action));
    let new = wrapped
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: whole structs; the wrapper does nothing that may not be done in a handler.
    let (result, mut old) = unsafe {
        let mut old: sigaction = std::mem::zeroed();
        (sigaction(signal, new, &mut old), old)
    };
    if result != 0 {
        place.handler.store(handler, SeqCst);
        place.flags.store(flags, SeqCst);
        return Err(std::io::Error::last_os_error().into());
    }
    if old.sa_sigaction == wrapper as Handler as usize {
        old.sa_sigaction = handler;
        old.sa_flags = old.sa_flags & !CHANGED | flags & CHANGED;
    }
    Ok(old)
}

/// The program's handler of a signal.
struct Handled {
    handler: AtomicUsize,
    flags: AtomicI32,
}

/// The handlers, by signal.
static HANDLED: [Handled; 65] = [const {
    Handled {
        handler: AtomicUsize::new(0),
        flags: AtomicI32::new(0),
    }
}; 65];

/// Flags in which the wrapper differs from the handler. With SA_RESETHAND the kernel would reset
/// the action when a signal arrives on another carrier, and the forwarded signal would then kill
/// the process.
const CHANGED: c_int = libc::SA_SIGINFO | libc::SA_RESETHAND;

impl Handled {
    /// Returns the action with the wrapper instead of its handler, if it has one, and stores the
    /// handler.
    fn wrap(&self, action: &sigaction) -> sigaction {
        let mut wrapped = *action;
        if !matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
            self.handler.store(action.sa_sigaction, SeqCst);
            self.flags.store(action.sa_flags, SeqCst);
            wrapped.sa_sigaction = wrapper as Handler as usize;
            wrapped.sa_flags = action.sa_flags & !CHANGED | libc::SA_SIGINFO;
        }
        wrapped
    }

    fn run(&self, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        if self.flags.load(SeqCst) & libc::SA_RESETHAND != 0 {
            // SAFETY: plain data: the default action.
            unsafe {
                let default: sigaction = std::mem::zeroed();
                sigaction(signal, &default, std::ptr::null_mut());
            }
        }
        let handler = self.handler.load(SeqCst);
        if handler != 0 {
            // SAFETY: only handlers are stored. One without SA_SIGINFO does not look at what it did not ask for; the
            // kernel passes it all the same.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
    }
}

extern "C" fn wrapper(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handled = &HANDLED[signal as usize];
    // SAFETY: the kernel passes a ucontext_t to a handler installed with SA_SIGINFO.
    let interrupted = unsafe { context.cast::<ucontext_t>().as_ref() };
    let carrier = interrupted
        .map(handoff::stack_pointer)
        .and_then(slots::carrier_at);
    let Some(carrier) = carrier else {
        return handled.run(signal, info, context);
    };
    // SAFETY: it is the carrier that was interrupted.
    let carrier: &Carrier = unsafe { &*carrier };
    let word = carrier.control.state.load(SeqCst);
    let running = with_state(word, APP);
    match state::state(word) {
        // Just before the call, or just after it. Forwarding the signal would send it to this
        // thread again, for ever.
        APP => return handled.run(signal, info, context),
        CALL if state::change(&carrier.control.state, word, running) => {}
        // The application has been taken over.
        _ => {
            // SAFETY: the kernel's own struct, of 128 bytes.
            let mut copy = unsafe { info.cast::<SignalInfo>().read_unaligned() };
            return forward(carrier.shared(), &mut copy);
        }
    }
    // No spare takes the program over while the handler runs.
    handled.run(signal, info, context);
    carrier.control.state.store(word, SeqCst);
    // The call may restart, and the evidence of its blocking is lost, so a spare inspects it again.
    carrier.shared().wake_one();
}
