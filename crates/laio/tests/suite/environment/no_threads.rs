//! No thread can be started: a call that ends by itself fails with `EAGAIN`, or its caller makes it, where
//! that is allowed.

use crate::harness::{Arg, Way, at_mut, call, cstring, for_each_backend, own};
use laio::{BackPressure, BackendKind, Call, Context, Errno, Options, Outcome, Rights};
use laio_testing::forbid;
use laio_testing::temp;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Runs a test in every back end on a thread that can start no other one, with rights of each
/// kind (threads for a single call, and helpers).
fn for_each_without_threads(body: impl Fn(&Way, Rights) + Sync) {
    if laio_testing::lacks("seccomp") {
        return;
    }
    for_each_backend(|way| {
        // It starts threads with each context.
        if way.backend == BackendKind::Activations {
            return;
        }
        for rights in [Rights::Thread, Rights::Process, Rights::Settled] {
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    let calls = [libc::SYS_clone, libc::SYS_clone3];
                    forbid::forbid(&calls, libc::EAGAIN);
                    body(way, rights);
                });
                thread.join().expect("no panic");
            });
        }
    });
}

/// Whether every call on a file needs a helper.
fn needs_helpers(way: &Way) -> bool {
    matches!(way.backend, BackendKind::Hybrid | BackendKind::Threads)
}

#[test]
fn by_default_no_caller_is_blocked() {
    for_each_without_threads(|way, rights| {
        let mut context = way.with(|options| options.rights(rights));
        let directory = temp::scratch();
        let path = directory.path().join("made");
        let name = cstring(&path);
        let args = [libc::AT_FDCWD.arg(), name.arg(), 0o700];
        let made = call(&mut context, libc::SYS_mkdirat, args);
        assert_eq!(made == Ok(0), path.exists(), "{made:?}");
        let refused = made == Err(Errno::AGAIN);
        assert!(
            refused || (made == Ok(0) && !needs_helpers(way)),
            "{made:?}"
        );
        assert_eq!(context.stats().made_by_caller, 0);
    });
}

#[test]
fn where_it_is_allowed_the_caller_makes_calls_that_end_by_themselves() {
    let allowed: [fn(Options) -> Options; 2] = [
        |options| options.call_without_threads(true),
        |options| options.back_pressure(BackPressure::Wait),
    ];
    for_each_without_threads(|way, rights| {
        for allow in allowed {
            let mut context = way.with(|options| allow(options).rights(rights));
            files(&mut context);
            fifo(&mut context, way);
            let made = context.stats().made_by_caller;
            assert_eq!(made > 0, made > 0 || needs_helpers(way), "{made}");
        }
    });
}

fn files(context: &mut Context) {
    let directory = temp::scratch();
    let here = libc::AT_FDCWD.arg();
    let name = cstring(directory.path().join("made"));
    let args = [here, name.arg(), 0o700];
    assert_eq!(call(context, libc::SYS_mkdirat, args), Ok(0));
    let name = cstring(directory.path().join("file"));
    let flags = libc::O_CREAT | libc::O_RDWR | libc::O_CLOEXEC;
    let args = [here, name.arg(), flags.arg(), 0o600];
    let file = own(call(context, libc::SYS_openat, args));
    let write = [file.arg(), c"contents".arg(), 8, 0];
    assert_eq!(call(context, libc::SYS_pwrite64, write), Ok(8));
    assert_eq!(call(context, libc::SYS_fsync, [file.arg()]), Ok(0));
    let mut buffer = [0u8; 16];
    let read = [file.arg(), at_mut(&mut buffer), 16, 2];
    assert_eq!(call(context, libc::SYS_pread64, read), Ok(6));
    let args = [here, name.arg(), 0];
    assert_eq!(call(context, libc::SYS_unlinkat, args), Ok(0));
    assert_eq!(call(context, libc::SYS_unlinkat, args), Err(Errno::NOENT));
}

/// An `open` that waits for another process does not block the caller.
fn fifo(context: &mut Context, way: &Way) {
    if !needs_helpers(way) {
        return;
    }
    let directory = temp::scratch();
    let path = directory.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    let name = cstring(&path);
    let flags = libc::O_WRONLY | libc::O_CLOEXEC;
    let args = [libc::AT_FDCWD.arg(), name.arg(), flags.arg(), 0];
    // SAFETY: the name outlives the call, which is over.
    let opened = unsafe { context.call(Call::new(libc::SYS_openat, args)) };
    assert_eq!(opened, Outcome::Done(Err(Errno::AGAIN)));
}
