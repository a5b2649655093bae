//! Interrupts a helper thread in a system call, without a race.
//!
//! A helper makes its calls through [`Interruptible::syscall`]. Another thread interrupts it by
//! setting the flag and sending a signal. Wherever the signal arrives, exactly one of two outcomes
//! follows: the call is not made (or ends with `EINTR`), or it had finished and its result is
//! returned.

use super::{arch, mask};
use crate::{Call, Errno};
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Values of [`Interruptible::flag`]: no interruption is wanted; one is, and no signal was sent for it
/// yet; one is, and the signal was sent.
const CLEAR: u32 = 0;
const WANTED: u32 = 1;
const SENT: u32 = 2;

/// The flag of one helper thread.
#[derive(Debug, Default)]
pub(crate) struct Interruptible {
    flag: AtomicU32,
    /// The number of signals sent and not yet handled. The thread must not begin another call
    /// before this is zero, or a late signal would interrupt that call.
    in_flight: AtomicU32,
    thread: AtomicU32,
}

std::thread_local! {
    /// The helper that runs on this thread, for the signal handler. Const-initialised, without a
    /// destructor: reading it is async-signal-safe.
    static CURRENT: std::cell::Cell<*const Interruptible> =
        const { std::cell::Cell::new(std::ptr::null()) };
}

impl Interruptible {
    /// Binds this to the calling thread and unblocks the signal there, if there is one.
    pub(crate) fn adopt_thread(&self, signal: Option<Signal>) {
        CURRENT.set(self);
        // SAFETY: gettid and pthread_sigmask touch only this thread and the local set.
        unsafe {
            let tid = super::raw(libc::SYS_gettid, []).unwrap_or(0);
            self.thread.store(tid as u32, SeqCst);
            let Some(signal) = signal else { return };
            let mut set = MaybeUninit::uninit();
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), signal.0);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
        }
    }

    /// Unbinds the thread; later interruptions find no thread.
    pub(crate) fn release_thread(&self) {
        self.wait_for_signals();
        self.thread.store(0, SeqCst);
        CURRENT.set(std::ptr::null());
    }

    /// Makes the call; returns `EINTR` if it was interrupted before it had an effect.
    ///
    /// # Safety
    /// As for the system call.
    pub(crate) unsafe fn syscall(&self, call: &Call) -> Result<usize, Errno> {
        // SAFETY: the flag and the arguments live through the call; the rest is the caller's.
        let word = unsafe { arch::laio_interruptible_syscall(&self.flag, call.number, &call.args) };
        Errno::from_register(word)
    }

    /// Whether the current call has been interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.flag.load(SeqCst) != CLEAR
    }

    /// The TID of the helper's thread; 0 before it begins and after it ends.
    pub(crate) fn thread(&self) -> u32 {
        self.thread.load(SeqCst)
    }

    /// Interrupts the call that the helper makes. The caller holds the pool's lock, so that the
    /// helper cannot begin another call meanwhile.
    ///
    /// Returns false if the kernel did not take the signal: the user has as many queued signals as
    /// `RLIMIT_SIGPENDING` allows, and the signal is a real-time one. The caller repeats this later.
    #[must_use]
    pub(crate) fn interrupt(&self, signal: Signal) -> bool {
        if self.flag.load(SeqCst) == SENT {
            return true;
        }
        self.flag.store(SENT, SeqCst);
        let thread = self.thread.load(SeqCst);
        if thread == 0 {
            // It sees the flag before its first call, or makes no further call.
            return true;
        }
        self.in_flight.fetch_add(1, SeqCst);
        // The thread is alive because it clears `thread` under the same lock before it ends.
        let sent = signal.send(thread);
        if sent.is_err() {
            self.in_flight.fetch_sub(1, SeqCst);
            self.flag.store(WANTED, SeqCst);
        }
        sent.is_ok()
    }

    /// Waits until no signal for the last call is pending, then clears the flag for the next call.
    pub(crate) fn rearm(&self) {
        self.wait_for_signals();
        self.flag.store(CLEAR, SeqCst);
    }

    fn wait_for_signals(&self) {
        // A signal sent by tgkill is delivered at the next return to user mode: a yield is one.
        while self.in_flight.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

/// The signal that interrupts helpers; its handler is installed once in the process.
///
/// By default it is `SIGSTKFLT`, which neither the kernel nor any C library sends. The kernel always
/// delivers a standard signal, while it refuses a real-time one (`EAGAIN`) when all processes of the
/// user together have as many queued signals as `RLIMIT_SIGPENDING` allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(i32);

impl Signal {
    /// Returns the process's signal; the first call chooses and installs it. `wanted` has no effect
    /// later.
    ///
    /// # Errors
    /// `EBUSY` if all signals that may be used have a handler.
    pub(crate) fn install(wanted: Option<i32>) -> Result<Signal, Errno> {
        static SIGNAL: OnceLock<Result<Signal, Errno>> = OnceLock::new();
        *SIGNAL.get_or_init(|| {
            let real_time = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev();
            let usual = std::iter::once(libc::SIGSTKFLT).chain(real_time);
            let candidates: Vec<i32> = match wanted {
                Some(signal) => vec![signal],
                None => usual.collect(),
            };
            for signal in candidates {
                if has_default_action(signal) {
                    let installed = install(signal)?;
                    if installed.can_be_sent() {
                        return Ok(installed);
                    }
                    // SAFETY: the signal had its default action before.
                    unsafe { libc::signal(signal, libc::SIG_DFL) };
                }
            }
            Err(Errno::BUSY)
        })
    }

    /// The number.
    pub(crate) fn number(self) -> i32 {
        self.0
    }

    /// Sends it to a thread of this process.
    ///
    /// # Errors
    /// `EAGAIN` for a real-time signal at the limit of queued ones.
    fn send(self, thread: u32) -> Result<(), Errno> {
        let args = [
            std::process::id() as usize,
            thread as usize,
            self.0 as usize,
        ];
        // SAFETY: tgkill takes no pointers.
        unsafe { super::raw(libc::SYS_tgkill, args) }.map(drop)
    }

    /// Whether it can be sent: emulators of programs have fewer signals than they let a program set actions for.
    /// Sends it to the calling thread, where the handler has nothing to do.
    fn can_be_sent(self) -> bool {
        // If it stayed pending, the program might take it from a `signalfd`.
        let before = mask::get();
        mask::unblock(mask::bit(self.0));
        // SAFETY: gettid takes no pointers.
        let thread = unsafe { super::raw(libc::SYS_gettid, []) }.unwrap_or(0);
        let sent = self.send(thread as u32);
        mask::set(before);
        // At the limit of queued signals it could not be sent now, but later.
        matches!(sent, Ok(()) | Err(Errno::AGAIN))
    }
}

fn has_default_action(signal: i32) -> bool {
    // SAFETY: sigaction with a null new action only writes the old one into the local struct.
    unsafe {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        libc::sigaction(signal, std::ptr::null(), old.as_mut_ptr()) == 0
            && old.assume_init().sa_sigaction == libc::SIG_DFL
    }
}

fn install(signal: i32) -> Result<Signal, Errno> {
    // SAFETY: the action is fully initialised; the handler is async-signal-safe (it reads one
    // thread-local, one atomic and the saved program counter). No SA_RESTART: the call must end.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if result == 0 {
        Ok(Signal(signal))
    } else {
        Err(std::io::Error::last_os_error().into())
    }
}

