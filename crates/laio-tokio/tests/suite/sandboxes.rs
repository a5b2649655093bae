//! All other tests once more, in processes as people deploy them.

use laio_testing::forbid::{self, DOCKER, Forbid};
use laio_testing::{NO_SKIP, SKIPS};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

#[test]
fn every_other_test_without_io_uring() {
    every_other_test(|command| forbid::restrict(command, &Forbid::io_uring(libc::EPERM)));
}

/// The filter, with `no_new_privs`, and the capabilities that Docker leaves to root.
#[test]
fn every_other_test_as_in_docker() {
    every_other_test(|command| {
        may_skip(command);
        // SAFETY: the closure makes system calls only.
        unsafe { command.pre_exec(|| keep_capabilities(DOCKER_CAPABILITIES)) };
        forbid::restrict(command, &Forbid::new(DOCKER, libc::EPERM));
    });
}

/// As a service of systemd with a user of its own: with `no_new_privs`, without capabilities or filters.
#[test]
fn every_other_test_without_capabilities() {
    // The oracle itself looks into directories that only root may read.
    every_test_but(&["sandboxes", "oracle"], |command| {
        may_skip(command);
        // SAFETY: as above.
        unsafe {
            command.pre_exec(|| {
                check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
                keep_capabilities(0)
            });
        }
    });
}

#[test]
fn every_other_test_on_one_processor() {
    every_other_test(|command| {
        // SAFETY: as above.
        unsafe {
            command.pre_exec(|| {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap_or(0), &mut one);
                check(libc::sched_setaffinity(0, size_of_val(&one), &one).into())
            });
        }
    });
}

fn every_other_test(restrict: impl FnOnce(&mut Command)) {
    every_test_but(&["sandboxes"], restrict);
}

fn every_test_but(skipped: &[&str], restrict: impl FnOnce(&mut Command)) {
    if laio_testing::lacks("seccomp") {
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("the test program"));
    command.args(skipped.iter().flat_map(|name| ["--skip", name]));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    restrict(&mut command);
    let child = command.spawn().expect("a child");
    let output = child.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("test names::"), "{text}");
}

/// What needs root or mounts a file system cannot run here, and runs outside of the sandbox.
fn may_skip(command: &mut Command) {
    command.env_remove(NO_SKIP).env_remove(SKIPS);
}

/// The default capabilities of Docker, without `CAP_SYS_ADMIN`.
const DOCKER_CAPABILITIES: u32 = 0xa804_25fb;

/// Drops all other capabilities, also those that root would gain by starting a program.
fn keep_capabilities(kept: u32) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let sets = [kept, kept, 0, 0, 0, 0];
    for number in 0..64 {
        if number >= 32 || kept >> number & 1 == 0 {
            // EINVAL: this kernel does not know the capability. EPERM: a user other than root has none.
            // SAFETY: takes no pointers.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        }
    }
    // SAFETY: geteuid takes no arguments; the kernel reads the header and two structs of three words.
    unsafe {
        if libc::geteuid() != 0 {
            return Ok(());
        }
        check(libc::syscall(libc::SYS_capset, &header, &sets))
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
