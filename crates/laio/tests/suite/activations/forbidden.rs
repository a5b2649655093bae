//! `activations` for users without privileges and on machines that forbid required calls: it either uses another
//! mechanism, or fails with an error and leaves nothing behind.

use super::stress;
use laio::{BackendKind, Context, Detector, Errno, Options};
use laio_testing::forbid::{self, Forbid};
use laio_testing::{child, limit, test_name};
use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

const NOBODY: u32 = 65_534;
const LIMIT: Duration = Duration::from_secs(600);
const HANDOFFS: u64 = 300;

fn options() -> Options {
    Options::new()
        .backend(BackendKind::Activations)
        .carry_streams(true)
        .carriers(64)
}

/// A context with the detector that the back end chooses here.
fn hand_off() -> Detector {
    let mut context = Context::new(options()).unwrap();
    stress::run(&mut context, HANDOFFS);
    context.info().detector().unwrap()
}

/// Becomes an unprivileged user, like a program that was started by one: its files below `/proc` belong to it.
fn become_nobody(is_dumpable: bool) {
    // SAFETY: the only pointer is an empty list.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::setresuid(NOBODY, NOBODY, NOBODY), 0);
        let dumpable = libc::c_ulong::from(is_dumpable);
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, dumpable, 0, 0, 0), 0);
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        laio_testing::skip("root", "only root can become another user");
    }
    is_root
}

fn entries(directory: &str) -> HashSet<OsString> {
    let names = std::fs::read_dir(directory).unwrap();
    names.map(|entry| entry.unwrap().file_name()).collect()
}

/// Asserts that a refused context has left no thread and no descriptor.
fn refuses(options: Options, errnos: &[Errno]) {
    let now = || ["/proc/self/task", "/proc/self/fd"].map(entries);
    let before = now();
    let refused = Context::new(options).map(|_| ()).unwrap_err();
    assert!(errnos.contains(&refused), "{refused}");
    // The entry of an ended thread stays for a moment, also that of an earlier context.
    let is_nothing_new = || {
        now()
            .iter()
            .zip(&before)
            .all(|(now, then)| now.is_subset(then))
    };
    assert!(
        limit::wait_until(Duration::from_secs(60), is_nothing_new),
        "{before:?}, {:?}",
        now()
    );
}

/// The default of `perf_event_paranoid` is 2; the kernels of kernel.org do not know higher values.
#[test]
fn any_user_may_use_it() {
    if laio_testing::lacks("activations") {
        return;
    }
    child::check(LIMIT, test_name!(), "", || {
        if !is_root() {
            return;
        }
        become_nobody(true);
        let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        let level: i32 = level.map_or(3, |text| text.trim().parse().unwrap());
        for detector in [Detector::Perf, Detector::Idle] {
            match Context::new(options().detector(detector)) {
                Ok(mut context) => stress::run(&mut context, HANDOFFS),
                Err(errno) => assert!(detector == Detector::Perf && level > 2, "{errno}"),
            }
        }
    });
}

#[test]
fn without_perf_events_the_idle_detector_works() {
    if laio_testing::lacks("activations") {
        return;
    }
    for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
        forbid::child(test_name!(), &Forbid::new(forbid::PERF, errno), || {
            assert_eq!(hand_off(), Detector::Idle);
            refuses(
                options().detector(Detector::Perf),
                &[Errno::from_raw(errno)],
            );
        });
    }
}

/// Without membarrier the program's own thread executes the memory barriers.
#[test]
fn without_membarrier_too() {
    if laio_testing::lacks("activations") {
        return;
    }
    let forbid = Forbid::new(forbid::PERF, libc::EPERM).and(&[libc::SYS_membarrier], libc::EPERM);
    forbid::child(test_name!(), &forbid, || {
        assert_eq!(hand_off(), Detector::Idle);
    });
}

/// The kernel does not report a thread's state to a process that is not dumpable and has no rights.
#[test]
fn without_a_detector_it_fails() {
    if laio_testing::lacks("activations") {
        return;
    }
    child::check(LIMIT, test_name!(), "", || {
        if !is_root() {
            return;
        }
        become_nobody(false);
        for detector in [None, Some(Detector::Perf), Some(Detector::Idle)] {
            let options = match detector {
                Some(detector) => options().detector(detector),
                None => options(),
            };
            refuses(options, &[Errno::ACCES, Errno::PERM]);
        }
        // Other back ends still work.
        let lazy = Context::new(Options::new().backend(BackendKind::Lazy));
        assert_eq!(lazy.unwrap().info().backend(), BackendKind::Lazy);
    });
}
