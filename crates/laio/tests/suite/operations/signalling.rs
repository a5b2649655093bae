//! A signal announces completions.

use super::parked::FRESH;
use crate::harness::*;
use laio::Errno;
use laio_testing::temp::pipe;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// Blocked in the thread that waits for it.
fn number() -> i32 {
    libc::SIGRTMIN() + 3
}

/// The word that came with the signal, or `None` after a while without one.
fn received(patience: Duration) -> Option<usize> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let word = received_or_interrupted(left);
        // The kernel also ends the wait for its own business with a ring of this thread.
        let interrupted = || std::io::Error::last_os_error().kind() == ErrorKind::Interrupted;
        if word.is_some() || !interrupted() {
            return word;
        }
    }
}

fn received_or_interrupted(patience: Duration) -> Option<usize> {
    let patience = libc::timespec {
        tv_sec: patience.as_secs() as i64,
        tv_nsec: patience.subsec_nanos().into(),
    };
    // SAFETY: plain data and local structs; the signal is blocked in this thread.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, number());
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let got = libc::sigtimedwait(&set, &mut info, &patience);
        (got == number()).then(|| {
            assert_eq!(info.si_code, libc::SI_QUEUE);
            info.si_value().sival_ptr.addr()
        })
    }
}

/// In a thread of its own, where the signal is blocked.
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
fn it_comes_once_between_two_polls() {
    for_each_pending(|way| {
        with_signal_blocked(|| {
            let mut context = way.context();
            assert_eq!(context.set_signal(Some((number(), 0xABCD))), Ok(()));
            let (from, to) = pipe();
            let (mut signals, mut polls) = (0, 0);
            for round in 0..20 {
                let mut buffer = [FRESH; 8];
                let read = [from.arg(), at_mut(&mut buffer), 8];
                let handle = pending(&mut context, libc::SYS_read, read);
                rustix::io::write(&to, b"abc").expect("written");
                // Readiness may be news before the completion is, and news of the last round may come late:
                // then the poll asks for another signal.
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
            // None is asked for without a poll: what is left after this belongs to one of them.
            while received(Duration::from_millis(20)).is_some() {
                signals += 1;
            }
            // The first was asked for by `set_signal`.
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
            let (from, to) = pipe();
            let mut buffer = [FRESH; 8];
            let read = [from.arg(), at_mut(&mut buffer), 8];
            let handle = pending(&mut context, libc::SYS_read, read);
            rustix::io::write(&to, b"abc").expect("written");
            assert_eq!(received(Duration::from_millis(10)), None);
            assert_eq!(wait_for(&mut context, handle).result, Ok(3));
        });
    });
}

#[test]
fn what_is_no_signal_is_refused() {
    for_each_backend(|way| {
        let mut context = way.context();
        for bad in [-1, 0, libc::SIGKILL, libc::SIGSTOP, libc::SIGRTMAX() + 1] {
            assert_eq!(context.set_signal(Some((bad, 0))), Err(Errno::INVAL));
        }
    });
}
