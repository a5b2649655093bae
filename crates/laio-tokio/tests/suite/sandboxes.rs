//! All other tests once more, in processes as people deploy them.

use laio_testing::forbid::{self, Forbid};
use laio_testing::{NO_SKIP, SKIPS, sandbox};
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
        sandbox::keep_capabilities(command, DOCKER_CAPABILITIES);
        forbid::restrict(command, &Forbid::docker());
    });
}

/// As a service of systemd with a user of its own: with `no_new_privs`, without capabilities or filters.
#[test]
fn every_other_test_without_capabilities() {
    // The oracle itself looks into directories that only root may read.
    every_test_but(&["sandboxes", "oracle"], |command| {
        may_skip(command);
        sandbox::set_no_new_privs(command);
        sandbox::keep_capabilities(command, 0);
    });
}

#[test]
fn every_other_test_on_one_processor() {
    every_other_test(sandbox::keep_one_processor);
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
