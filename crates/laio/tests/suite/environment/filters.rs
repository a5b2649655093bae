//! Rule 12: operations work where a filter forbids some calls.

use super::differential;
use super::support::{pipe, result_of};
use crate::harness::{
    Arg, LIMIT, Way, at_mut, call, collect, cstring, for_each_backend, for_each_pending_backend,
    own, pending, plain, zeroed,
};
use laio::{BackendKind, Context, Errno, Options};
use laio_testing::forbid::{self, Forbid};
use laio_testing::{Random, child, temp, test_name};

const ERRNOS: [i32; 3] = [libc::EPERM, libc::ENOSYS, libc::EACCES];

/// Calls whose results must be equal under each filter.
fn behaves(context: &mut Context) {
    let background = context.info().backend() != BackendKind::Sync;
    files(context);
    if background {
        waiting(context);
        cancelled(context);
        closed(context);
    }
    assert_eq!(context.pending(), 0);
}

fn files(context: &mut Context) {
    for place in [
        temp::scratch(),
        tempfile::tempdir_in("/dev/shm").expect("a directory"),
    ] {
        let name = cstring(place.path().join("file"));
        let here = libc::AT_FDCWD.arg();
        let create = libc::O_CREAT | libc::O_RDWR | libc::O_CLOEXEC;
        let args = [here, name.arg(), create.arg(), 0o600];
        let file = own(call(context, libc::SYS_openat, args));
        let write = [file.arg(), c"contents".arg(), 8];
        assert_eq!(call(context, libc::SYS_write, write), Ok(8));
        assert_eq!(call(context, libc::SYS_fsync, [file.arg()]), Ok(0));
        let mut buffer = [0u8; 16];
        for _ in 0..2 {
            let read = [file.arg(), at_mut(&mut buffer), 16, 2];
            assert_eq!(call(context, libc::SYS_pread64, read), Ok(6));
            assert_eq!(&buffer[..6], b"ntents");
        }
        let read = [file.arg(), at_mut(&mut buffer), 16];
        assert_eq!(call(context, libc::SYS_read, read), Ok(0));
        for _ in 0..2 {
            let args = [here, name.arg(), libc::O_CLOEXEC.arg()];
            let again = own(call(context, libc::SYS_openat, args));
            let read = [again.arg(), at_mut(&mut buffer), 8];
            assert_eq!(call(context, libc::SYS_read, read), Ok(8));
            assert_eq!(&buffer[..8], b"contents");
        }
        let mut stat: libc::stat = zeroed();
        let args = [here, name.arg(), at_mut(&mut stat), 0];
        assert_eq!(call(context, libc::SYS_newfstatat, args), Ok(0));
        assert_eq!(stat.st_size, 8);
        assert_eq!(
            call(context, libc::SYS_faccessat, [here, name.arg(), 4]),
            Ok(0)
        );
        assert_eq!(
            call(context, libc::SYS_unlinkat, [here, name.arg(), 0]),
            Ok(0)
        );
        let args = [here, name.arg(), 0];
        assert_eq!(call(context, libc::SYS_openat, args), Err(Errno::NOENT));
    }
}

fn waiting(context: &mut Context) {
    let (reader, writer) = pipe();
    let mut buffer = [0u8; 16];
    let read = pending(
        context,
        libc::SYS_read,
        [reader.arg(), at_mut(&mut buffer), 16],
    );
    assert_eq!(
        plain(libc::SYS_write, [writer.arg(), c"late".arg(), 4]),
        Ok(4)
    );
    assert_eq!(result_of(context, read), Ok(4));
    assert_eq!(&buffer[..4], b"late");
    let filled = temp::fill(&writer);
    let write = pending(context, libc::SYS_write, [writer.arg(), c"more".arg(), 4]);
    let mut drained = temp::drain(&reader);
    assert_eq!(result_of(context, write), Ok(4));
    drained.extend(temp::drain(&reader));
    assert_eq!(drained.len(), filled + 4);
    assert!(drained.ends_with(b"more"));
    let (left, right) = temp::stream_pair();
    let args = [left.arg(), at_mut(&mut buffer), 16, 0, 0, 0];
    let receive = pending(context, libc::SYS_recvfrom, args);
    assert_eq!(
        plain(libc::SYS_write, [right.arg(), c"sent".arg(), 4]),
        Ok(4)
    );
    assert_eq!(result_of(context, receive), Ok(4));
    assert_eq!(&buffer[..4], b"sent");
}

