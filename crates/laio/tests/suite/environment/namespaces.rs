//! Time namespaces: the clocks of a process may differ from those of the machine.

use crate::harness::{LIMIT, Mode, all_ways, at, finish, start};
use laio::Errno;
use laio_testing::{Skip, child, or_skip, test_name};

/// Seconds by which the clocks differ: longer than any test may take.
const AHEAD: i64 = 100_000;

/// Puts the children of this process into a time namespace of their own.
fn new_time() -> Result<(), Skip> {
    let because = |what: &str| {
        let error = std::io::Error::last_os_error();
        Skip::because(
            "time-namespaces",
            format!("no time namespace: {what}: {error}"),
        )
    };
    // SAFETY: plain calls.
    if unsafe { libc::unshare(libc::CLONE_NEWTIME) } != 0 {
        return Err(because("unshare"));
    }
    let offsets = format!("monotonic {AHEAD} 0\nboottime {AHEAD} 0\n");
    std::fs::write("/proc/self/timens_offsets", offsets).map_err(|_| because("timens_offsets"))
}

/// Sleeps until a point in time end then, and not when the machine's clock says so.
#[test]
fn sleeps_end_by_the_clock_of_the_namespace() {
    for way in all_ways() {
        if way.mode != Mode::Natural {
            continue;
        }
        child::check(LIMIT, test_name!(), &way.to_string(), || {
            if or_skip(new_time()).is_none() {
                return;
            }
            // SAFETY: the child ends without returning.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    let body = || {
                        for clock in [
                            libc::CLOCK_MONOTONIC,
                            libc::CLOCK_BOOTTIME,
                            libc::CLOCK_REALTIME,
                        ] {
                            sleeps(&mut way.context(), clock);
                        }
                    };
                    let body = std::panic::AssertUnwindSafe(body);
                    let passed = std::panic::catch_unwind(body).is_ok();
                    libc::_exit(i32::from(!passed));
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                status
            };
            assert_eq!(status, 0);
        });
    }
}

fn sleeps(context: &mut laio::Context, clock: i32) {
    let now = || {
        let mut now: libc::timespec = crate::harness::zeroed();
        // SAFETY: the kernel fills it in.
        assert_eq!(unsafe { libc::clock_gettime(clock, &mut now) }, 0);
        now
    };
    let is_past = |point: &libc::timespec| {
        let now = now();
        (now.tv_sec, now.tv_nsec) >= (point.tv_sec, point.tv_nsec)
    };
    let mut point = now();
    point.tv_nsec += 20_000_000;
    if point.tv_nsec >= 1_000_000_000 {
        point.tv_nsec -= 1_000_000_000;
        point.tv_sec += 1;
    }
    let past = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let begun = now();
    for point in [&point, &begun, &past] {
        let flags = libc::TIMER_ABSTIME as usize;
        let args = [clock as usize, flags, at(point), 0];
        let outcome = start(context, libc::SYS_clock_nanosleep, args);
        assert_eq!(finish(context, outcome), Ok(0));
        assert!(is_past(point), "the sleep has ended too early");
    }
    let wrong = libc::timespec {
        tv_sec: -1,
        tv_nsec: 0,
    };
    let args = [clock as usize, libc::TIMER_ABSTIME as usize, at(&wrong), 0];
    let outcome = start(context, libc::SYS_clock_nanosleep, args);
    assert_eq!(finish(context, outcome), Err(Errno::INVAL));
}
