//! Time limits for code that might hang.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::watchdog;

/// Returns a time limit for this machine: longer if `LAIO_TEST_LIMIT` is above its default of 300 seconds, as on an
/// emulated processor. The functions of this crate that take a limit scale it themselves.
pub fn scaled(limit: Duration) -> Duration {
    limit.saturating_mul(watchdog::slowness())
}

/// Runs `body` on a thread of its own, and panics if it takes longer than `limit`.
///
/// A panic in `body` is propagated. After the limit the thread keeps running: a thread in a system call
/// cannot be ended. The limit detects hangs, not slowness: choose it generously.
///
/// # Panics
///
/// If the limit passes, or with the panic of `body`.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(laio_testing::limit::within(Duration::from_secs(60), || 1 + 1), 2);
/// ```
#[track_caller]
pub fn within<T: Send + 'static>(limit: Duration, body: impl FnOnce() -> T + Send + 'static) -> T {
    let limit = scaled(limit);
    watchdog::allow(limit);
    let (done, wait) = channel();
    let runner = thread::Builder::new()
        .name("limited-test".into())
        .spawn(move || {
            let value = body();
            // The receiver is gone after the limit has passed.
            let _ = done.send(value);
        })
        .expect("a thread for the test");
    match wait.recv_timeout(limit) {
        Ok(value) => {
            runner.join().expect("the test has already returned");
            value
        }
        Err(RecvTimeoutError::Timeout) => panic!("not finished after {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match runner.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("the value is sent before the thread ends"),
        },
    }
}

/// Checks `condition` repeatedly until it is true or `limit` has passed; returns its last value.
///
/// ```
/// use std::time::Duration;
/// use laio_testing::limit::wait_until;
///
/// let thread = std::thread::spawn(|| ());
/// assert!(wait_until(Duration::from_secs(60), || thread.is_finished()));
/// ```
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    watchdog::enter();
    let end = Instant::now() + scaled(limit);
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn the_value_comes_back() {
        assert_eq!(within(Duration::from_secs(60), || "value"), "value");
    }

    #[test]
    fn a_panic_comes_back() {
        let caught = catch_unwind(|| within(Duration::from_secs(60), || panic!("inner")));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "inner");
    }

    #[test]
    fn a_hang_ends() {
        let caught = catch_unwind(|| within(Duration::from_millis(5), thread::park));
        assert!(
            caught
                .unwrap_err()
                .downcast::<String>()
                .unwrap()
                .contains("not finished")
        );
    }

    #[test]
    fn waiting_gives_up() {
        assert!(!wait_until(Duration::from_millis(3), || false));
        let mut asked = 0;
        assert!(wait_until(Duration::from_secs(60), || {
            asked += 1;
            asked == 3
        }));
    }
}
