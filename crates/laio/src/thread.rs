//! Threads for this project's programs, which may not contain unsafe code.
//!
//! A thread of the standard library aborts its process if the kernel refuses memory for the stack of
//! its signal handler (`mmap`, `mprotect` or `sigaltstack`; seen with Rust 1.95). A thread of the C
//! library has no such stack, and where memory is short, it is not started: that is an error. In
//! exchange, a stack overflow ends the process without a message.

use crate::Errno;
use crate::sys::mask;
use crate::sys::thread::Thread;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::{io, thread};

/// Bytes of stack, as for a thread of the standard library.
const STACK: usize = 2 << 20;

/// A thread that was started by [`start`]. Dropping this leaves it running.
#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: Thread,
    result: Arc<Mutex<Option<thread::Result<T>>>>,
}

/// Starts a thread that runs `body`, with the signal mask of the caller. The kernel shows the first 15 bytes of
/// the name; errors name the purpose, such as "the thread of worker 0".
///
/// # Errors
/// `WouldBlock` (`EAGAIN`) at the limit of threads, or without memory for one; `InvalidInput` for a name
/// with a zero byte.
pub fn start<T: Send + 'static>(
    name: &str,
    purpose: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let name = CString::new(name)?;
    let result = Arc::new(Mutex::new(None));
    let place = result.clone();
    let mask = mask::get();
    let thread = Thread::start_named(Some(STACK), name.into(), move || {
        // Programs that the body starts inherit the mask: with all signals blocked, nothing could end them.
        mask::set(mask);
        let ended = catch_unwind(AssertUnwindSafe(body));
        *place.lock().unwrap_or_else(|error| error.into_inner()) = Some(ended);
    });
    match thread {
        Ok(thread) => Ok(JoinHandle { thread, result }),
        Err(errno) => Err(cannot_start(purpose, errno)),
    }
}

fn cannot_start(purpose: &str, errno: Errno) -> io::Error {
    let limits = match errno {
        Errno::AGAIN => {
            "; the limit of threads may be reached (ulimit -u, pids.max of the control group), or memory is short"
        }
        _ => "",
    };
    let kind = io::Error::from(errno).kind();
    io::Error::new(kind, format!("cannot start {purpose}: {errno}{limits}"))
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread. Returns what its body has returned.
    ///
    /// # Errors
    /// The payload of its panic.
    pub fn join(self) -> thread::Result<T> {
        self.thread.join();
        let mut result = self
            .result
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        result.take().expect("the body stores it at its end")
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::{cannot_start, start};
    use crate::Errno;

    #[test]
    fn a_thread_returns_its_value_or_its_panic() {
        let seven = start("seven", "a thread", || 7).expect("a thread");
        assert_eq!(seven.join().expect("no panic"), 7);
        let panics =
            start("panics", "a thread", || -> u8 { panic!("as expected") }).expect("a thread");
        let payload = panics.join().expect_err("a panic");
        assert_eq!(payload.downcast_ref(), Some(&"as expected"));
        assert!(start("zero\0byte", "a thread", || ()).is_err());
    }

    #[test]
    fn an_error_names_the_thread_and_the_limits() {
        let error = cannot_start("the thread of worker 3", Errno::AGAIN).to_string();
        assert!(
            error.starts_with("cannot start the thread of worker 3: "),
            "{error}"
        );
        assert!(error.contains("pids.max"), "{error}");
    }

    #[test]
    fn it_has_the_signal_mask_of_its_caller() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("SigBlk:"));
            line.unwrap().to_owned()
        };
        let here = blocked();
        let there = start("laio-test", "a test", blocked)
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(there, here);
    }
}
