//! A tracer that changes names, as proot does, sees every name that the program uses.

use crate::harness::{Arg, LIMIT, at_mut, call, cstring, for_each_backend, own, zeroed};
use laio::{BackendKind, Context, Options};
use laio_testing::{child, test_name};
use std::path::Path;
use std::process::Command;

/// Traces this process, which must be a child of its own, by a process that changes nothing.
fn trace() {
    let (ours, theirs) = rustix::pipe::pipe().expect("a pipe");
    // SAFETY: the tracer makes system calls only, and ends with `_exit`.
    unsafe {
        let traced = libc::getpid();
        if libc::fork() == 0 {
            let none = std::ptr::null_mut::<libc::c_void>();
            let seized = libc::ptrace(libc::PTRACE_SEIZE, traced, none, none) == 0;
            rustix::io::write(&theirs, &[u8::from(seized)]).ok();
            let mut status = 0;
            while libc::waitpid(traced, &mut status, libc::__WALL) == traced
                && libc::WIFSTOPPED(status)
            {
                let signal = match status >> 16 {
                    0 => libc::WSTOPSIG(status),
                    _ => 0,
                };
                libc::ptrace(libc::PTRACE_CONT, traced, none, signal as usize);
            }
            libc::_exit(0);
        }
    }
    let mut seized = [0u8];
    rustix::io::read(&ours, &mut seized).expect("an answer");
    assert_eq!(seized, [1], "a process traces its parent");
}

#[test]
fn a_traced_process_has_no_ring_unless_it_asks_for_one() {
    if laio_testing::lacks("native") || laio_testing::lacks("root") {
        return;
    }
    child::check(LIMIT, test_name!(), "", || {
        trace();
        let lazy = Context::new(Options::new().backend(BackendKind::Lazy)).expect("a context");
        let info = lazy.info();
        assert!(!info.has_ring() && !info.can_try_opens());
        assert!(info.traced_by().is_some_and(|tracer| tracer.ends_with(')')));
        if let Ok(uring) = Context::new(Options::new().backend(BackendKind::Uring)) {
            assert!(uring.info().has_ring());
        }
    });
}

#[test]
fn a_debugger_changes_no_names() {
    if laio_testing::lacks("strace") || laio_testing::lacks("io_uring") {
        return;
    }
    let mark = "LAIO_TEST_TRACED";
    if std::env::var_os(mark).is_some() {
        let context = Context::new(Options::new().backend(BackendKind::Lazy)).expect("a context");
        assert!(context.info().has_ring() && context.info().traced_by().is_none());
        return;
    }
    let status = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "trace=none"])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test_name!()])
        .env(mark, "")
        .status();
    assert!(status.expect("strace").success());
}

/// Where proot shows the directory of this test.
const GUEST: &str = "/laio-guest";

#[test]
fn names_reach_an_emulator() {
    if laio_testing::lacks("proot") {
        return;
    }
    let mark = "LAIO_TEST_TRACED";
    if std::env::var_os(mark).is_some() {
        return emulated();
    }
    let host = laio_testing::temp::scratch();
    std::fs::write(host.path().join("file"), "of the guest").expect("a file");
    let status = Command::new("proot")
        .arg("-b")
        .arg(format!("{}:{GUEST}", host.path().display()))
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test_name!(), "--nocapture"])
        .env(mark, "")
        .status();
    assert!(status.expect("proot").success());
    assert!(host.path().join("sync").is_dir(), "the test ran in proot");
    assert!(!Path::new(GUEST).exists());
}

/// Under proot: each back end finds what a plain call finds.
fn emulated() {
    for_each_backend(|way| {
        // By its name the program asks for what proot does not see.
        if way.backend == BackendKind::Uring {
            return;
        }
        let mut context = way.context();
        let here = libc::AT_FDCWD.arg();
        let made = format!(
            "{GUEST}/{}{}",
            way.backend,
            if way.without_ring { "-" } else { "" }
        );
        let name = cstring(&made);
        let args = [here, name.arg(), 0o700];
        assert_eq!(call(&mut context, libc::SYS_mkdirat, args), Ok(0));
        // By `openat`: proot does not know `statx`.
        assert!(std::fs::File::open(&made).is_ok());
        let name = cstring(format!("{GUEST}/file"));
        let args = [here, name.arg(), libc::O_CLOEXEC.arg()];
        let file = own(call(&mut context, libc::SYS_openat, args));
        let mut stat: libc::stat = zeroed();
        let args = [file.arg(), at_mut(&mut stat)];
        assert_eq!(call(&mut context, libc::SYS_fstat, args), Ok(0));
        assert_eq!(stat.st_size, 12);
        let mut stat: libc::stat = zeroed();
        let args = [here, name.arg(), at_mut(&mut stat), 0];
        assert_eq!(call(&mut context, libc::SYS_newfstatat, args), Ok(0));
        assert_eq!(stat.st_size, 12);
    });
}
