//! Learning of completions elsewhere: the pollable descriptor, waking, and a signal.

use crate::ret::{IntoC, failed};
use crate::thread::{LOCAL, laio_context, with};
use laio::Errno;
use libc::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;

/// The pollable descriptor: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_fd(context: *mut laio_context) -> c_int {
    with(context, |context| {
        Ok(context.engine.descriptor()?.as_raw_fd())
    })
    .into_c()
}

/// Gives the kernel what is queued for it: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_flush(context: *mut laio_context) -> c_int {
    with(context, |context| context.engine.flush()).into_c()
}

/// Makes `laio_poll` return: see `laio.h`. Safe in signal handlers: two stores and a `write`, and `errno` is left
/// alone unless it fails.
///
/// # Safety
/// `context` is null or a live context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_wake(context: *mut laio_context) -> c_int {
    let context = if context.is_null() {
        LOCAL.with(|local| local.current.get())
    } else {
        context
    };
    if context.is_null() {
        return failed(Errno::SRCH);
    }
    // SAFETY: it is live, by the caller; the notifier never changes and is made for many threads, so no
    // reference to the rest is needed, which its own thread may be using.
    let notifier = unsafe { &(*context).notifier };
    notifier.notify();
    0
}

/// Sends a signal when completions come: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_set_signal(
    context: *mut laio_context,
    number: c_int,
    value: *mut c_void,
) -> c_int {
    with(context, |context| {
        let catchable = (1..=libc::SIGRTMAX()).contains(&number)
            && number != libc::SIGKILL
            && number != libc::SIGSTOP;
        if number != 0 && !catchable {
            return Err(Errno::INVAL);
        }
        context.signaller = None;
        if number != 0 {
            let descriptor = context.engine.descriptor()?.as_raw_fd();
            context.signaller = Some(Signaller::start(descriptor, number, value)?);
        }
        Ok(())
    })
    .into_c()
}

/// A thread that watches the pollable descriptor of a context and sends its thread a signal.
///
/// Nothing in the kernel does this: neither an eventfd nor an epoll set can be asked for a signal
/// (`O_ASYNC`), and the ring's completions are held back until its own thread enters the kernel.
#[derive(Debug)]
pub(crate) struct Signaller {
    /// The program has polled since the last signal.
    armed: Arc<AtomicBool>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    process: libc::pid_t,
}

impl laio_context {
    /// The program is about to look for completions: what comes from now on is worth another signal.
    pub(crate) fn signal_again(&self) {
        if let Some(signaller) = &self.signaller {
            signaller.armed.store(true, SeqCst);
        }
    }
}

impl Signaller {
    const STACK: usize = 64 * 1024;

    fn start(descriptor: RawFd, number: c_int, value: *mut c_void) -> Result<Signaller, Errno> {
        let armed = Arc::new(AtomicBool::new(true));
        // SAFETY: these calls take no pointers; the descriptors are new.
        let (stop, epoll, target) = unsafe {
            let stop = owned(libc::eventfd(0, libc::EFD_CLOEXEC))?;
            let epoll = owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            let target = (libc::getpid(), libc::gettid());
            (stop, epoll, target)
        };
        watch(&epoll, stop.as_raw_fd(), libc::EPOLLIN, STOP)?;
        // Edges: the descriptor stays readable until the program polls.
        watch(&epoll, descriptor, libc::EPOLLIN | libc::EPOLLET, NEWS)?;
        let signal = Signal {
            target,
            number,
            value: value.addr(),
        };
        let theirs = armed.clone();
        let thread = with_signals_blocked(|| {
            std::thread::Builder::new()
                .name("laio-signal".to_owned())
                .stack_size(Signaller::STACK)
                .spawn(move || signal.serve(&epoll, &theirs))
        })?;
        Ok(Signaller {
            armed,
            stop,
            thread: Some(thread),
            process: target.0,
        })
    }
}

impl Drop for Signaller {
    fn drop(&mut self) {
        // SAFETY: getpid takes no pointers, and the eight bytes live through the write.
        let is_parent = unsafe {
            let is_parent = libc::getpid() == self.process;
            if is_parent {
                let one = 1u64;
                libc::write(self.stop.as_raw_fd(), (&raw const one).cast(), 8);
            }
            is_parent
        };
        let thread = self.thread.take();
        if is_parent {
            thread.map(JoinHandle::join);
        } else {
            // A child has a copy of this, but not of the thread.
            std::mem::forget(thread);
        }
    }
}

const STOP: u64 = 1;
const NEWS: u64 = 2;

struct Signal {
    target: (libc::pid_t, libc::pid_t),
    number: c_int,
    value: usize,
}

impl Signal {
    /// The life of the thread.
    fn serve(&self, epoll: &OwnedFd, armed: &AtomicBool) {
        loop {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: one event is written.
            let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, -1) };
            match event.u64 {
                STOP if count == 1 => return,
                NEWS if count == 1 && armed.swap(false, SeqCst) => self.send(),
                // The program has not polled since the last signal. Nothing interrupts: all signals are
                // blocked here.
                _ => {}
            }
        }
    }

    fn send(&self) {
        /// The beginning of the kernel's `siginfo_t` for queued signals.
        #[repr(C)]
        struct Queued {
            signo: c_int,
            errno: c_int,
            code: c_int,
            pad: c_int,
            pid: libc::pid_t,
            uid: libc::uid_t,
            value: usize,
            rest: [u64; 12],
        }
        const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());
        let (process, thread) = self.target;
        let info = Queued {
            signo: self.number,
            errno: 0,
            code: libc::SI_QUEUE,
            pad: 0,
            pid: process,
            // SAFETY: getuid takes no pointers.
            uid: unsafe { libc::getuid() },
            value: self.value,
            rest: [0; 12],
        };
        // SAFETY: the kernel reads one siginfo. EAGAIN (too many signals are queued for the user) leaves a
        // signal that is pending already.
        unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                process,
                thread,
                self.number,
                &raw const info,
            );
        }
    }
}

fn watch(epoll: &OwnedFd, fd: RawFd, events: c_int, data: u64) -> Result<(), Errno> {
    let mut event = libc::epoll_event {
        events: events as u32,
        u64: data,
    };
    // SAFETY: one event is read.
    let result = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
    if result == -1 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(())
}

/// # Safety
/// The descriptor is new, or -1.
unsafe fn owned(fd: RawFd) -> Result<OwnedFd, Errno> {
    if fd == -1 {
        return Err(io::Error::last_os_error().into());
    }
    // SAFETY: by the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Starts a thread that handles no signal of the program.
fn with_signals_blocked<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: plain data; pthread_sigmask reads and writes local sets.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut old = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
        started
    }
}
