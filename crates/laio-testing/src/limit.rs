//! Hard time limits, so that a test of something that hangs ends.

use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::watchdog;

/// A limit as it is on this machine: longer where `LAIO_TEST_LIMIT` is above its usual 300 seconds, as on an emulated
/// processor. The limits that this crate takes are meant for a usual machine, and become longer by themselves.
pub fn scaled(limit: Duration) -> Duration {
    limit.saturating_mul(watchdog::slowness())
}

/// Runs `body` on a thread of its own and fails when it takes longer than `limit`.
///
/// A panic in `body` is a panic here. After the limit the thread is left behind: nothing can end it
/// when it sits in a system call. The limit is for "hangs", not for "slow": choose it generously.
///
/// # Panics
///
/// When the limit passes, or with the panic of `body`.
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
            // Nobody listens after the limit has passed.
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

/// Asks `condition` again and again until it is true or `limit` has passed; returns the last answer.
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
