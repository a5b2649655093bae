//! A thread that is bombarded with signals.

use rustix::process::{Pid, getpid};
use rustix::thread::gettid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sends signals to the thread that created it, until it is dropped. The handler only counts, and is
/// installed without `SA_RESTART`: calls fail with `EINTR`.
#[derive(Debug)]
pub struct Bombardment {
    over: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: i32) {
    HANDLED.fetch_add(1, SeqCst);
}

impl Bombardment {
    const PAUSE: Duration = Duration::from_micros(200);

    /// Returns when the first signal was handled: on a busy machine the test could end before.
    ///
    /// # Panics
    /// If `signal` cannot be caught.
    pub fn begin(signal: i32) -> Bombardment {
        // SAFETY: a whole action; its handler only adds to an atomic.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count as extern "C" fn(i32) as usize;
            let old = std::ptr::null_mut();
            assert_eq!(libc::sigaction(signal, &action, old), 0);
        }
        let before = HANDLED.load(SeqCst);
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let (process, target) = (getpid(), gettid());
        let sender = std::thread::spawn(move || {
            while !until.load(SeqCst) {
                send(process, target, signal);
                std::thread::sleep(Self::PAUSE);
            }
        });
        while HANDLED.load(SeqCst) == before {
            std::thread::yield_now();
        }
        Bombardment {
            over,
            sender: Some(sender),
        }
    }
}

fn send(process: Pid, target: Pid, signal: i32) {
    let (process, target) = (process.as_raw_nonzero(), target.as_raw_nonzero());
    // SAFETY: no memory is passed.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process.get(), target.get(), signal) };
    assert_eq!(sent, 0, "the thread that began this must outlive it");
}

impl Drop for Bombardment {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        let Some(sender) = self.sender.take() else {
            return;
        };
        let ended = sender.join();
        if !std::thread::panicking() {
            ended.expect("a sender that did not panic");
        }
    }
}
