//! What a system-call filter forbids shows in the probes.

use laio::{BackendKind, Errno, Options};
use laio_bench::info::probe::Machine;
use laio_testing::forbid::{self, Forbid};

#[test]
fn a_filter_shows_in_the_facts_and_in_the_choice() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
        let forbidden = Forbid::io_uring(errno)
            .and(forbid::PERF, errno)
            .and(forbid::NOWAIT, errno)
            .and(forbid::OPENAT2, errno);
        forbid::child(laio_testing::test_name!(), &forbidden, || {
            // SAFETY: this child has one thread that uses the environment.
            unsafe { std::env::remove_var(Options::ENV_BACKEND) };
            let errno = Errno::from_raw(errno);
            let machine = Machine::probe();
            assert_eq!(machine.io_uring.as_ref().unwrap_err().errno, errno);
            assert_eq!(machine.perf.usable.as_ref().unwrap_err().errno, errno);
            assert_eq!(machine.nowait.as_ref().unwrap_err().errno, errno);
            assert_eq!(machine.cached_open.as_ref().unwrap_err().errno, errno);
            let choice = machine.choice().unwrap();
            assert_eq!(choice.backend, BackendKind::Lazy);
            assert_eq!(choice.summary, "lazy with epoll and helper threads");
            assert!(choice.reason.contains(&format!("{errno:?}")), "{choice:?}");
        });
    }
}