/// Handles the signal for carriers, if there are any. Returns whether it was meant for one.
static CARRIERS: OnceLock<fn(&mut libc::ucontext_t) -> bool> = OnceLock::new();

/// Registers the handler for carriers.
pub(crate) fn set_carriers(interrupt: fn(&mut libc::ucontext_t) -> bool) {
    let _ = CARRIERS.set(interrupt);
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a ucontext_t to a handler installed with SA_SIGINFO.
    let ucontext = unsafe { context.cast::<libc::ucontext_t>().as_mut() };
    // Checked first: a carrier must not use thread-local variables.
    if let (Some(ucontext), Some(interrupt)) = (ucontext, CARRIERS.get())
        && interrupt(ucontext)
    {
        return;
    }
    let current = CURRENT.get();
    if current.is_null() || context.is_null() {
        return;
    }
    // SAFETY: CURRENT points to the Interruptible that the running helper holds; the kernel passes a
    // ucontext_t to a handler installed with SA_SIGINFO. The labels are in this library's text.
    unsafe {
        let counter = arch::program_counter(&mut *context.cast());
        let begin = (&raw const arch::laio_interruptible_begin) as usize;
        let end = (&raw const arch::laio_interruptible_end) as usize;
        if (begin..end).contains(&(*counter as usize)) {
            *counter = (&raw const arch::laio_interruptible_cancel) as usize as _;
        }
        (*current).in_flight.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_sleeping_call_is_interrupted_and_never_the_next_one() {
        let signal = Signal::install(None).unwrap();
        let target = Arc::new(Interruptible::default());
        let (ready, over) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let (target, ready, over) = (target.clone(), ready.clone(), over.clone());
            move || {
                target.adopt_thread(Some(signal));
                let pause = Call::new(libc::SYS_ppoll, [0, 0, 0, 0]);
                let mut interrupted = 0;
                while !over.load(SeqCst) {
                    ready.store(true, SeqCst);
                    // SAFETY: ppoll without descriptors and with null pointers reads nothing.
                    assert_eq!(unsafe { target.syscall(&pause) }, Err(Errno::INTR));
                    assert!(target.is_interrupted());
                    interrupted += 1;
                    target.rearm();
                }
                target.release_thread();
                interrupted
            }
        });
        for round in 0..2000 {
            while !ready.swap(false, SeqCst) {
                std::thread::yield_now();
            }
            if round == 1999 {
                over.store(true, SeqCst);
            }
            assert!(target.interrupt(signal));
        }
        assert_eq!(thread.join().unwrap(), 2000);
    }
}
