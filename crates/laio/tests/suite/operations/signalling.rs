//! Completions announced by a signal.

use super::parked::FRESH;
use crate::harness::*;
use laio::Errno;
use laio_testing::temp::pipe;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The signal, blocked in the thread that waits for it.
fn number() -> i32 {
    libc::SIGRTMIN() + 3
}

/// The word that came with the signal, or `None` after a while without a signal.
fn received(timeout: Duration) -> Option<usize> {
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let word = received_or_interrupted(left);
        // The kernel also ends the wait for its own work on a ring of this thread.
        let interrupted = || std::io::Error::last_os_error().kind() == ErrorKind::Interrupted;
        if word.is_some() || !interrupted() {
            return word;
        }
    }
}

fn received_or_interrupted(timeout: Duration) -> Option<usize> {
    let timeout = timespec(timeout.as_secs() as i64, timeout.subsec_nanos().into());
    // SAFETY: plain data and local structs; the signal is blocked in this thread.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, number());
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let got = libc::sigtimedwait(&set, &mut info, &timeout);
        (got == number()).then(|| {
            assert_eq!(info.si_code, libc::SI_QUEUE);
            info.si_value().sival_ptr.addr()
        })
    }
}

/// Runs the body in a thread of its own, where the signal is blocked.
fn with_signal_blocked(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let blocked = move || {
            // SAFETY: a local set.
            unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, number());
                libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            }
            body();
        };
        scope.spawn(blocked).join().unwrap();
    });
}

#[test]
fn the_signal_comes_once_between_two_polls() {
    for_each_pending(|way| {
        with_signal_blocked(|| {
            let mut context = way.context();
            assert_eq!(context.set_signal(Some((number(), 0xABCD))), Ok(()));
            let (from, to) = pipe();
            let (mut signals, mut polls) = (0, 0);
            for round in 0..20 {
                let mut buffer = [FRESH; 8];
                let handle = pending_read(&mut context, [from.arg(), at_mut(&mut buffer), 8]);
                rustix::io::write(&to, b"abc").expect("written");
                // A readiness event may arrive before its completion, and an event of the last round may arrive late:
                // then the poll requests another signal.
                loop {
                    assert_eq!(received(LIMIT), Some(0xABCD), "round {round}");
                    signals += 1;
                    let mut found = Vec::new();
                    polls += 1;
                    if context.poll(&mut found, Some(Duration::ZERO)) == Ok(1) {
                        assert_eq!((found[0].handle, found[0].result), (handle, Ok(3)));
                        break;
                    }
                }
            }
            // Without a poll no signal is requested: signals that arrive after this belong to an earlier poll.
            while received(Duration::from_millis(20)).is_some() {
                signals += 1;
            }
            // `set_signal` requested the first signal.
            assert!(signals <= polls + 1, "{signals} for {polls} polls");
        });
    });
}

#[test]
fn it_ends() {
    for_each_pending_backend(|way| {
        with_signal_blocked(|| {
            let mut context = way.context();
            assert_eq!(context.set_signal(Some((number(), 1))), Ok(()));
            assert_eq!(context.set_signal(None), Ok(()));
            // A spurious readiness of the descriptor may have sent a signal in between. No thread sends any now.
            while received(Duration::ZERO).is_some() {}
            let (from, to) = pipe();
            let mut buffer = [FRESH; 8];
            let handle = pending_read(&mut context, [from.arg(), at_mut(&mut buffer), 8]);
            rustix::io::write(&to, b"abc").expect("written");
            assert_eq!(received(Duration::from_millis(10)), None);
            assert_eq!(wait_for(&mut context, handle).result, Ok(3));
        });
    });
}

#[test]
fn an_invalid_signal_is_refused() {
    for_each_backend(|way| {
        let mut context = way.context();
        for bad in [-1, 0, libc::SIGKILL, libc::SIGSTOP, libc::SIGRTMAX() + 1] {
            assert_eq!(context.set_signal(Some((bad, 0))), Err(Errno::INVAL));
        }
    });
}
