//! Helpers shared by the tests of this module, in addition to [`harness`](crate::harness).

use crate::harness::{LIMIT, at_mut, collect, finish, pending_read, plain};
use laio::{Call, Context, Errno, Handle, Outcome};
use laio_testing::oracle::Kernel;
use laio_testing::temp;
use std::ffi::c_long;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Makes each call of a random program through a context, and waits for its result.
pub(crate) struct Through {
    pub(crate) context: Context,
    /// After this time a call counts as one that never ends.
    pub(crate) call_limit: Duration,
}

impl Through {
    pub(crate) fn new(context: Context) -> Through {
        Through {
            context,
            call_limit: LIMIT,
        }
    }
}

impl Kernel for Through {
    unsafe fn call(&mut self, number: c_long, words: [usize; 6]) -> isize {
        if std::env::var_os("LAIO_CONTRACT_TRACE").is_some() {
            eprintln!("{number} {words:x?}");
        }
        // SAFETY: by the caller; the call has ended when this returns.
        let outcome = unsafe { self.context.call(Call::new(number, words)) };
        Errno::to_register(self.finish(outcome))
    }
}

impl Through {
    /// Cancels a call after a while, so that a program that hangs can be reduced too.
    fn finish(&mut self, outcome: Outcome) -> Result<usize, Errno> {
        let Outcome::Pending(handle) = outcome else {
            return finish(&mut self.context, outcome);
        };
        let mut completions = Vec::new();
        let end = Instant::now() + self.call_limit;
        while completions.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.context.cancel(handle).expect("it is in flight");
                collect(&mut self.context, 1);
                return Err(Errno::TIMEDOUT);
            }
            self.context
                .poll(&mut completions, Some(left))
                .expect("poll");
        }
        assert_eq!((completions.len(), completions[0].handle), (1, handle));
        completions[0].result
    }
}

/// A pipe: reading end, writing end.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    temp::pipe()
}

/// Asserts that other calls on the context work while an operation in flight hangs.
#[track_caller]
pub(crate) fn assert_works(context: &mut Context) {
    assert_works_with(context, &pipe());
}

/// [`assert_works`], with a pipe that exists already.
#[track_caller]
pub(crate) fn assert_works_with(context: &mut Context, (reader, writer): &(OwnedFd, OwnedFd)) {
    let mut buffer = [0u8; 4];
    let read = pending_read(
        context,
        [reader.as_raw_fd() as usize, at_mut(&mut buffer), 4],
    );
    let sent = plain(
        libc::SYS_write,
        [writer.as_raw_fd() as usize, c"on".as_ptr() as usize, 2],
    );
    assert_eq!(sent, Ok(2));
    let completion = collect(context, 1)[0];
    assert_eq!((completion.handle, completion.result), (read, Ok(2)));
    assert_eq!(&buffer[..2], b"on");
}

/// The result of an operation; others may be in flight.
#[track_caller]
pub(crate) fn result_of(context: &mut Context, handle: Handle) -> Result<usize, Errno> {
    let completion = collect(context, 1)[0];
    assert_eq!(
        completion.handle, handle,
        "the completion of another operation"
    );
    completion.result
}

/// Runs an action when a test takes too long, so that a call which stalls the caller makes the test fail
/// instead of hanging.
pub(crate) struct Rescue {
    /// The threads of the process when the action ran: what the caller waited for.
    needed: Arc<OnceLock<String>>,
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Rescue {
    pub(crate) fn new(rescue: impl FnOnce() + Send + 'static) -> Rescue {
        Rescue::after(LIMIT / 2, rescue)
    }

    pub(crate) fn after(limit: Duration, rescue: impl FnOnce() + Send + 'static) -> Rescue {
        let needed = Arc::new(OnceLock::new());
        let (over, wait): (Sender<()>, Receiver<()>) = channel();
        let thread = std::thread::spawn({
            let needed = needed.clone();
            move || {
                if wait.recv_timeout(limit).is_err() {
                    needed.get_or_init(laio_testing::watchdog::threads);
                    rescue();
                }
            }
        });
        Rescue {
            needed,
            over: Some(over),
            thread: Some(thread),
        }
    }

    /// Fails if the call returned only because of the action.
    #[track_caller]
    pub(crate) fn was_not_needed(mut self) {
        self.stop();
        if let Some(threads) = self.needed.get() {
            panic!("the caller was stalled; threads:\n{threads}");
        }
    }

    fn stop(&mut self) {
        if let Some(over) = self.over.take() {
            // The action may be running already.
            let _ = over.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        self.stop();
    }
}