fn cancelled(context: &mut Context) {
    let (reader, _writer) = pipe();
    let mut buffer = [0u8; 16];
    let read = pending(
        context,
        libc::SYS_read,
        [reader.arg(), at_mut(&mut buffer), 16],
    );
    assert_eq!(context.cancel(read), Ok(()));
    assert_eq!(result_of(context, read), Err(Errno::CANCELED));
}

fn closed(context: &mut Context) {
    use std::os::fd::IntoRawFd;
    let (reader, writer) = pipe();
    let mut buffer = [0u8; 16];
    let reader = reader.into_raw_fd();
    let read = pending(
        context,
        libc::SYS_read,
        [reader.arg(), at_mut(&mut buffer), 16],
    );
    let close = pending(context, libc::SYS_close, [reader.arg()]);
    let ended = collect(context, 2);
    let result = |handle| {
        ended
            .iter()
            .find(|one| one.handle == handle)
            .map(|one| one.result)
    };
    assert_eq!(result(read), Some(Err(Errno::CANCELED)));
    assert_eq!(result(close), Some(Ok(0)));
    // SAFETY: ignoring a signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let broken = plain(libc::SYS_write, [writer.arg(), c"x".arg(), 1]);
    assert_eq!(broken, Err(Errno::PIPE));
}

/// Runs these calls in each back end that works here, and random programs.
fn everywhere() {
    for_each_backend(|way| behaves(&mut way.context()));
    for_each_pending_backend(|way| {
        let mut random = Random::for_test();
        println!("seed {}", random.seed());
        // The ring ignores filters: it may make calls that are forbidden as plain calls.
        differential::check(way, &mut random, 4, &["OpenResolved", "Flags("]);
    });
}

fn no_ring(errno: i32) {
    let uring = Context::new(Options::new().backend(BackendKind::Uring));
    assert_eq!(uring.expect_err("a ring").raw(), errno);
    let lazy = Context::new(Options::new().backend(BackendKind::Lazy)).expect("a context");
    assert!(!lazy.info().has_ring());
    let default = Context::new(Options::new()).expect("a context");
    assert!(!default.info().has_ring());
}

#[test]
fn nothing_is_forbidden() {
    child::check(LIMIT * 6, test_name!(), "", everywhere);
}

#[test]
fn io_uring_is_forbidden() {
    for errno in ERRNOS {
        forbid::child(test_name!(), &Forbid::io_uring(errno), || {
            no_ring(errno);
            everywhere();
        });
    }
}

/// A filter that permits making a ring, but not using it.
#[test]
fn only_entering_the_ring_is_forbidden() {
    let only = Forbid::new(&[libc::SYS_io_uring_enter], libc::EPERM);
    forbid::child(test_name!(), &only, || {
        no_ring(libc::EPERM);
        everywhere();
    });
}

#[test]
fn perf_is_forbidden() {
    forbid::child(test_name!(), &Forbid::perf(libc::EACCES), everywhere);
}

#[test]
fn io_uring_and_perf_are_forbidden() {
    forbid::child(
        test_name!(),
        &Forbid::io_uring_and_perf(libc::EPERM),
        || {
            no_ring(libc::EPERM);
            everywhere();
        },
    );
}

#[test]
fn reading_without_waiting_is_forbidden() {
    for errno in ERRNOS {
        forbid::child(test_name!(), &Forbid::nowait(errno), everywhere);
    }
}

#[test]
fn opening_from_the_caches_is_forbidden() {
    for errno in ERRNOS {
        forbid::child(test_name!(), &Forbid::openat2(errno), everywhere);
    }
}

#[test]
fn all_of_it_is_forbidden() {
    let all = Forbid::io_uring(libc::EPERM)
        .and(forbid::PERF, libc::EACCES)
        .and(forbid::NOWAIT, libc::ENOSYS)
        .and(forbid::OPENAT2, libc::EPERM);
    forbid::child(test_name!(), &all, || {
        no_ring(libc::EPERM);
        everywhere();
    });
}

/// The filter comes after the contexts were made and have found that no call is forbidden.
#[test]
fn forbidden_after_the_context_was_made() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    for errno in ERRNOS {
        let mark = format!("later {errno}");
        child::check(LIMIT * 6, test_name!(), &mark, || {
            let mut contexts = Vec::new();
            for backend in BackendKind::ALL {
                for without_ring in [false, true] {
                    let way = Way {
                        without_ring,
                        ..Way::natural(backend)
                    };
                    if let Ok(mut context) = Context::new(way.options()) {
                        behaves(&mut context);
                        contexts.push(context);
                    }
                }
            }
            let later = Forbid::openat2(errno).and(forbid::NOWAIT, errno);
            forbid::install(&later);
            for context in &mut contexts {
                behaves(context);
                behaves(context);
            }
        });
    }
}
