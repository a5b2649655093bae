//! Lets the n-th system call of a kind fail, so that a test can let each call of a job fail, one after the other.
//!
//! The calls of the test's thread, and of the threads that it starts later, stop at a seccomp filter, and another
//! thread decides about each of them (user notification). What io_uring does passes no filter: use a
//! [`FaultFs`](crate::FaultFs) for it.
//!
//! ```no_run
//! use laio_testing::nth_call::NthCall;
//! use laio_testing::{child, or_skip, test_name};
//! use std::time::Duration;
//!
//! // #[test]
//! fn each_failing_call_is_reported() {
//!     child::check(Duration::from_secs(600), test_name!(), "", || {
//!         let Some(calls) = or_skip(NthCall::install(&[libc::SYS_statx])) else { return };
//!         for n in 1.. {
//!             calls.fail(n, libc::SYS_statx, libc::EIO);
//!             let result = std::fs::metadata("/");
//!             if !calls.disarm() {
//!                 break;
//!             }
//!             assert!(result.is_err());
//!         }
//!     });
//! }
//! ```

use std::ffi::{c_int, c_long};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Skip;
use crate::fail_nth::listener::{Answer, Listener};

/// Calls of which one can fail.
#[derive(Debug)]
pub struct NthCall {
    armed: Arc<Mutex<Option<Armed>>>,
}

/// The fault that is to occur.
#[derive(Clone, Copy, Debug)]
struct Armed {
    call: c_long,
    errno: c_int,
    /// The calls that pass before.
    passing: u64,
    occurred: bool,
}

impl NthCall {
    /// Stops the calling thread, and threads that it starts later, at these calls. This is permanent, and a process can
    /// do it once: use [`child`](crate::child).
    ///
    /// # Errors
    ///
    /// If the machine has no user notification.
    pub fn install(calls: &[c_long]) -> Result<NthCall, Skip> {
        let skip = |what| move |error| Skip::because("seccomp", format!("{what}: {error}"));
        let armed = Arc::<Mutex<Option<Armed>>>::default();
        let (sender, listener) = std::sync::mpsc::channel();
        let shared = armed.clone();
        // Started before the filter is there, so that no filter stops the thread itself.
        let thread = std::thread::Builder::new().name("nth-call".into());
        let decider = thread.spawn(move || {
            if let Ok(listener) = listener.recv() {
                decide(&listener, &shared);
            }
        });
        decider.map_err(skip("a thread that decides about calls"))?;
        let numbers: Vec<c_int> = calls.iter().map(|&call| call as c_int).collect();
        let listener =
            Listener::install(&numbers).map_err(skip("a filter with user notification"))?;
        sender.send(listener).expect("the thread waits for it");
        Ok(NthCall { armed })
    }

    /// Lets the n-th call of this kind from now on fail; 1 is the next one.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    pub fn fail(&self, n: u64, call: c_long, errno: c_int) {
        let armed = Armed {
            call,
            errno,
            passing: n.checked_sub(1).expect("calls are counted from 1"),
            occurred: false,
        };
        *lock(&self.armed) = Some(armed);
    }

    /// Lets all calls pass again. Returns whether the fault has occurred.
    pub fn disarm(&self) -> bool {
        let armed = lock(&self.armed).take();
        armed.is_some_and(|armed| armed.occurred)
    }
}

fn lock(armed: &Mutex<Option<Armed>>) -> std::sync::MutexGuard<'_, Option<Armed>> {
    armed.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Armed {
    /// Returns the errno with which a call fails, or none if it passes.
    fn errno_of(&mut self, call: c_long) -> Option<c_int> {
        if call != self.call || self.occurred {
            return None;
        }
        match self.passing.checked_sub(1) {
            Some(left) => {
                self.passing = left;
                None
            }
            None => {
                self.occurred = true;
                Some(self.errno)
            }
        }
    }
}

/// Decides about each call, as long as the process lives.
fn decide(listener: &Listener, armed: &Mutex<Option<Armed>>) {
    while let Some(asked) = listener.next() {
        let errno = lock(armed)
            .as_mut()
            .and_then(|armed| armed.errno_of(c_long::from(asked.number())));
        listener.answer(&asked, errno.map_or(Answer::GoOn, Answer::Fail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{child, or_skip, test_name};
    use std::io;
    use std::time::Duration;

    #[test]
    fn the_nth_call_of_its_kind_fails_on_all_threads() {
        if crate::lacks("seccomp") {
            return;
        }
        child::check(Duration::from_secs(60), test_name!(), "", || {
            let calls = &[libc::SYS_mkdirat, libc::SYS_unlinkat];
            let Some(calls) = or_skip(NthCall::install(calls)) else {
                return;
            };
            let errno_of = |call| {
                // SAFETY: the name is a null pointer, which the kernel refuses.
                let result = unsafe { libc::syscall(call, -1, 0, 0) };
                assert_eq!(result, -1);
                io::Error::last_os_error().raw_os_error()
            };
            let usual = errno_of(libc::SYS_mkdirat);
            calls.fail(2, libc::SYS_mkdirat, libc::EIO);
            assert_eq!(errno_of(libc::SYS_mkdirat), usual);
            assert_ne!(errno_of(libc::SYS_unlinkat), Some(libc::EIO));
            let thread = std::thread::spawn(move || errno_of(libc::SYS_mkdirat));
            assert_eq!(thread.join().unwrap(), Some(libc::EIO));
            assert_eq!(errno_of(libc::SYS_mkdirat), usual);
            assert!(calls.disarm());
            calls.fail(2, libc::SYS_unlinkat, libc::EIO);
            errno_of(libc::SYS_unlinkat);
            assert!(!calls.disarm());
        });
    }
}
