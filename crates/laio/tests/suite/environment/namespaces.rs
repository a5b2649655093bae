//! Time namespaces: the clocks of a process may differ from those of the machine.

use crate::harness::{LIMIT, Mode, all_ways, at, finish, start, timespec};
use laio::Errno;
use laio_testing::{Skip, child, or_skip, test_name};

/// Seconds by which the clocks differ: longer than any test may take.
const AHEAD: i64 = 100_000;

/// The exit status of a process that cannot have a time namespace.
const NOT_HERE: i32 = 77;

/// Runs a body in a child of this process, and returns the exit status.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child ends without returning. It has one thread, which namespaces require.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            libc::_exit(status.unwrap_or(1));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFEXITED(status), "{status:#x}");
        libc::WEXITSTATUS(status)
    }
}

/// Moves the children of this process into a new time namespace.
fn new_time() -> bool {
    let offsets = format!("monotonic {AHEAD} 0\nboottime {AHEAD} 0\n");
    // SAFETY: a plain call.
    let unshared = unsafe { libc::unshare(libc::CLONE_NEWTIME) } == 0;
    unshared && std::fs::write("/proc/self/timens_offsets", offsets).is_ok()
}

/// A sleep until a point in time ends by the namespace's clock, not by the machine's.
#[test]
fn sleeps_end_by_the_clock_of_the_namespace() {
    let no_namespace = in_child(|| i32::from(!new_time())) != 0;
    let missing =
        no_namespace.then(|| Skip::because("time-namespaces", "no time namespace can be made"));
    if or_skip(missing.map_or(Ok(()), Err)).is_none() {
        return;
    }
    for way in all_ways() {
        if way.mode != Mode::Natural {
            continue;
        }
        child::check(LIMIT, test_name!(), &way.to_string(), || {
            let outside = uptime();
            let status = in_child(|| {
                if !new_time() {
                    return NOT_HERE;
                }
                in_child(|| {
                    assert!(
                        uptime() > outside + AHEAD / 2,
                        "the clock is not the namespace's"
                    );
                    let clocks = [
                        libc::CLOCK_MONOTONIC,
                        libc::CLOCK_BOOTTIME,
                        libc::CLOCK_REALTIME,
                    ];
                    for clock in clocks {
                        sleeps(&mut way.context(), clock);
                    }
                    0
                })
            });
            assert_eq!(status, 0);
        });
    }
}

/// Seconds of the monotonic clock.
fn uptime() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_sec
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
    let past = timespec(1, 0);
    let begun = now();
    for point in [&point, &begun, &past] {
        let flags = libc::TIMER_ABSTIME as usize;
        let args = [clock as usize, flags, at(point), 0];
        let outcome = start(context, libc::SYS_clock_nanosleep, args);
        assert_eq!(finish(context, outcome), Ok(0));
        assert!(is_past(point), "the sleep has ended too early");
    }
    let wrong = timespec(-1, 0);
    let args = [clock as usize, libc::TIMER_ABSTIME as usize, at(&wrong), 0];
    let outcome = start(context, libc::SYS_clock_nanosleep, args);
    assert_eq!(finish(context, outcome), Err(Errno::INVAL));
}
