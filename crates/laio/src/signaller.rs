//! Signals the thread of a context whenever `poll` may have something to deliver.
//!
//! A separate thread waits for the pollable descriptor and sends the signal. The kernel cannot do
//! this: neither an eventfd nor an epoll set supports `O_ASYNC`, and io_uring holds completions
//! back until the ring's own thread enters the kernel.

use crate::sys::high_fd::HighFd;
use crate::sys::thread::Thread;
use crate::{Errno, sys};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::process::{Pid, getpid, getuid};
use rustix::thread::gettid;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The signalling thread and the state that it shares with the context.
#[derive(Debug)]
pub(crate) struct Signaller {
    /// Whether the program has polled since the last signal.
    armed: Arc<AtomicBool>,
    stop: HighFd,
    thread: Option<Thread>,
    process: Pid,
}

/// How long to wait before a signal that the kernel has refused is sent again.
const RETRY: rustix::time::Timespec = rustix::time::Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

const STOP: u64 = 0;
const POLLABLE: u64 = 1;

impl Signaller {
    /// Whether the signal is valid, and a program can catch it.
    pub(crate) fn can_send(number: i32) -> bool {
        (1..=libc::SIGRTMAX()).contains(&number) && !matches!(number, libc::SIGKILL | libc::SIGSTOP)
    }

    /// Re-arms the signal: the program is about to poll, so later completions need another one.
    pub(crate) fn rearm(&self) {
        self.armed.store(true, SeqCst);
    }

    pub(crate) fn start(
        descriptor: BorrowedFd<'_>,
        number: i32,
        value: usize,
    ) -> Result<Signaller, Errno> {
        use epoll::EventFlags as Flags;
        let armed = Arc::new(AtomicBool::new(true));
        let stop = HighFd::from(eventfd(0, EventfdFlags::CLOEXEC)?);
        let set = HighFd::from(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        epoll::add(&set, &stop, epoll::EventData::new_u64(STOP), Flags::IN)?;
        // Edge-triggered: the descriptor stays readable until the program polls.
        let edges = Flags::IN | Flags::ET;
        epoll::add(&set, descriptor, epoll::EventData::new_u64(POLLABLE), edges)?;
        let signal = Signal {
            process: getpid(),
            thread: gettid(),
            number,
            value,
        };
        let theirs = armed.clone();
        let thread = Thread::start(c"laio-signal", move || signal.serve(&set, &theirs))?;
        Ok(Signaller {
            armed,
            stop,
            thread: Some(thread),
            process: getpid(),
        })
    }
}

impl Drop for Signaller {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if getpid() == self.process {
            match rustix::io::write(&self.stop, &1u64.to_ne_bytes()) {
                Ok(_) => drop(thread.map(Thread::join)),
                // The program has closed the descriptor: nothing would end the thread.
                Err(_) => std::mem::forget(thread),
            }
        } else {
            // A forked child has a copy of this struct, but not the thread.
            std::mem::forget(thread);
        }
    }
}

/// The signal and the thread that it is sent to.
struct Signal {
    process: Pid,
    thread: Pid,
    number: i32,
    value: usize,
}

impl Signal {
    /// The main loop of the thread.
    fn serve(&self, set: &HighFd, armed: &AtomicBool) {
        let mut events = Vec::with_capacity(2);
        let mut refused = false;
        loop {
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(set.as_fd(), buffer, refused.then_some(&RETRY)) {
                // If the program has polled since, it needs no signal.
                Ok(0) => refused = !armed.load(SeqCst) && !self.send(),
                Ok(_) => {}
                // Signals are blocked here, but the kernel also interrupts for reasons of its own.
                Err(rustix::io::Errno::INTR) => continue,
                // The program has closed the descriptor.
                Err(_) => return,
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    _ if armed.swap(false, SeqCst) => refused = !self.send(),
                    // The program has not polled since the last signal.
                    _ => {}
                }
            }
        }
    }

    /// Returns false if the kernel refuses the signal: it is a real-time signal, and as many signals are
    /// queued for the user as may be. Without a further attempt, a program that waits for the signal
    /// would wait for ever.
    fn send(&self) -> bool {
        /// The kernel's `siginfo_t` for queued signals.
        #[repr(C)]
        struct Queued {
            number: i32,
            errno: i32,
            code: i32,
            padding: i32,
            process: i32,
            user: u32,
            value: usize,
            rest: [u64; 12],
        }
        const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());
        let info = Queued {
            number: self.number,
            errno: 0,
            code: libc::SI_QUEUE,
            padding: 0,
            process: self.process.as_raw_nonzero().get(),
            user: getuid().as_raw(),
            value: self.value,
            rest: [0; 12],
        };
        let args = [
            info.process as usize,
            self.thread.as_raw_nonzero().get() as usize,
            self.number as usize,
            (&raw const info) as usize,
        ];
        // SAFETY: the kernel reads one siginfo.
        let sent = unsafe { sys::raw(libc::SYS_rt_tgsigqueueinfo, args) };
        sent != Err(Errno::AGAIN)
    }
}
